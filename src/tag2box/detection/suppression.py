"""`detect_windows`: from the scores of one image's windows to its boxes, by NMS, box voting and NMS again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.boxes import as_boxes, nms, vote
from tag2box.detection.detections import Detections
from tag2box.errors import InputError

# Boxes of a class that overlap by more once they are voted are of one object, as evaluation has it.
SAME = 0.5


def detect_windows(
    scores: ArrayLike,
    windows: ArrayLike,
    *,
    image: int = 0,
    iou_threshold: float = 0.3,
    vote_iou: float = 1.0,
    min_score: float = -np.inf,
    classes: Sequence[str] | None = None,
) -> Detections:
    """Turn the scores of one image's windows into detections.

    Non-maximum suppression, class by class, then box voting, then suppression of the boxes that voting has
    moved onto a better one.

    Parameters
    ----------
    scores : array-like of shape (n_windows, n_classes)
        The score of each window for each class.
    windows : array-like of shape (n_windows, 4)
        The windows as x1, y1, x2, y2.
    image : int, default=0
        The index of the image, for the result.
    iou_threshold : float, default=0.3
        A window is dropped if its intersection over union with a better one of its class is greater than
        this.
    vote_iou : float, default=1.0
        A detection is the mean of the windows that overlap it by at least this, weighted by exp(score). With
        1 it stays the window that it is.
    min_score : float, default=-inf
        The lowest score of a detection.
    classes : sequence of str, default=None
        The names of the classes, for the result.

    Returns
    -------
    Detections
        The detections by class, best first; ties go to the earlier window. Join those of many images with
        `Detections.concatenate(parts, ids=images.ids)`.

    Examples
    --------
    >>> import tag2box as t2b
    >>> windows = [[0, 0, 10, 10], [1, 0, 10, 10], [20, 20, 30, 30]]
    >>> detections = t2b.detect_windows([[0.2], [0.9], [0.5]], windows, min_score=0.1)
    >>> detections.score.tolist()
    [0.9, 0.5]
    """
    boxes, score = as_boxes(windows), np.asarray(scores, dtype=np.float64)
    if score.ndim != 2 or len(score) != len(boxes):
        raise InputError(
            f"scores must be (n_windows, n_classes) with one row per window: "
            f"{len(boxes)} windows, scores of shape {score.shape}"
        )
    if not np.isfinite(score).all():
        raise InputError("scores must be finite, but some are NaN or infinite")
    if classes is not None and score.shape[1] != len(classes):
        raise InputError(
            f"scores must have one column per class, {len(classes)}, but they have {score.shape[1]}"
        )
    parts = [_of_class(boxes, column, iou_threshold, vote_iou, min_score) for column in score.T]
    label = np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts])
    row = np.concatenate([np.empty(0, np.intp), *(rows for rows, _ in parts)])
    return Detections(
        image=np.full(len(row), image, dtype=np.intp),
        xyxy=np.concatenate([np.empty((0, 4), np.float32), *(found for _, found in parts)]),
        score=score[row, label],
        label=label,
        classes=None if classes is None else tuple(classes),
    )


def _of_class(
    boxes: NDArray[np.float32],
    score: NDArray[np.float64],
    iou_threshold: float,
    vote_iou: float,
    min_score: float,
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The windows kept of one class, best first, and their boxes."""
    candidates = np.flatnonzero(score >= min_score)
    rows = candidates[nms(boxes[candidates], score[candidates], iou_threshold)]
    if vote_iou >= 1:
        return rows, boxes[rows]
    voted = vote(boxes, score, rows, vote_iou)
    kept = nms(voted, score[rows], SAME)
    return rows[kept], voted[kept]
