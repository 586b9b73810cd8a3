"""Retraining: an SVM on the boxes that were found, with the windows near them as negatives. Beyond the paper.

In every positive photo a box is taken for the object: the window of the best score, or where the windows near
it say that the object is (`folds`). Windows that overlap it much are positives; those that overlap it little
are negatives, as are all windows of negative photos. So a part of the object is a negative, which it never is
for a latent SVM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.errors import InputError
from tag2box.runtime.checks import Choice, Overlap, Range, Seed, Share
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.findings import Best, best_windows, join_best
from tag2box.training.initial import InitialConfig, train_svms
from tag2box.training.known import Known
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream
from tag2box.training.unseen import Unseen
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

HALF = np.float32(0.5)


@dataclass(frozen=True)
class RetrainConfig(Settings):
    """Settings of the retraining: an SVM on the boxes that were found.

    Parameters
    ----------
    C : float, default=0.001
        The weight of the loss, for features of length 20.
    positive_iou : float, default=0.6
        Windows that overlap a found box by at least this are positives.
    positives : int, default=5
        The greatest number of positives of a box, the nearest first.
    near : tuple of float, default=(0.1, 0.4)
        Windows whose overlap with the box lies between these are negatives: nearer ones may be right, and
        farther ones may show another object.
    rounds : int, default=2
        The number of times that the boxes are found anew, each photo by an SVM that has not seen it. 0 keeps
        those of the two streams.
    vote_iou : float, default=0.3
        A box in a photo learned from is the mean of the windows that overlap the best one by at least this,
        weighted by exp(score). With 1 it is that window.
    objectness_weight : float or "auto", default="auto"
        What the best objectness of a photo adds to the score of a window. "auto" is a tenth of the prior of
        the two streams.
    tag_weight : float, default=0.2
        What the logit of the photo's tag adds to it.
    seed : int, default=0
        The seed of the first negatives.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.RetrainConfig(positive_iou=0.7).positives
    5
    """

    C: Annotated[float, Range(1e-9, 1_000_000)] = 1e-3
    positive_iou: Share = 0.6
    positives: Annotated[int, Range(1, 10_000)] = 5
    near: Annotated[tuple[Overlap, ...], Range(2, 2)] = (0.1, 0.4)
    rounds: Annotated[int, Range(0, 100)] = 2
    # Less than in detection, where another object may be near: parts of one grow to the whole of it.
    vote_iou: Share = 0.3
    objectness_weight: Annotated[float, Range(0, 1000)] | Annotated[str, Choice("auto")] = "auto"
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


@stored
@dataclass(frozen=True)
class Found:
    """What is taken for the object in each positive photo, in order, for each class.

    rows: of X, the best window; boxes: (n, 4), where the object is. unseen: what SVMs say that have not seen
    the photo; None without any.
    """

    rows: tuple[Rows, ...]
    boxes: tuple[Floats, ...]
    unseen: Unseen | None = None

    @staticmethod
    def windows(windows: Windows, rows: Sequence[Rows]) -> "Found":
        """These windows themselves."""
        return Found(tuple(rows), tuple(windows.xyxy[of_class] for of_class in rows))


@stage("boxes", version=2)
def find_boxes(known: Known, two_stream: TwoStream, *, workers: int | None = 1) -> Found:
    """The window of each positive photo that is taken for the object.

    By the objectness plus half the logarithm of the score of the two streams.
    """
    parts = list(map_threads(partial(_find_boxes, two_stream), known.parts(), workers=workers))
    best = join_best(parts)
    return Found(best.rows, best.boxes)


def _find_boxes(two_stream: TwoStream, part: tuple[int, Known]) -> Best:
    first, known = part
    assert known.objectness is not None
    described, objectness = known.described, known.objectness.values
    photos = zip(described.by_image(described.X), described.by_image(objectness), strict=True)
    scores = (o + HALF * two_stream.log_scores(X, o) for X, o in photos)
    return best_windows(described.windows, known.tags, scores, first=first)


def label_windows(
    windows: Windows,
    tags: NDArray[np.int8],
    found: Found,
    config: RetrainConfig,
    photos: NDArray[np.bool_] | None = None,
) -> tuple[list[Rows], list[Spans]]:
    """The positives and the negatives of each class: rows of X. photos: those to learn from, if not all."""
    learned = np.ones(len(tags), np.bool_) if photos is None else photos
    positives, negatives = [], []
    for column, rows, boxes in zip(tags.T, found.rows, found.boxes, strict=True):
        near_boxes, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for box, image in zip(boxes, windows.image_of(rows).tolist(), strict=True):
            if learned[image]:
                close, around = label_near(windows, image, box[None], config)
                near_boxes.append(close)
                others.append(around)
        positives.append(np.concatenate(near_boxes))
        negative = Spans.of_images(windows, (column == -1) & learned)
        negatives.append(negative | Spans.of_rows(np.concatenate(others)))
    return positives, negatives


def label_near(
    windows: Windows, image: int, boxes: Floats, config: RetrainConfig, *, everything: bool = False
) -> tuple[Rows, Rows]:
    """The windows of a photo that are positives beside these boxes, and those that are negatives.

    everything: the boxes are all objects of the photo, so that windows far from them are negatives too.
    """
    overlap = iou_matrix(boxes, windows[image])  # (n_boxes, n_windows)
    first = windows.offsets[image]
    close = [np.empty(0, np.int64)]
    for row in overlap:
        similar = np.flatnonzero(row >= config.positive_iou)
        close.append(first + similar[np.argsort(-row[similar], kind="stable")[: config.positives]])
    low, high = config.near
    most = overlap.max(axis=0)
    around = most < high if everything else (most > low) & (most < high)
    return np.concatenate(close), first + np.flatnonzero(around)


@stage("retrained", version=3)
def retrain(
    known: Known,
    found: Found,
    config: RetrainConfig,
    photos: NDArray[np.bool_] | None = None,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Weights:
    """The SVM of every class on the boxes found in its positive photos. photos: those to learn from."""
    positives, negatives = label_windows(known.described.windows, known.tags, found, config, photos)
    return train_svms(
        known.described.X,
        positives,
        negatives,
        config.svm,
        workers=workers,
        progress=progress,
        label="retraining",
    )
