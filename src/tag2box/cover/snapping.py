"""Contrast: how much more discriminative a window is than what surrounds it. Beyond the paper.

The windows with the most positive neighbors are mostly parts of the object (mean IoU 0.37 on VOC). But
windows that hold the object outnumber those that miss it, so their votes add up to a map of it: each pixel
gets the mean vote of the windows over it, a window's vote being its degree above chance, cubed. Then

    contrast = degree x sqrt(area) x (mean of the map inside - mean of the map in a ring around)

A part has a high inside but a high ring too; a window with too much background has a low inside.
The cube, the square root and the ring of a quarter are from trials on VOC 2007 (six classes, earlier windows
and features): the mean CorLoc of the best window of each image rose from 0.16 to 0.41.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.boxes import as_boxes, iou_matrix
from tag2box.cover.graph import CoverGraph
from tag2box.cover.greedy import Cover
from tag2box.errors import InputError
from tag2box.runtime.checks import check_share

__all__ = ["above_chance", "best_share", "contrast", "snap", "vote_map"]

Floats = NDArray[np.floating[Any]]

CELLS = 64  # the map's resolution along the longer side of what the windows span


def above_chance(graph: CoverGraph, n_images: int) -> NDArray[np.float64]:
    """Each window's share of positives among its k nearest images, less that of all images: (n_V,).

    Its own image is left out of both, since it is always among them.
    """
    if graph.k < 2 or n_images < 2:
        return np.zeros(len(graph.V))
    chance = (graph.n_positive - 1) / (n_images - 1)
    return (graph.degree - 1) / (graph.k - 1) - chance


def contrast(
    xyxy: ArrayLike, offsets: ArrayLike, degree: ArrayLike, *, power: float = 3.0, ring: float = 0.25
) -> NDArray[np.float64]:
    """Score how much a window stands out from what surrounds it.

    Each pixel gets the mean vote of the windows over it, a vote being the degree to the given power. The
    contrast of a window is its degree times the root of its area times the difference of the mean vote
    inside and in a ring around it.

    Parameters
    ----------
    xyxy : array-like of shape (n, 4)
        The windows of all images.
    offsets : array-like of shape (n_images + 1,)
        Where the windows of each image start.
    degree : array-like of shape (n,)
        The share of positive images among the nearest images of each window, less that expected by chance. A
        negative degree counts as 0.
    power : float, default=3.0
        The power of a vote.
    ring : float, default=0.25
        How far the surroundings reach beyond each side, as a share of the window's size.

    Returns
    -------
    ndarray of shape (n,)
        The contrast of every window.

    Examples
    --------
    >>> import tag2box as t2b
    >>> xyxy = [[0, 0, 64, 64], [16, 16, 48, 48], [20, 20, 32, 32]]
    >>> score = t2b.contrast(xyxy, offsets=[0, 3], degree=[0.1, 0.5, 0.5])
    >>> int(score.argmax())
    1
    """
    boxes = as_boxes(xyxy)
    bounds = np.asarray(offsets, dtype=np.int64)
    worth = np.maximum(np.asarray(degree, dtype=np.float64), 0)
    if worth.shape != (len(boxes),) or len(bounds) < 1 or bounds[-1] != len(boxes):
        raise InputError(
            f"one degree per window, offsets up to their number: {len(boxes)} windows, "
            f"{worth.shape} degrees, offsets up to {bounds[-1] if len(bounds) else None}"
        )
    if power <= 0 or ring <= 0:
        raise InputError(f"power and ring must be above 0, but they are {power} and {ring}")
    score = np.empty(len(boxes))
    for a, z in pairwise(bounds):
        score[a:z] = _contrast(boxes[a:z], worth[a:z], power, ring)
    return score


def snap(cover: Cover, xyxy: ArrayLike, offsets: ArrayLike, score: ArrayLike, iou: float = 0.1) -> Cover:
    """The cover with each covered window replaced by the best-scored window of its image that overlaps it.

    The cover finds where the class is, mostly by a part; the score (contrast, or objectness) says how far the
    object reaches. A tie leaves the window as it is; those that snap to the same one are kept once. `iou`:
    the least overlap; 0.1 did best on VOC, of 0.001 to 0.5.
    """
    boxes, bounds = as_boxes(xyxy), np.asarray(offsets, dtype=np.int64)
    value = np.asarray(score, dtype=np.float64)
    rows = np.empty_like(cover.covered)
    for image in np.unique(cover.image):
        mine = cover.image == image
        a, z = bounds[image], bounds[image + 1]
        covered = cover.covered[mine]
        overlaps = iou_matrix(boxes[covered], boxes[a:z]) >= iou
        best = a + np.where(overlaps, value[a:z], -np.inf).argmax(axis=1)
        rows[mine] = np.where(value[best] > value[covered], best, covered)
    first = np.sort(np.unique(rows, return_index=True)[1])
    return replace(cover, covered=rows[first], image=cover.image[first], by=cover.by[first])


def best_share(score: ArrayLike, offsets: ArrayLike, share: float) -> NDArray[np.bool_]:
    """A mask over the windows: the best-scored `share` of each image, at least one; ties to the smaller row.

    As `seeds` of `cover_graph` it keeps the selection to promising windows: the authors' release does so with
    the degree and a share of 0.2; with the contrast 0.05 did better.
    """
    value, bounds = np.asarray(score, dtype=np.float64), np.asarray(offsets, dtype=np.int64)
    check_share(share=share)
    kept = np.zeros(len(value), np.bool_)
    for a, z in pairwise(bounds):
        kept[a + np.argsort(-value[a:z], kind="stable")[: int(np.ceil(share * (z - a)))]] = True
    return kept


def vote_map(xyxy: ArrayLike, degree: ArrayLike, power: float = 3.0) -> tuple[NDArray[np.float64], float]:
    """The map of one image's votes, (height, width), and how many pixels one of its cells is wide."""
    boxes, worth = as_boxes(xyxy), np.maximum(np.asarray(degree, dtype=np.float64), 0)
    cell = _cell(boxes)
    return _votes(_cells(boxes, cell), worth**power), cell


