"""Box arithmetic. A box is float xyxy in pixels with x2 and y2 exclusive: width = x2 - x1."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.runtime.compiled import kernel

Boxes = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]


def as_boxes(boxes: ArrayLike) -> Boxes:
    """`boxes` as a (n, 4) float32 array; an `InputError` where they are not that, or have no area."""
    out = np.asarray(boxes, dtype=np.float32)
    if out.size == 0:
        return out.reshape(0, 4)
    if out.ndim != 2 or out.shape[1] != 4:
        raise InputError(f"boxes must be an (n, 4) array of x1, y1, x2, y2, but the shape is {out.shape}")
    if not (np.isfinite(out).all() and (out[:, 2:] > out[:, :2]).all()):
        raise InputError("boxes must be finite with x2 > x1 and y2 > y1: is this x, y, width, height?")
    return out


def area(boxes: Floats) -> Floats:
    """Area of each box, (n, 4) -> (n,)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def as_xywh(boxes: Floats) -> NDArray[np.float64]:
    """Left, top, width and height of each box, (n, 4) -> (n, 4), as COCO has them."""
    xyxy = boxes.astype(np.float64)
    return np.hstack([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]])


def iou_matrix(a: Floats, b: Floats) -> Floats:
    """Intersection over union of every box of `a` with every box of `b`, (n, 4), (m, 4) -> (n, m)."""
    top_left = np.maximum(a[:, None, :2], b[None, :, :2])  # (n, m, 2)
    bottom_right = np.minimum(a[:, None, 2:], b[None, :, 2:])  # (n, m, 2)
    intersection = np.clip(bottom_right - top_left, 0, None).prod(axis=2)  # (n, m)
    union = area(a)[:, None] + area(b)[None, :] - intersection
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(union), where=union > 0))


def thin(boxes: ArrayLike, iou_threshold: float) -> NDArray[np.intp]:
    """Drop near-duplicates of boxes that come before them.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        The boxes as x1, y1, x2, y2, in order of preference.
    iou_threshold : float
        A box is dropped if its intersection over union with one kept before it is greater than this. With 1
        nothing is dropped; any smaller value drops exact duplicates.

    Returns
    -------
    ndarray of shape (n_kept,)
        The indices of the boxes that are kept, in the given order.

    Examples
    --------
    >>> from tag2box.boxes import thin
    >>> thin([[0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]], 0.8).tolist()
    [0, 2]
    """
    return _thin(as_boxes(boxes), _threshold(iou_threshold))


def nms(boxes: ArrayLike, scores: ArrayLike, iou_threshold: float = 0.3) -> NDArray[np.intp]:
    """Keep the best of overlapping boxes (non-maximum suppression).

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        The boxes as x1, y1, x2, y2 in pixels, x2 and y2 exclusive.
    scores : array-like of shape (n,)
        The score of each box; higher is better.
    iou_threshold : float, default=0.3
        A box is dropped if its intersection over union with a better one is greater than this.

    Returns
    -------
    ndarray of shape (n_kept,)
        The indices of the boxes that are kept, best score first; ties go to the smaller index.

    Examples
    --------
    >>> import tag2box as t2b
    >>> boxes = [[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]]
    >>> t2b.nms(boxes, [0.8, 0.9, 0.5]).tolist()
    [1, 2]
    """
    boxes = as_boxes(boxes)
    score = np.asarray(scores, dtype=np.float64)
    if score.shape != (len(boxes),):
        raise InputError(
            f"scores must have one entry per box, ({len(boxes)},), but their shape is {score.shape}"
        )
    order = np.argsort(-score, kind="stable")
    return order[_thin(boxes[order], _threshold(iou_threshold))]


def _threshold(iou_threshold: float) -> np.float32:
    if not 0 <= iou_threshold <= 1:
        raise InputError(f"iou_threshold must lie between 0 and 1, but it is {iou_threshold}")
    return np.float32(iou_threshold)


