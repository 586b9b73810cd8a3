"""What selective search knows of a region: pixels, bounding box, color, texture and neighbors.

Uijlings et al. 2013, section 3.2. Color: a histogram of 25 bins per channel. Texture: histograms of Gaussian
derivatives per channel. Theirs look in eight orientations; four axes with the sign kept say the same.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

__all__ = ["N_BINS", "N_COLOR", "UNIT", "describe", "neighbors", "pixel_bins"]

Ints = NDArray[np.int32]

COLOR_BINS = 25
# Derivatives in gray levels per pixel. Most are small, so the bins widen outwards. Halving or doubling them
# all moved the mean best overlap on VOC by less than 0.003.
TEXTURE_EDGES = np.array([-40, -24, -14, -8, -4.5, -2.5, -1, 0, 1, 2.5, 4.5, 8, 14, 24, 40])
TEXTURE_BINS = len(TEXTURE_EDGES) + 1
N_COLOR = 3 * COLOR_BINS
N_BINS = N_COLOR + 3 * 4 * TEXTURE_BINS

# A normalized histogram holds whole numbers that add up to about this. Whole numbers may be added in any
# order, so the compiler may use vectors of any width and every machine gets the same sum.
UNIT = 1 << 20

LEVELS_PER_GRAY = 2  # derivatives are looked up in half gray levels; |dx + dy| / sqrt(2) stays below 181
N_LEVELS = 1024
DIAGONAL = np.float32(0.5**0.5)


@kernel
def pixel_bins(image: NDArray[np.float32]) -> NDArray[np.int16]:
    """The 3 color and 12 texture bins that each pixel of the smoothed `image` counts in, (h, w, 15)."""
    h, w, _ = image.shape
    out = np.empty((h, w, 15), np.int16)
    level = np.empty(N_LEVELS, np.int16)
    for i in range(N_LEVELS):
        level[i] = np.searchsorted(TEXTURE_EDGES, (i - N_LEVELS // 2) / LEVELS_PER_GRAY)
    half = np.float32(LEVELS_PER_GRAY / 2)  # of the difference of two pixels that are two apart
    for y in range(h):
        above, here, below = image[max(y - 1, 0)], image[y], image[min(y + 1, h - 1)]
        for x in range(w):
            left, right = here[max(x - 1, 0)], here[min(x + 1, w - 1)]
            bins = out[y, x]
            for c in range(3):
                bins[c] = c * COLOR_BINS + int(here[x, c] * np.float32(COLOR_BINS / 256))
                dx, dy = half * (right[c] - left[c]), half * (below[x, c] - above[x, c])
                for axis, response in enumerate((dx, dy, (dx + dy) * DIAGONAL, (dx - dy) * DIAGONAL)):
                    first = N_COLOR + (4 * c + axis) * TEXTURE_BINS
                    bins[3 + 4 * c + axis] = first + level[np.uint16(int(response) + N_LEVELS // 2)]
    return out


@kernel
def describe(labels: Ints, n: int, bins: NDArray[np.int16]) -> tuple[Ints, Ints, Ints]:
    """Pixels (2n - 1,), boxes (2n - 1, 4) and histograms (2n - 1, N_BINS) of the `n` regions of `labels`.

    The rows from n on are room for the regions that `group` will make of them. In each histogram the color
    bins add up to about `UNIT`, and so do the texture bins.
    """
    h, w = labels.shape
    size = np.zeros(2 * n - 1, np.int32)
    box = np.empty((2 * n - 1, 4), np.int32)
    box[:, :2] = max(h, w)
    box[:, 2:] = 0
    histogram = np.zeros((2 * n - 1, N_BINS), np.int32)
    for y in range(h):
        for x in range(w):
            r = labels[y, x]
            size[r] += 1
            box[r, 0] = min(box[r, 0], x)
            box[r, 1] = min(box[r, 1], y)
            box[r, 2] = max(box[r, 2], x + 1)
            box[r, 3] = max(box[r, 3], y + 1)
            for j in range(15):
                histogram[r, np.uint16(bins[y, x, j])] += 1
    for r in range(n):
        color, texture = np.float32(UNIT / (3 * size[r])), np.float32(UNIT / (12 * size[r]))
        for j in range(N_COLOR):
            histogram[r, j] = np.int32(histogram[r, j] * color)
        for j in range(N_COLOR, N_BINS):
            histogram[r, j] = np.int32(histogram[r, j] * texture)
    return size, box, histogram


@kernel
def neighbors(labels: Ints, n: int) -> Ints:
    """Pairs (m, 2) of regions that share a side of a pixel, the smaller number first, in order."""
    h, w = labels.shape
    touch = np.zeros((n, n), np.bool_)
    for y in range(h):
        for x in range(w):
            for q in (labels[y, min(x + 1, w - 1)], labels[min(y + 1, h - 1), x]):
                touch[min(labels[y, x], q), max(labels[y, x], q)] = True
    pairs = np.empty((touch.sum(), 2), np.int32)  # may be many: regions that hang by corners can cross
    m = 0
    for a in range(n):
        for b in range(a + 1, n):
            if touch[a, b]:
                pairs[m, 0], pairs[m, 1] = a, b
                m += 1
    return pairs[:m].copy()
