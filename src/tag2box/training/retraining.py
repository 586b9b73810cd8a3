"""Retraining: an SVM on the boxes that were found, with the windows near them as negatives. Beyond the paper.

In every positive photo the window of the best score is taken for the object. Windows that overlap it much are
positives too; those that overlap it little are negatives, as are all windows of negative photos. So a part of
the object is a negative, which it never is for a latent SVM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.errors import InputError
from tag2box.features.record import Features
from tag2box.maps.object_maps import Maps
from tag2box.runtime.blas import one_thread
from tag2box.runtime.checks import Choice, Overlap, Range, Seed, Share
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_threads
from tag2box.runtime.halves import as_float32
from tag2box.runtime.progress import Progress, silent
from tag2box.training.calibration import calibrate
from tag2box.training.findings import Best, Refined, best_windows
from tag2box.training.initial import InitialConfig, train_svms
from tag2box.training.photo_parts import Photos, in_parts, join_best
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights, score_photos
from tag2box.training.two_stream import TwoStream
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

__all__ = ["RetrainConfig", "beside", "find_boxes", "findings", "label_windows", "retrain", "score_all"]

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

HALF = np.float32(0.5)
# The overlap from which two ways to find a box agree.
AGREE = 0.7


@dataclass(frozen=True)
class RetrainConfig(Settings):
    """Settings of the retraining: an SVM on the boxes that were found.

    Parameters
    ----------
    method : {"svm", "none"}, default="svm"
        Whether to retrain; "none" keeps the detector of the refinement, as in the paper.
    C : float, default=0.001
        The weight of the loss, for features of length 20.
    positive_iou : float, default=0.6
        Windows that overlap a found box by at least this are positives.
    positives : int, default=5
        The greatest number of positives of a box, the nearest first.
    near : tuple of float, default=(0.1, 0.4)
        Windows whose overlap with the box lies between these are negatives: nearer ones may be right, and
        farther ones may show another object.
    objectness_weight : float, default=0.5
        What the best objectness of a photo adds to the score of a window.
    tag_weight : float, default=0.2
        What the logit of the photo's tag adds to it.
    seed : int, default=0
        The seed of the first negatives.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.RetrainConfig(method="none").positives
    5
    """

    method: Annotated[str, Choice("svm", "none")] = "svm"
    C: Annotated[float, Range(1e-9, 1_000_000)] = 1e-3
    positive_iou: Share = 0.6
    positives: Annotated[int, Range(1, 10_000)] = 5
    near: Annotated[tuple[Overlap, ...], Range(2, 2)] = (0.1, 0.4)
    objectness_weight: Annotated[float, Range(0, 1000)] = 0.5
    tag_weight: Annotated[float, Range(0, 1000)] = 0.2
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.near[0] <= self.near[1] <= self.positive_iou:
            raise InputError(
                f"near must be two overlaps, from 0 up to positive_iou, but it is {self.near} with a "
                f"positive_iou of {self.positive_iou}"
            )

    @property
    def svm(self) -> InitialConfig:
        """The settings of the SVM itself."""
        return InitialConfig(C=self.C, seed=self.seed)


def find_boxes(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    objectness: Floats,
    two_stream: TwoStream,
    *,
    workers: int | None = 1,
) -> tuple[Rows, ...]:
    """The window of each positive photo that is taken for the object: rows of X, one array per class.

    By the objectness plus half the logarithm of the score of the two streams.
    """
    parts = in_parts(windows, features, tags, objectness)
    found = list(map_threads(partial(_boxes_of, two_stream), parts, workers=workers))
    return join_best(found).rows if found else tuple(np.empty(0, np.int64) for _ in tags.T)


def _boxes_of(two_stream: TwoStream, some: Photos) -> Best:
    photos = zip(some.windows.by_image(some.X), some.windows.by_image(some.objectness), strict=True)
    scores = (o + HALF * two_stream.log_scores(X, o) for X, o in photos)
    return best_windows(some.windows, some.tags, scores, first=some.first)


def label_windows(
    windows: Windows, tags: NDArray[np.int8], boxes: Sequence[Rows], config: RetrainConfig
) -> tuple[list[Rows], list[Spans]]:
    """The positives and the negatives of each class: rows of X."""
    positives, negatives = [], []
    for column, found in zip(tags.T, boxes, strict=True):
        mine, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for row, image in zip(found.tolist(), windows.image_of(found).tolist(), strict=True):
            close, around = beside(windows, image, windows.xyxy[[row]], config)
            mine.append(close)
            others.append(around)
        positives.append(np.concatenate(mine))
        negatives.append(Spans.of_images(windows, column == -1) | Spans.of_rows(np.concatenate(others)))
    return positives, negatives


def beside(
    windows: Windows, image: int, boxes: Floats, config: RetrainConfig, *, everything: bool = False
) -> tuple[Rows, Rows]:
    """The windows of a photo that are positives beside these boxes, and those that are negatives.

    everything: the boxes are all objects of the photo, so that windows far from them are negatives too.
    """
    overlap = iou_matrix(boxes, windows[image])  # (n_boxes, n_windows)
    first = windows.offsets[image]
    close = [np.empty(0, np.int64)]
    for row in overlap:
        some = np.flatnonzero(row >= config.positive_iou)
        close.append(first + some[np.argsort(-row[some], kind="stable")[: config.positives]])
    low, high = config.near
    most = overlap.max(axis=0)
    around = most < high if everything else (most > low) & (most < high)
    return np.concatenate(close), first + np.flatnonzero(around)


def retrain(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    boxes: Sequence[Rows],
    config: RetrainConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Weights:
    """The SVM of every class on the `boxes` found in its positive photos."""
    positives, negatives = label_windows(windows, tags, boxes, config)
    return train_svms(
        features,
        positives,
        negatives,
        config.svm,
        workers=workers,
        progress=progress,
        label="retraining",
    )


def findings(
    scorer: Scorer,
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    maps: Maps,
    objectness: Floats,
    vote_iou: float,
    *,
    workers: int | None = 1,
) -> Refined:
    """What the scorer finds in the photos learned from; objectness: (n_windows, n_classes), by their tags.

    One pass over the features and the maps, part by part on the workers.
    """
    parts = in_parts(windows, features, tags, objectness, maps)
    done = list(map_threads(partial(_findings_of, scorer, vote_iou), parts, workers=workers))
    best, others = join_best([part[0] for part in done]), join_best([part[1] for part in done])
    curves = calibrate(np.concatenate([part[2] for part in done]), tags)
    w = scorer.weights
    reliability = agreement(best.boxes, others.boxes)
    return Refined(w.W, w.b, w.trace, best.rows, curves, best.scores, reliability, best.boxes)


def _findings_of(scorer: Scorer, vote_iou: float, some: Photos) -> tuple[Best, Best, Floats]:
    """The best windows by all that is known, those by objectness alone, and the best scores without tags."""
    windows, tags, unaided = some.windows, some.tags, []

    def scores() -> Iterator[Floats]:
        plain = score_photos(some.X, windows.offsets, scorer.weights)
        for i, ((a, z), mine) in enumerate(zip(windows.spans(), plain, strict=True)):
            X, map_ = as_float32(some.X[a:z]), some.maps[i] if some.maps else None
            photo = X, windows[i], windows.sizes[i], map_
            unaided.append((mine + scorer.beyond(*photo)).max(axis=0, initial=-np.inf))
            yield mine + scorer.beyond(*photo, some.objectness[a:z])

    best = best_windows(windows, tags, scores(), vote_iou, some.first)
    others = best_windows(windows, tags, windows.by_image(some.objectness), vote_iou, some.first)
    return best, others, np.stack(unaided)


def agreement(found: Sequence[Floats], others: Sequence[Floats]) -> NDArray[np.float64]:
    """The share of each class's boxes, (n, 4), that another way to find them puts nearly there, (n_classes,).

    Nobody says which boxes are right. But two ways that err differently agree where both are, mostly: so the
    share estimates that. Boxes are right from an overlap of a half; as both ways err alike in part, only a
    closer one (`AGREE`) counts here. One agreement and one disagreement are added.
    """
    out = []
    for mine, theirs in zip(found, others, strict=True):
        same = [iou_matrix(a[None], b[None])[0, 0] >= AGREE for a, b in zip(mine, theirs, strict=True)]
        out.append((sum(same) + 1) / (len(same) + 2))
    return np.array(out)


def score_all(
    scorer: Scorer, windows: Windows, features: Features, maps: Maps | None, objectness: Floats | None
) -> Iterator[Floats]:
    """The scores of each photo's windows, (n_i, n_classes)."""
    plain = score_photos(features.X, windows.offsets, scorer.weights)
    for i, ((a, z), scores) in enumerate(zip(windows.spans(), plain, strict=True)):
        mine = None if objectness is None else objectness[a:z]
        photo = features.X[a:z], windows[i], windows.sizes[i], maps[i] if maps else None
        with one_thread():  # products of one photo are small
            beyond = scorer.beyond(*photo, mine)
        yield scores + beyond