def vote(windows: ArrayLike, scores: ArrayLike, best: ArrayLike, iou_threshold: float = 0.4) -> Boxes:
    """Move boxes to where the windows near them say that the object is.

    Each box becomes the mean of the windows that overlap it, weighted by exp(score) (box voting, Gidaris and
    Komodakis 2015): windows hardly ever fit an object, and the errors of many cancel out.

    Parameters
    ----------
    windows : array-like of shape (n, 4)
        All windows of a photo as x1, y1, x2, y2.
    scores : array-like of shape (n,) or (k, n)
        Their scores, the same for all boxes or for each its own, as where boxes are of several classes.
        Windows of -inf have no vote.
    best : array-like of int of shape (k,)
        The windows to move, as indices of `windows`.
    iou_threshold : float, default=0.4
        Windows vote whose intersection over union with a box is at least this. With 1 no box moves.

    Returns
    -------
    ndarray of float32 of shape (k, 4)
        The boxes, in the order of `best`.

    Examples
    --------
    >>> from tag2box.boxes import vote
    >>> windows = [[0, 0, 10, 10], [0, 0, 14, 10], [40, 40, 50, 50]]
    >>> vote(windows, [0.0, 0.0, 0.0], [0]).tolist()
    [[0.0, 0.0, 12.0, 10.0]]
    """
    boxes, at = as_boxes(windows), np.asarray(best, dtype=np.intp)
    score = np.maximum(np.asarray(scores, np.float64), np.finfo(np.float64).min)  # a difference is a number
    score = np.broadcast_to(score, (len(at), len(boxes)))
    return as_boxes(_vote(boxes, score, at, _threshold(iou_threshold)))


def crowding(boxes: ArrayLike) -> NDArray[np.float32]:
    """The greatest IoU of each box with those before it that have half to twice its area, or 0."""
    return _crowding(as_boxes(boxes))


@kernel
def _thin(boxes: Boxes, iou: np.float32) -> NDArray[np.intp]:
    """IoU is at most the ratio of areas: only boxes whose areas differ by less than 1 / iou are compared."""
    kind, start = _area_classes(boxes, -np.log(iou))
    end = start.copy()
    held = np.empty_like(boxes)  # those kept, by class
    kept = np.empty(len(boxes), np.intp)
    n_kept = 0
    for i in range(len(boxes)):
        near = 0
        for k in range(kind[i] - 1, kind[i] + 2):
            for j in range(start[k], end[k]):
                shared, union = overlap(boxes[i], held[j])
                if shared > iou * union:
                    near = 1
                    break
            if near:
                break
        if not near:
            held[end[kind[i]]] = boxes[i]
            end[kind[i]] += 1
            kept[n_kept] = i
            n_kept += 1
    return kept[:n_kept].copy()


@kernel
def _crowding(boxes: Boxes) -> NDArray[np.float32]:
    kind, start = _area_classes(boxes, np.log(2.0))
    end = start.copy()
    held = np.empty_like(boxes)
    out = np.zeros(len(boxes), np.float32)
    size = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in range(len(boxes)):
        most = np.float32(0)
        for k in range(kind[i] - 1, kind[i] + 2):
            for j in range(start[k], end[k]):
                shared, union = overlap(boxes[i], held[j])
                area_j = union + shared - size[i]
                if shared > most * union and size[i] <= 2 * area_j and area_j <= 2 * size[i]:
                    most = shared / union
        out[i] = most
        held[end[kind[i]]] = boxes[i]
        end[kind[i]] += 1
    return out


@kernel
def _vote(
    boxes: Boxes, scores: NDArray[np.float64], best: NDArray[np.intp], iou: np.float32
) -> NDArray[np.float64]:
    out = np.zeros((len(best), 4))
    near = np.empty(len(boxes), np.bool_)
    for i, at in enumerate(best):
        most = scores[i, at]
        for j in range(len(boxes)):
            shared, union = overlap(boxes[at], boxes[j])
            near[j] = j == at or shared >= iou * union  # rounding may say that a window is not quite itself
            if near[j]:
                most = max(most, scores[i, j])
        total = 0.0
        for j in range(len(boxes)):
            if near[j]:
                weight = np.exp(scores[i, j] - most)
                total += weight
                out[i] += weight * boxes[j]
        out[i] /= total
    return out


@kernel
def _area_classes(boxes: Boxes, span: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The class of each box by the logarithm of its area, and where each class starts in a row of them all.

    Areas that differ by no more than exp(span) lie in the same class or in neighboring ones.
    """
    span = max(1.001 * span, 0.01)  # a little wide, against rounding
    size = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kind = (np.log(size) / span).astype(np.intp)
    if len(boxes):
        kind += 1 - kind.min()
    start = np.zeros(3 + (kind.max() if len(boxes) else 0), np.intp)
    for k in kind:
        start[k + 1] += 1
    return kind, np.cumsum(start)


@kernel
def overlap(a: Floats, b: Floats) -> tuple[Any, Any]:
    """Area of the intersection and of the union of two boxes, for other kernels."""
    width = max(min(a[2], b[2]) - max(a[0], b[0]), np.float32(0))
    height = max(min(a[3], b[3]) - max(a[1], b[1]), np.float32(0))
    shared = width * height
    return shared, (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
