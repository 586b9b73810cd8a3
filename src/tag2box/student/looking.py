"""The student's two looks at a photo, with arrays: for learning, and as the oracle of its graph.

fused     (h, w, c)  both maps of the trunk, projected, at cells of 16 pixels
first     every cell, in a slot for each size: a logit for each class, and the four sides of a box
second    the best 150 boxes, each at grid x grid places: scores, and how the box has to move
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import nms
from tag2box.student.record import (
    AROUND,
    CELL,
    CENTER_STEP,
    GRID,
    LARGEST_SIDE,
    LARGEST_STEP,
    PROPOSALS,
    REACH,
    SIZE_STEP,
    SIZES,
    THINNED,
    Axes,
    Layers,
)

Floats = NDArray[np.float32]
Map = NDArray[np.floating]
Rows = NDArray[np.intp]


def upsampled(map_: Floats) -> Floats:
    """A map (h, w, c) of twice as many cells in each direction, between which it is linear."""
    near, far = np.float32(0.75), np.float32(0.25)
    for axis in (0, 1):
        n = map_.shape[axis]
        before = map_.take(np.maximum(np.arange(n) - 1, 0), axis)
        after = map_.take(np.minimum(np.arange(n) + 1, n - 1), axis)
        pair = np.stack([far * before + near * map_, near * map_ + far * after], axis + 1)
        map_ = pair.reshape(*map_.shape[:axis], 2 * n, *map_.shape[axis + 1 :])
    return map_


def fuse(early: NDArray[np.floating], last: NDArray[np.floating], axes: tuple[Axes, Axes]) -> Floats:
    """Both maps, projected, at the cells of the early one: (h, w, c)."""
    projected: list[Floats] = [
        np.asarray((x.astype(np.float32) - each.mean) @ each.axes, np.float32)
        for x, each in zip((early, last), axes, strict=True)
    ]
    return np.concatenate([projected[0], upsampled(projected[1])], axis=2)


def centers(h: int, w: int) -> Floats:
    """x and y of the middle of every cell, (h * w, 2), row by row."""
    y, x = np.mgrid[:h, :w]
    return ((np.stack([x.ravel(), y.ravel()], axis=1) + 0.5) * CELL).astype(np.float32)


def neighborhoods(fused: Map, cells: Rows) -> Floats:
    """What the first convolution sees of some cells: 3 x 3 cells, every second one, (n, 9 c)."""
    h, w, c = fused.shape
    padded = np.zeros((h + 4, w + 4, c), fused.dtype)
    padded[2:-2, 2:-2] = fused
    rows, columns = np.divmod(cells, w)
    out = np.empty((len(cells), 9, c), np.float32)
    for k in range(9):
        out[:, k] = padded[rows + 2 * (k // 3), columns + 2 * (k % 3)]
    return out.reshape(len(cells), -1)


def perceptron(x: Floats, layers: Layers) -> Floats:
    """What the layers make of rows x, with ReLU between them."""
    for i in range(0, len(layers), 2):
        x = x @ layers[i] + layers[i + 1]
        x = np.maximum(x, 0) if i + 2 < len(layers) else x
    return x


def sided(sides: Floats, at: Floats) -> Floats:
    """Boxes (n, slots, 4) of the logarithms of their sides around `at`, (n, 2)."""
    length = np.exp(np.clip(sides, -LARGEST_SIDE, LARGEST_SIDE)) * (np.array(SIZES, np.float32) / 2)[:, None]
    return np.concatenate([at[:, None] - length[..., :2], at[:, None] + length[..., 2:]], axis=2)


def inside(boxes: Floats, size: tuple[int, int]) -> Floats:
    """Boxes cut off at the edges of a photo of (width, height), and at least a pixel wide and high."""
    limit = np.array([*size, *size], np.float32)
    out = np.clip(boxes, 0, limit).astype(np.float32)
    out[:, 2:] = np.maximum(out[:, 2:], out[:, :2] + 1)
    return out


def proposals(fused: Map, layers: Layers, n_classes: int) -> tuple[Floats, Floats]:
    """The first look: logits (n, n_classes) and boxes (n, 4) of the best, no two of them nearly the same."""
    h, w, _ = fused.shape
    said = perceptron(neighborhoods(fused, np.arange(h * w)), layers).reshape(h * w, len(SIZES), -1)
    boxes = inside(sided(said[..., n_classes:], centers(h, w)).reshape(-1, 4), (w * CELL, h * CELL))
    logits = said[..., :n_classes].reshape(-1, n_classes)
    kept = nms(boxes, logits.max(axis=1), THINNED)[:PROPOSALS]
    return logits[kept], boxes[kept]


def regions(fused: Map, boxes: Floats) -> Floats:
    """What the second look sees of each box: places in it, with its surroundings, and the photo's mean."""
    h, w, c = fused.shape
    center, reach = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) * np.float32(REACH)
    around = inside(np.concatenate([center - reach, center + reach], axis=1), (w * CELL, h * CELL))
    mean = fused.reshape(-1, c).mean(axis=0, dtype=np.float32)
    parts = [_places(fused, boxes, GRID), _places(fused, around, AROUND), np.tile(mean, (len(boxes), 1))]
    return np.concatenate(parts, axis=1)


def _places(fused: Map, boxes: Floats, grid: int) -> Floats:
    """The map at grid x grid places of each box, between cells by its neighbors: (n, grid * grid * c)."""
    h, w, c = fused.shape
    flat = fused.reshape(-1, c)
    start, end = boxes[:, :2] / CELL - 0.5, boxes[:, 2:] / CELL - 0.5
    share = (np.arange(grid, dtype=np.float32) + 0.5) / grid
    place = start[:, None] + share[:, None] * np.maximum(end - start, 1)[:, None]  # (n, grid, 2)
    place = np.clip(place, 0, np.array([w - 1, h - 1], np.float32))
    low = place.astype(np.intp)
    high = np.minimum(low + 1, [w - 1, h - 1])
    part = place - low
    out = np.zeros((len(boxes), grid, grid, c), np.float32)
    for y, wy in ((low, 1 - part), (high, part)):
        for x, wx in ((low, 1 - part), (high, part)):
            weight = wy[:, :, None, 1] * wx[:, None, :, 0]
            out += flat[y[:, :, None, 1] * w + x[:, None, :, 0]] * weight[..., None].astype(np.float32)
    return out.reshape(len(boxes), -1)


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
