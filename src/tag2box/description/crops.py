"""Windows of a map: bilinear samples on a regular grid of each box, or averages of the cells inside."""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.compiled import kernel

Map = NDArray[np.float32]
# Windows per product of `pool_map`: each has one shape, so that a row does not depend on the others.
BLOCK = 64


@kernel
def crop_map(source: Map, boxes: NDArray[np.float32], size: int, samples: int, out: Map) -> None:
    """Fill `out` (n, size, size, c) with the `boxes` (n, 4) of `source` (h, w, c), in cells.

    Cell i covers [i, i + 1). Each of the size x size bins of a box is the mean of samples x samples bilinear
    samples in it (RoIAlign, He et al. 2017); outside of the map its border is repeated.
    """
    h, w, c = source.shape
    share = np.float32(1.0 / (samples * samples))
    steps = size * samples
    out[:] = 0
    for n in range(len(boxes)):
        x1, y1 = boxes[n, 0], boxes[n, 1]
        dx, dy = (boxes[n, 2] - x1) / steps, (boxes[n, 3] - y1) / steps
        for i in range(steps):
            y = min(max(y1 + (i + 0.5) * dy - 0.5, 0.0), h - 1.0)
            top = min(int(y), h - 2) if h > 1 else 0
            bottom = min(top + 1, h - 1)
            fy = np.float32(y - top)
            for j in range(steps):
                x = min(max(x1 + (j + 0.5) * dx - 0.5, 0.0), w - 1.0)
                left = min(int(x), w - 2) if w > 1 else 0
                right = min(left + 1, w - 1)
                fx = np.float32(x - left)
                a, b = (1 - fy) * (1 - fx) * share, (1 - fy) * fx * share
                d, e = fy * (1 - fx) * share, fy * fx * share
                bin_ = out[n, i // samples, j // samples]
                p, q = source[top, left], source[top, right]
                r, s = source[bottom, left], source[bottom, right]
                for k in range(c):
                    bin_[k] += a * p[k] + b * q[k] + d * r[k] + e * s[k]


@kernel
def max_pool(source: Map, boxes: NDArray[np.float32], grid: int, out: Map) -> None:
    """Fill `out` (n, grid, grid, c) with the maxima of `source` (h, w, c) in parts of the `boxes`, in cells.

    Each of the grid x grid parts of a box is every cell that it touches, one at least (He et al. 2014).
    """
    h, w, c = source.shape
    for n in range(len(boxes)):
        x1, y1 = boxes[n, 0], boxes[n, 1]
        dx, dy = (boxes[n, 2] - x1) / grid, (boxes[n, 3] - y1) / grid
        for i in range(grid):
            top = min(max(int(np.floor(y1 + i * dy)), 0), h - 1)
            bottom = min(max(int(np.ceil(y1 + (i + 1) * dy)), top + 1), h)
            for j in range(grid):
                left = min(max(int(np.floor(x1 + j * dx)), 0), w - 1)
                right = min(max(int(np.ceil(x1 + (j + 1) * dx)), left + 1), w)
                best = out[n, i, j]
                best[:] = source[top, left]
                for y in range(top, bottom):
                    for x in range(left, right):
                        cell = source[y, x]
                        for k in range(c):
                            best[k] = max(best[k], cell[k])


def box_sums(source: NDArray[np.floating], boxes: NDArray[np.floating]) -> NDArray[np.float64]:
    """The integral of a map (h, w, c) over each box, (n, c); boxes in cells, outside of the map it is 0.

    By sums over all that lies above and to the left of a point: the cost does not depend on the boxes' size.
    """
    h, w, c = source.shape
    upto = np.zeros((h + 1, w + 1, c))
    upto[1:, 1:] = np.asarray(source, np.float64).cumsum(axis=0).cumsum(axis=1)
    out = np.zeros((len(boxes), c))
    _add_corners(upto, np.clip(boxes, 0, (w, h, w, h)), out)
    return out


@kernel
def _add_corners(upto: NDArray[np.float64], boxes: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Add the sums up to the four corners of each box, with their signs; between cells they are bilinear."""
    h, w, c = upto.shape
    for n in range(len(boxes)):
        for i in range(4):
            x, y = boxes[n, 2 * (i % 2)], boxes[n, 1 + 2 * (i // 2)]
            sign = 1.0 if i in (0, 3) else -1.0
            left, top = min(int(x), w - 2), min(int(y), h - 2)
            fx, fy = x - left, y - top
            p, q = sign * (1 - fy) * (1 - fx), sign * (1 - fy) * fx
            r, s = sign * fy * (1 - fx), sign * fy * fx
            above, below = upto[top], upto[top + 1]
            for k in range(c):
                out[n, k] += p * above[left, k] + q * above[left + 1, k]
                out[n, k] += r * below[left, k] + s * below[left + 1, k]


def cell_weights(edges: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """How much of each of n cells lies between two `edges` (m, 2): (m, n), all in shares of the photo."""
    upto = np.clip(np.clip(edges, 0, 1)[..., None] * n - np.arange(n), 0, 1) / n  # (m, 2, n)
    return np.asarray(upto[:, 1] - upto[:, 0])


def pool_map(source: Map, boxes: NDArray[np.float64], grid: int) -> Map:
    """Averages of `source` (h, w, c) in grid x grid parts of each box, (n, grid, grid, c).

    Boxes are in shares of the photo. A cell counts by how much of it is inside; outside of the photo is none.
    """
    h, w, c = source.shape
    cells = source.reshape(h * w, c)
    out = np.empty((len(boxes), grid, grid, c), np.float32)
    weights = np.zeros((BLOCK, grid, grid, h * w), np.float32)
    with one_thread():
        for i in range(0, len(boxes), BLOCK):
            block = boxes[i : i + BLOCK]
            weights[: len(block)] = _grid_weights(block, grid, h, w)
            means = weights.reshape(-1, h * w) @ cells
            out[i : i + BLOCK] = means.reshape(BLOCK, grid, grid, c)[: len(block)]
    return out


def _grid_weights(boxes: NDArray[np.float64], grid: int, h: int, w: int) -> Map:
    """The share of each cell in each part of each box, (n, grid, grid, h w); they add up to 1, or to 0."""
    cuts = np.linspace(boxes[:, :2], boxes[:, 2:], grid + 1, axis=1)  # (n, grid + 1, 2)
    parts = np.stack([cuts[:, :-1], cuts[:, 1:]], axis=2)  # (n, grid, 2 edges, 2)
    columns = cell_weights(parts[..., 0].reshape(-1, 2), w).reshape(-1, 1, grid, 1, w)
    rows = cell_weights(parts[..., 1].reshape(-1, 2), h).reshape(-1, grid, 1, h, 1)
    weights = (rows * columns).reshape(-1, grid, grid, h * w)
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1), np.float32)
