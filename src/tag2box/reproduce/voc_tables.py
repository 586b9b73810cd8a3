"""Tables 2 and 3: detection on VOC 2007 from tags, ours beside the paper's.

Train on trainval with tags, score test by the devkit's rules. Windows and features of either are computed
once and serve every row and seed; what was computed is found again. Seeds are those of the first negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.cover.config import CoverConfig
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import InputError
from tag2box.evaluation.scores import corloc, evaluate
from tag2box.features.record import Features
from tag2box.images import ImageSet
from tag2box.maps.object_maps import Maps
from tag2box.run_folder import RunFolder, fit_run, mined_windows
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.sharded import Description, find_all_features, find_all_windows, find_maps
from tag2box.stages import VERSIONS, Config, stage_keys, uses_maps
from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.retraining import RetrainConfig
from tag2box.windows.search import Windows

__all__ = [
    "CLASSES",
    "OURS",
    "PAPER",
    "ROWS",
    "SIX",
    "describe_test",
    "detect_described",
    "run_voc_table",
]

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable"),
    *("dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
SIX = ("aeroplane", "bicycle", "boat", "bus", "horse", "motorbike")
ROWS = ("negative mining + SVM", "Cover + SVM", "Cover + LSVM", "Cover + SLSVM")
# Beyond the paper: the SVM on the boxes that the two-stream head finds.
OURS = "two streams + SVM"
# AP in per cent, from Tables 2 and 3 of the paper.
_SVM = (
    *(23.4, 43.5, 22.4, 8.1, 6.2, 33.9, 33.8, 30.4, 0.1, 17.9),
    *(11.5, 17.1, 24.7, 40.2, 2.4, 14.8, 21.4, 15.1, 31.9, 6.2),
)
_LSVM = (
    *(28.2, 47.2, 17.6, 9.6, 6.5, 34.7, 35.5, 31.5, 0.3, 21.7),
    *(13.2, 20.7, 25.2, 39.8, 12.6, 18.6, 21.2, 18.6, 31.7, 10.2),
)
_SLSVM = (
    *(27.6, 41.9, 19.7, 9.1, 10.4, 35.8, 39.1, 33.6, 0.6, 20.9),
    *(10.0, 27.7, 29.4, 39.2, 9.1, 19.3, 20.5, 17.1, 35.6, 7.1),
)
PAPER = {
    "negative mining + SVM": dict(zip(SIX, (23.2, 15.4, 5.1, 2.0, 6.2, 17.4), strict=True)),
    "Cover + SVM": dict(zip(CLASSES, _SVM, strict=True)),
    "Cover + LSVM": dict(zip(CLASSES, _LSVM, strict=True)),
    "Cover + SLSVM": dict(zip(CLASSES, _SLSVM, strict=True)),
}


@dataclass(frozen=True)
class Cell:
    """One row of the table for one seed: AP07 and CorLoc per class, and what each stage of training cost."""

    row: str
    seed: int
    ap: dict[str, float]
    corloc: dict[str, float]
    costs: dict[str, Any]


def settings(row: str, seed: int, *, paper: bool, base: Config | None = None) -> Config:
    """Our settings for a row of the table, or the paper's as closely as they can be had.

    Windows and features are those of `base`.
    """
    cover, initial, refine = CoverConfig(), InitialConfig(seed=seed), RefineConfig()
    if paper:
        cover = CoverConfig(method="marginal", snap="none", unknown="positive")
        initial = InitialConfig(C=1e-3, loss="smooth_hinge", seed=seed)
        refine = RefineConfig(
            prior=0.0, objectness_weight=0.0, C=1e-3, mu=0.01, loss="smooth_hinge", rounds=10, tol=1e-3
        )
    if row == "negative mining + SVM":
        cover = replace(cover, initializer="negative_mining")
    method = {"Cover + LSVM": "lsvm", "Cover + SLSVM": "slsvm"}.get(row, "none")
    refine = replace(refine, method=method)
    retrain = RetrainConfig(method="svm" if row == OURS else "none", seed=seed)
    config = replace(base or Config(), cover=cover, initial=initial, refine=refine, retrain=retrain)
    return replace(config, detect=replace(config.detect, vote_iou=1.0, full_windows=0)) if paper else config


def run_voc_table(
    data: Path,
    classes: Sequence[str],
    out: Path,
    *,
    seeds: int,
    paper: bool,
    workers: int | None,
    progress: Progress = silent,
    base: Config | None = None,
) -> list[Cell]:
    """Every row of the table, for every seed."""
    train, test = (_only(read_images(data, split=split), classes) for split in ("trainval", "test"))
    if test.truth is None or train.truth is None:
        raise InputError(f"{data} has no Annotations: the tables need the true boxes, for evaluation only")
    cells = []
    for seed in range(seeds):
        for row in ROWS if paper else (*ROWS, OURS):
            config = settings(row, seed, paper=paper, base=base)
            costs = fit_run(
                replace(train, truth=None), config, out / "train", workers=workers, progress=progress
            )
            run = RunFolder(out / "train")
            found = detect_described(
                run.detector, test, *describe_test(test, run, out / "test", workers, progress)
            )
            ap = evaluate(found, test)
            share = corloc(mined_windows(run), train)
            cells.append(
                Cell(
                    row,
                    seed,
                    {name: float(ap[name]) for name in classes},
                    {name: float(share[name]) for name in classes},
                    costs,
                )
            )
    return cells


def _only(images: ImageSet, classes: Sequence[str]) -> ImageSet:
    if missing := [name for name in classes if name not in images.classes]:
        raise InputError(f"the table needs the class {missing[0]}, but there are {', '.join(images.classes)}")
    return images.only(classes)


def describe_test(
    images: ImageSet, trained: RunFolder, out: Path, workers: int | None, progress: Progress
) -> tuple[Windows, Features, Maps | None]:
    """Windows, features and maps of the test images, as the run describes its own; computed once."""
    config, projection = trained.config, trained.result("projection")
    context = trained.result("context") if config.maps.context else None
    store = Store(out)
    with store.lock():
        runner = Runner(store, workers=workers, progress=progress)
        keys = stage_keys(images, config, runner)
        ours = trained.keys["features"]
        runner.keys = {
            "windows": keys["windows"],
            "features": stage_key("features", VERSIONS["features"], ours, keys["windows"]),
            "maps": keys["maps"],
        }
        windows = find_all_windows(images, config, runner)
        maps = find_maps(images, windows, config, runner) if uses_maps(config) else None
        features = find_all_features(images, windows, Description(projection, context, maps), config, runner)
    return windows, features, maps


def detect_described(
    detector: Detector, images: ImageSet, windows: Windows, features: Features, maps: Maps | None
) -> Detections:
    """What `detector.detect` finds, from windows, features and maps that are there already.

    Scores are margins, by which the tables rank boxes: two confidences may be rounded to the same number.
    """
    asked = detector.detect_config
    all_margins = replace(asked, confidence=False, min_score=-np.inf)
    ranking = replace(detector, detect_config=all_margins)
    parts = []
    for i, (a, z) in enumerate(windows.spans()):
        photo, X, map_ = windows.part(i, i + 1), features.X[a:z], maps[i] if maps else None
        if detector.context is not None:
            rows = detector.promising(X[:, -detector.context.width :], photo, map_)
            photo, X = Windows.of_image(photo.xyxy[rows], tuple(photo.sizes[0])), X[rows]
        scores = detector.scorer(X, photo.xyxy, photo.sizes[0], map_)
        found = ranking.select(scores, photo)
        compared = detector.confidence(found) if asked.confidence else found
        found = found[compared.score >= asked.min_score]
        parts.append(replace(found, image=found.image + i))
    return Detections.concatenate(parts, ids=images.ids)
