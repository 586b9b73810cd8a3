"""Box arithmetic. A box is float xyxy in pixels with x2 and y2 exclusive: width = x2 - x1."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.compiled import kernel
from tag2box.errors import InputError

__all__ = ["area", "as_boxes", "iou_matrix", "nms", "thin"]

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


def iou_matrix(a: Floats, b: Floats) -> Floats:
    """Intersection over union of every box of `a` with every box of `b`, (n, 4), (m, 4) -> (n, m)."""
    top_left = np.maximum(a[:, None, :2], b[None, :, :2])  # (n, m, 2)
    bottom_right = np.minimum(a[:, None, 2:], b[None, :, 2:])  # (n, m, 2)
    intersection = np.clip(bottom_right - top_left, 0, None).prod(axis=2)  # (n, m)
    union = area(a)[:, None] + area(b)[None, :] - intersection
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(union), where=union > 0))


def thin(boxes: ArrayLike, iou: float) -> NDArray[np.intp]:
    """Indices of the boxes that stay when, in the given order, near-duplicates of a kept box are dropped.

    A box goes when its IoU with one that was kept before it is greater than `iou`. With `iou=1`
    nothing goes; exact duplicates go for any smaller value.
    """
    return _thin(as_boxes(boxes), np.float32(_share(iou)))


def nms(boxes: ArrayLike, scores: ArrayLike, iou: float = 0.3) -> NDArray[np.intp]:
    """Non-maximum suppression: indices of the boxes kept, best score first; ties go to the smaller index."""
    boxes = as_boxes(boxes)
    score = np.asarray(scores, dtype=np.float64)
    if score.shape != (len(boxes),):
        raise InputError(f"one score per box, please: {len(boxes)} boxes, scores of shape {score.shape}")
    order = np.argsort(-score, kind="stable")
    return order[_thin(boxes[order], np.float32(_share(iou)))]


def _share(iou: float) -> float:
    if not 0 <= iou <= 1:
        raise InputError(f"iou must lie between 0 and 1, but it is {iou}")
    return iou


@kernel
def _thin(boxes: Boxes, iou: np.float32) -> NDArray[np.intp]:
    """IoU is at most the ratio of the areas, so a box is compared with the kept ones of its own class of area only.

    A class spans a factor of 1 / iou: what lies beyond the next class on either side cannot be near.
    """
    n = len(boxes)
    span = max(-1.001 * np.log(iou), 0.01)  # a little wide, against rounding
    size = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kind = (np.log(size) / span).astype(np.intp)
    kind -= kind.min() - 1 if n else 0
    last = np.full(kind.max() + 2 if n else 0, -1)  # the box kept last of each class of area
    before = np.empty(n, np.intp)  # and the one kept before each
    kept = np.empty(n, np.intp)
    n_kept = 0
    for i in range(n):
        near = False
        for k in range(kind[i] - 1, kind[i] + 2):
            j = last[k]
            while j >= 0 and not near:
                width = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
                height = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
                if width > 0 and height > 0:
                    shared = width * height
                    near = shared > iou * (size[i] + size[j] - shared)
                j = before[j]
        if not near:
            before[i] = last[kind[i]]
            last[kind[i]] = i
            kept[n_kept] = i
            n_kept += 1
    return kept[:n_kept].copy()
