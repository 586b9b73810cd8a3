"""Tables 2 and 3: detection on VOC 2007 from tags, ours beside the paper's.

Train on trainval with tags, score test by the devkit's rules. Photos of either are described once for all
rows of a method and seed; what was computed is found again. A seed is that of the sample which the projection
is fitted on, which moves the paper's rows most, and of the first negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.description.photos import describe_photo, make_of_each
from tag2box.description.record import Described
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import InputError
from tag2box.evaluation.scores import corloc, evaluate
from tag2box.images import ImageSet
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, first_boxes, mined_windows
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

ROWS = ("negative mining + SVM", "Cover + SVM", "Cover + LSVM", "Cover + SLSVM")
# Beyond the paper: the SVM on the boxes that the two-stream head finds.
OURS = "two streams + SVM"


@dataclass(frozen=True)
class VocCell:
    """One row of the table for one seed: AP07 and CorLoc per class, and what each stage of training cost.

    first: CorLoc of the first windows, before anything is learned from them.
    """

    row: str
    seed: int
    ap: dict[str, float]
    corloc: dict[str, float]
    first: dict[str, float]
    costs: dict[str, Any]


def row_settings(row: str, seed: int, base: Config | None = None) -> Config:
    """The settings of a row of the table: the paper's, but for ours the defaults.

    base: other settings to start from.
    """
    if row == OURS:
        config = base or Config()
        retrain = replace(config.retrain, seed=seed)
        return replace(
            config, method="two_stream", features=replace(config.features, seed=seed), retrain=retrain
        )
    config = base or Config.song2014()
    cover, refine = config.cover, config.refine
    if row == "negative mining + SVM":
        cover = replace(cover, initializer="negative_mining")
    refine = replace(refine, method={"Cover + LSVM": "lsvm", "Cover + SLSVM": "slsvm"}.get(row, "none"))
    return replace(
        config,
        method="song2014",
        features=replace(config.features, seed=seed),
        cover=cover,
        initial=replace(config.initial, seed=seed),
        refine=refine,
        # Tables rank by margins: to score photos by SVMs that have not seen them would be for nothing.
        detect=replace(config.detect, confidence=False),
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
            result = fit_run(
                replace(train, truth=None), config, out / "train", workers=workers, progress=progress
            )
            run = RunFolder(out / "train")
            if run.detector.settings.by == "windows":
                described = describe_test(test, run, out / "test", workers, progress)
                ap = evaluate(detect_described(run.detector, test, described), test)
            else:
                ap = evaluate(detect_run(run, test, workers=workers, progress=progress)[0], test)
            share, first = (corloc(boxes, train) for boxes in (mined_windows(run), first_boxes(run)))
            cells.append(
                VocCell(
                    row,
                    seed,
                    {name: float(ap[name]) for name in classes},
                    {name: float(share[name]) for name in classes},
                    {name: float(first[name]) for name in classes},
                    result.costs,
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
    """The test images, as its detector describes new ones; computed once."""
    store = Store(out)
    with store.lock():
        run = Run(store, workers=workers, progress=progress)
        description = trained.detector.searching
        photos, job = run.photos("described", description), partial(describe_photo, description)
        facts = make_of_each(images.paths, job, photos, run, label="described", known={})
        return Described.of_rows(photos.load([fact.sha256 for fact in facts]))


def detect_described(detector: Detector, images: ImageSet, described: Described) -> Detections:
    """What `detector.detect` finds, in photos that are described already.

    Scores are margins, by which the tables rank boxes: two confidences may be rounded to the same number.
    """
    asked, context = detector.settings, detector.description.context
    lowest = -np.inf if asked.confidence else asked.min_score
    ranking = replace(detector, settings=replace(asked, confidence=False, min_score=lowest))
    parts = []
    for i in range(len(described)):
        photo = described.part(i, i + 1)
        if context is not None and photo.maps is not None:
            photo = photo.only(detector.promising(replace(photo, X=photo.X[:, -context.width :])))
        scores, objectness = detector.scores(photo)
        boxes = ranking.select(scores, photo.windows)
        if asked.confidence:
            features = detector.features(boxes, photo.windows, objectness)
            boxes = boxes[detector.calibration(features, boxes.label) >= asked.min_score]
        parts.append(replace(boxes, image=boxes.image + i))
    return Detections.concatenate(parts, ids=images.ids)
