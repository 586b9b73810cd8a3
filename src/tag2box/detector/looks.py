"""Two looks at the learned maps of a photo, with their gradients; and the oracle of the graph.

first     every cell of both levels, in a slot for each size: a logit for each class, the four sides of a box
second    the best proposals, each at grid x grid bins of both levels: scores, and how the box has to move
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tag2box.boxes import nms
from tag2box.detector.record import (
    AROUND,
    CELLS,
    CENTER_STEP,
    GRIDS,
    LARGEST_SIDE,
    LARGEST_STEP,
    PARTS,
    PROPOSALS,
    REACH,
    SAMPLES,
    SIZE_STEP,
    SIZES,
    THINNED,
)
from tag2box.detector.trunk import CUT_STRIDE, Backward, Sizes, Weights, linear, split

Floats = NDArray[np.float32]


def first_look(maps: Floats, sizes: Sizes, weights: Weights) -> tuple[Floats, Backward]:
    """What every cell says, (cells, slots * (n_classes + 4)); maps: the rows of all levels."""
    channels = maps.shape[1]
    X = np.concatenate([_neighborhoods(m) for m in split(maps, sizes)])
    hidden, back1 = linear(X, weights, "cells.0", np.inf)
    out, back2 = linear(hidden, weights, "cells.1")

    def backward(slope: Floats, to: Weights) -> Floats:
        slope = back1(back2(slope, to), to)
        parts = split(slope, sizes)
        return np.concatenate([_from_neighborhoods(part, channels) for part in parts])

    return out, backward


def _neighborhoods(m: Floats) -> Floats:
    """The 3 x 3 cells around every cell of a map, (h * w, 9 c)."""
    h, w, c = m.shape
    wider = np.zeros((h + 2, w + 2, c), np.float32)
    wider[1:-1, 1:-1] = m
    out = np.empty((h, w, 9, c), np.float32)
    for k in range(9):
        out[:, :, k] = wider[k // 3 : k // 3 + h, k % 3 : k % 3 + w]
    return out.reshape(h * w, 9 * c)


def _from_neighborhoods(slope: Floats, c: int) -> Floats:
    h, w, _ = slope.shape
    parts = slope.reshape(h, w, 9, c)
    wider = np.zeros((h + 2, w + 2, c), np.float32)
    for k in range(9):
        wider[k // 3 : k // 3 + h, k % 3 : k % 3 + w] += parts[:, :, k]
    return wider[1:-1, 1:-1].reshape(h * w, c)


def centers(sizes: Sizes) -> tuple[Floats, Floats]:
    """x and y of the middle of every cell, in pixels of the first view, (cells, 2), and its cell's size."""
    at, cell = [], []
    for (h, w), size in zip(sizes, CELLS, strict=True):
        y, x = np.mgrid[:h, :w]
        at.append((np.stack([x.ravel(), y.ravel()], axis=1) + 0.5) * size)
        cell.append(np.full(h * w, size))
    return np.concatenate(at).astype(np.float32), np.concatenate(cell).astype(np.float32)


def slot_sizes(cell: Floats) -> Floats:
    """The size of each slot of cells, in pixels of the first view, (cells, slots)."""
    return np.asarray(np.array(SIZES, np.float32) * (cell / CELLS[0])[:, None])


def sided(sides: Floats, at: Floats, cell: Floats) -> Floats:
    """Boxes (cells, slots, 4) of the logarithms of their sides around `at`, (cells, 2)."""
    length = np.exp(np.clip(sides, -LARGEST_SIDE, LARGEST_SIDE)) * (slot_sizes(cell) / 2)[..., None]
    return np.concatenate([at[:, None] - length[..., :2], at[:, None] + length[..., 2:]], axis=2)


def extent(sizes: Sizes) -> tuple[int, int]:
    """Width and height of the first view."""
    return sizes[0][1] * CELLS[0], sizes[0][0] * CELLS[0]


def view_size(early: Sizes) -> tuple[int, int]:
    """Width and height of the first view, by the sizes of its maps at the cut."""
    return early[0][1] * CUT_STRIDE, early[0][0] * CUT_STRIDE


def inside(boxes: Floats, size: tuple[int, int]) -> Floats:
    """Boxes cut off at the edges of a photo of (width, height), and at least a pixel wide and high."""
    limit = np.array([*size, *size], np.float32)
    out = np.clip(boxes, 0, limit).astype(np.float32)
    out[:, 2:] = np.maximum(out[:, 2:], out[:, :2] + 1)
    return out


def proposals(said: Floats, sizes: Sizes, n_classes: int, most: int = PROPOSALS) -> tuple[Floats, Floats]:
    """Logits (n, n_classes) and boxes (n, 4) of the best, no two of them nearly the same."""
    said = said.reshape(len(said), len(SIZES), -1)
    boxes = inside(sided(said[..., n_classes:], *centers(sizes)).reshape(-1, 4), extent(sizes))
    logits = said[..., :n_classes].reshape(-1, n_classes)
    best = np.argsort(-logits.max(axis=1), kind="stable")[: 8 * most]
    kept = best[nms(boxes[best], logits[best].max(axis=1), THINNED)[:most]]
    return logits[kept], boxes[kept]


