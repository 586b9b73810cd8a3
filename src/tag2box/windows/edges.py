"""Edges between the pixels of an image, by rising weight, for the segmentation.

They lead to the 8 neighbors and weigh the distance of the colors, rounded down to 1/STEPS of a gray level, so
that they are sorted by counting: those of equal weight keep the order of the raster. 4-neighbors would halve
the time; with them overlap was a point behind OpenCV, which has 8.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Pixel = np.uint32  # unsigned: numba need not ask whether an index counts from the end

STEPS = 8
N_WEIGHTS = 442 * STEPS + 1  # the longest distance in a cube of side 255 is 441.7


@kernel
def sort_edges(image: Floats) -> tuple[Ints, Ints]:
    """Edges of the (3, h, w) `image` by rising weight, as (edge, first).

    Edge 4p + d leads from pixel p to the right (d = 0), or down: left (1), straight (2), right (3).
    Those of weight v / STEPS are `edge[first[v] : first[v + 1]]`.
    """
    _, h, w = image.shape
    weight = np.full((h, w, 4), -1, np.int16)
    for y in range(h):
        _weigh(image[:, y, : w - 1], image[:, y, 1:], weight[y, : w - 1, 0])
        if y + 1 < h:
            _weigh(image[:, y, 1:], image[:, y + 1, : w - 1], weight[y, 1:, 1])
            _weigh(image[:, y], image[:, y + 1], weight[y, :, 2])
            _weigh(image[:, y, : w - 1], image[:, y + 1, 1:], weight[y, : w - 1, 3])
    flat = weight.reshape(-1)
    first = np.zeros(N_WEIGHTS + 1, np.int32)
    for v in flat:
        if v >= 0:
            first[np.uint16(v + 1)] += 1
    first = np.cumsum(first).astype(np.int32)
    at = first.copy()
    edge = np.empty(first[-1], np.int32)
    for e, v in enumerate(flat):
        if v >= 0:
            edge[Pixel(at[np.uint16(v)])] = e
            at[np.uint16(v)] += 1
    return edge, first


@kernel
def _weigh(a: Floats, b: Floats, out: NDArray[np.int16]) -> None:
    """The distances of the colors `a` and `b`, both (3, n), in steps."""
    row = np.empty(len(out), np.int32)
    a0, a1, a2, b0, b1, b2 = a[0], a[1], a[2], b[0], b[1], b[2]
    for i in range(len(row)):
        x, y, z = a0[i] - b0[i], a1[i] - b1[i], a2[i] - b2[i]
        row[i] = np.int32(np.sqrt(x * x + y * y + z * z) * np.float32(STEPS))
    for i in range(len(row)):
        out[i] = row[i]


@kernel
def steps(w: int) -> Ints:
    """From a pixel to the other end of its four edges, in an image `w` wide."""
    return np.array([1, w - 1, w, w + 1], np.int32)


@kernel
def ends_of(edge: np.int32, step: Ints) -> tuple[Pixel, Pixel]:
    """The two pixels of an edge."""
    p = Pixel(edge >> 2)
    return p, Pixel(p + step[Pixel(edge & 3)])
