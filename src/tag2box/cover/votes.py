"""What the windows of an image say together: the best of them, and a map of their votes."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.boxes import as_boxes
from tag2box.runtime.checks import check_share

Floats = NDArray[np.floating[Any]]

CELLS = 64  # the map's resolution along the longer side of what the windows span


def best_share(score: ArrayLike, offsets: ArrayLike, share: float) -> NDArray[np.bool_]:
    """A mask over the windows: the best-scored `share` of each image, at least one; ties to the smaller row.

    It keeps the selection to promising windows: the authors' release does so, by the degree.
    """
    value, bounds = np.asarray(score, dtype=np.float64), np.asarray(offsets, dtype=np.int64)
    check_share(share=share)
    kept = np.zeros(len(value), np.bool_)
    for a, z in pairwise(bounds):
        kept[a + np.argsort(-value[a:z], kind="stable")[: int(np.ceil(share * (z - a)))]] = True
    return kept


def vote_map(xyxy: ArrayLike, degree: ArrayLike, power: float = 3.0) -> tuple[NDArray[np.float64], float]:
    """The map of one image's votes, (height, width), and how many pixels one of its cells is wide.

    Each pixel has the mean vote of the windows over it, a window's vote being its degree above chance, cubed:
    windows that hold the object outnumber those that miss it.
    """
    boxes, worth = as_boxes(xyxy), np.maximum(np.asarray(degree, dtype=np.float64), 0)
    cell = _cell(boxes)
    return _votes(_cells(boxes, cell), worth**power), cell


def _cell(boxes: NDArray[np.float32]) -> float:
    return max(float(boxes[:, 2:].max(initial=1)), 1.0) / CELLS


def _cells(boxes: NDArray[np.float32], cell: float) -> NDArray[np.int64]:
    """Boxes in whole cells, at least one each way."""
    corners = np.rint(np.maximum(boxes, 0) / cell).astype(np.int64)
    corners[:, :2] = np.minimum(corners[:, :2], np.maximum(corners[:, 2:] - 1, 0))
    corners[:, 2:] = np.maximum(corners[:, 2:], corners[:, :2] + 1)
    return corners


def _votes(cells: NDArray[np.int64], vote: Floats) -> NDArray[np.float64]:
    """Mean vote of the windows over each cell: differences at the corners, summed up along both sides."""
    x1, y1, x2, y2 = cells.T
    total = np.zeros((2, y2.max() + 1, x2.max() + 1))
    for y, x, sign in ((y1, x1, 1), (y1, x2, -1), (y2, x1, -1), (y2, x2, 1)):
        np.add.at(total[0], (y, x), sign * vote)
        np.add.at(total[1], (y, x), sign)
    total = total.cumsum(axis=1).cumsum(axis=2)[:, :-1, :-1]
    count = np.rint(total[1])
    return np.asarray(np.divide(total[0], count, out=np.zeros(count.shape), where=count > 0))
