"""Tables 2 and 3: detection on VOC 2007 from tags, ours beside the paper's.

Train on trainval with tags, score test by the devkit's rules. Photos of either are described once for all
rows and seeds of a method; what was computed is found again. Seeds are those of the first negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.description.photos import describe_photos, hash_photos
from tag2box.description.record import Described
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import InputError
from tag2box.evaluation.scores import corloc, evaluate
from tag2box.images import ImageSet
from tag2box.run.folder import RunFolder, fit_run, mined_windows
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.windows.record import Windows

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
class VocCell:
    """One row of the table for one seed: AP07 and CorLoc per class, and what each stage of training cost."""

    row: str
    seed: int
    ap: dict[str, float]
    corloc: dict[str, float]
    costs: dict[str, Any]


def row_settings(row: str, seed: int, base: Config | None = None) -> Config:
    """The settings of a row of the table: the paper's, but for ours the defaults.

    base: other settings to start from.
    """
    if row == OURS:
        config = base or Config()
        return replace(config, method="two_stream", retrain=replace(config.retrain, seed=seed))
    config = base or Config.song2014()
    cover, refine = config.cover, config.refine
    if row == "negative mining + SVM":
        cover = replace(cover, initializer="negative_mining")
    refine = replace(refine, method={"Cover + LSVM": "lsvm", "Cover + SLSVM": "slsvm"}.get(row, "none"))
    return replace(
        config, method="song2014", cover=cover, initial=replace(config.initial, seed=seed), refine=refine
    )


def run_voc_table(
    data: Path,
    classes: Sequence[str],
    out: Path,
    *,
    seeds: int,
    rows: Sequence[str] = (*ROWS, OURS),
    workers: int | None,
    progress: Progress = silent,
    base: Config | None = None,
) -> list[VocCell]:
    """Every row of the table, for every seed."""
    train, test = (_only(read_images(data, split=split), classes) for split in ("trainval", "test"))
    if test.truth is None or train.truth is None:
        raise InputError(f"{data} has no Annotations: the tables need the true boxes, for evaluation only")
    cells = []
    for seed in range(seeds):
        for row in rows:
            config = row_settings(row, seed, base)
            costs = fit_run(
                replace(train, truth=None), config, out / "train", workers=workers, progress=progress
            )
            run = RunFolder(out / "train")
            described = describe_test(test, run, out / "test", workers, progress)
            ap = evaluate(detect_described(run.detector, test, described), test)
            share = corloc(mined_windows(run), train)
            cells.append(
                VocCell(
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
) -> Described:
    """The test images, as the run describes its own; computed once."""
    store = Store(out)
    with store.lock():
        run = Run(store, workers=workers, progress=progress)
        photos = hash_photos(images, progress=progress)
        return run.per_photo(describe_photos, photos, trained.result("description"))


def detect_described(detector: Detector, images: ImageSet, described: Described) -> Detections:
    """What `detector.detect` finds, in photos that are described already.

    Scores are margins, by which the tables rank boxes: two confidences may be rounded to the same number.
    """
    asked, context = detector.settings, detector.description.context
    ranking = replace(detector, settings=replace(asked, confidence=False, min_score=-np.inf))
    parts = []
    for i in range(len(described)):
        photo = described.part(i, i + 1)
        map_ = photo.map_of(0)
        if context is not None and map_ is not None:
            rows = detector.promising(photo.windows, photo.X[:, -context.width :], map_)
            windows = Windows.of_image(photo.windows.xyxy[rows], tuple(photo.windows.sizes[0]))
            photo = Described(windows, photo.X[rows], photo.maps)
        scores = detector.scorer(photo.X, photo.windows.xyxy, photo.windows.sizes[0], map_)
        boxes = ranking.select(scores, photo.windows)
        compared = detector.confidence(boxes) if asked.confidence else boxes
        boxes = boxes[compared.score >= asked.min_score]
        parts.append(replace(boxes, image=boxes.image + i))
    return Detections.concatenate(parts, ids=images.ids)