def _cell(boxes: NDArray[np.float32]) -> float:
    return float(max(boxes[:, 2:].max(initial=1), 1)) / CELLS


def _cells(boxes: NDArray[np.float32], cell: float) -> NDArray[np.int64]:
    """Boxes in whole cells, at least one each way."""
    corners = np.rint(np.maximum(boxes, 0) / cell).astype(np.int64)
    corners[:, :2] = np.minimum(corners[:, :2], np.maximum(corners[:, 2:] - 1, 0))
    corners[:, 2:] = np.maximum(corners[:, 2:], corners[:, :2] + 1)
    return corners


def _contrast(boxes: NDArray[np.float32], worth: Floats, power: float, ring: float) -> NDArray[np.float64]:
    if len(boxes) == 0:
        return np.empty(0)
    cell = _cell(boxes)
    inner = _cells(boxes, cell)
    votes = _votes(inner, worth**power)
    margin = np.float32(ring) * np.tile(boxes[:, 2:] - boxes[:, :2], 2) * np.array([-1, -1, 1, 1], np.float32)
    outer = _cells(boxes + margin, cell)
    outer[:, :2] = np.minimum(outer[:, :2], inner[:, :2])
    outer[:, 2:] = np.clip(outer[:, 2:], inner[:, 2:], [votes.shape[1], votes.shape[0]])
    sums = np.pad(votes.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    inside, inside_cells = _sum(sums, inner)
    around, around_cells = _sum(sums, outer)
    ring_cells = around_cells - inside_cells
    # A window that fills its image has no surroundings: nothing speaks for it, nothing against.
    ring_mean = np.divide(around - inside, ring_cells, out=np.zeros(len(boxes)), where=ring_cells > 0)
    size = np.sqrt((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
    return np.asarray(worth * size * (inside / inside_cells - ring_mean))


def _sum(sums: Floats, box: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """The sum of the map in each box, by its integral image, and its number of cells."""
    x1, y1, x2, y2 = box.T
    return sums[y2, x2] - sums[y1, x2] - sums[y2, x1] + sums[y1, x1], (x2 - x1) * (y2 - y1)


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