def second_look(
    maps: Floats, sizes: Sizes, boxes: Floats, weights: Weights, dropped: Floats | None = None
) -> tuple[Floats, Backward]:
    """Logits of the classes and the background, and steps, of boxes: (n, n_classes + 1 + 4).

    dropped: (n, hidden), what hidden numbers are multiplied with.
    """
    n = len(boxes)
    operators = _operators(boxes, sizes)
    parts = [S @ maps for S in operators]
    mean = np.full((n, 1), 1, np.float32) * split(maps, sizes)[-1].mean(axis=(0, 1))
    X = np.concatenate([part.reshape(n, -1) for part in parts] + [mean], axis=1)
    hidden, back1 = linear(X, weights, "boxes.0", np.inf)
    kept = hidden if dropped is None else hidden * dropped
    out, back2 = linear(kept, weights, "boxes.1")

    def backward(slope: Floats, to: Weights) -> Floats:
        slope = back2(slope, to)
        by_x = back1(slope if dropped is None else slope * dropped, to).reshape(n, PARTS, -1)
        counts = np.cumsum([len(S.indptr) // n for S in operators])
        by_maps = np.zeros_like(maps)
        for S, part in zip(operators, np.split(by_x[:, :-1], counts[:-1], axis=1), strict=True):
            by_maps += S.T @ np.ascontiguousarray(part).reshape(-1, maps.shape[1])
        h, w = sizes[-1]
        by_maps[-h * w :] += by_x[:, -1].sum(axis=0) / (h * w)
        return by_maps

    return out, backward


def _operators(boxes: Floats, sizes: Sizes) -> list[csr_array]:
    """The means of bins of each box, and of it with its surroundings, as matrices on the maps' rows."""
    center, reach = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) * np.float32(REACH)
    around = inside(np.concatenate([center - reach, center + reach], axis=1), extent(sizes))
    n_rows, out, first = sum(h * w for h, w in sizes), [], 0
    for size, cell, grid, wider in zip(sizes, CELLS, GRIDS, AROUND, strict=True):
        out.append(_bins(boxes, size, cell, grid, first, n_rows))
        out.append(_bins(around, size, cell, wider, first, n_rows))
        first += size[0] * size[1]
    return out


def _bins(boxes: Floats, size: tuple[int, int], cell: int, grid: int, first: int, n_rows: int) -> csr_array:
    """(n * grid * grid, n_rows): each bin is the mean of places, between cells by its neighbors."""
    h, w = size
    n, k = len(boxes), grid * SAMPLES
    start, end = boxes[:, :2] / cell - 0.5, boxes[:, 2:] / cell - 0.5
    share = (np.arange(k, dtype=np.float32) + 0.5) / k
    place = start[:, None] + share[:, None] * np.maximum(end - start, 1)[:, None]  # (n, k, 2)
    beyond = place > np.array([w, h])  # RoiAlign sees nothing there
    place = np.clip(place, 0, np.array([w - 1, h - 1], np.float32))
    low = place.astype(np.int32)
    columns, weights = [], []
    for dx, dy in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y = np.minimum(low[..., 0] + dx, w - 1), np.minimum(low[..., 1] + dy, h - 1)
        wx, wy = (np.where(d, part, 1 - part) for d, part in zip((dx, dy), (place - low).T, strict=True))
        columns.append(first + y[:, :, None] * w + x[:, None, :])
        weights.append(wy.T[:, :, None] * wx.T[:, None, :] / SAMPLES**2)
        weights[-1][beyond[..., 1][:, :, None] | beyond[..., 0][:, None, :]] = 0
    shape = (n, grid, SAMPLES, grid, SAMPLES, 4)
    indices, data = (
        np.stack(each, axis=-1).reshape(shape).transpose(0, 1, 3, 2, 4, 5).ravel()
        for each in (columns, weights)
    )
    each = 4 * SAMPLES**2
    pointer = np.arange(0, len(data) + 1, each, dtype=np.int32)
    return csr_array((data.astype(np.float32), indices, pointer), shape=(n * grid * grid, n_rows))


def steps(boxes: Floats, targets: Floats) -> Floats:
    """How boxes (n, 4) have to move to become `targets`: what `moved` undoes."""
    size, wanted = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    shift = (targets[:, :2] + targets[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2 / size
    return np.concatenate([shift * CENTER_STEP, np.log(wanted / size) * SIZE_STEP], axis=1)


def moved(boxes: Floats, by: Floats, size: tuple[int, int]) -> Floats:
    """Boxes moved and stretched by steps (n, 4), inside of a photo of (width, height)."""
    old = boxes[:, 2:] - boxes[:, :2]
    center = (boxes[:, :2] + boxes[:, 2:]) / 2 + by[:, :2] / CENTER_STEP * old
    half = old * np.exp(np.clip(by[:, 2:] / SIZE_STEP, -LARGEST_STEP, LARGEST_STEP)) / 2
    return inside(np.concatenate([center - half, center + half], axis=1), size)
