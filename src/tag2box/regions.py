"""What selective search knows of a region: pixels, bounding box, colour, texture, neighbours.

Colour: a histogram of 25 bins per channel. Texture: Gaussian derivatives along four axes per channel, signed, so that
each axis stands for two of the eight orientations of Uijlings et al. 2013, section 3.2.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.compiled import kernel

__all__ = ["N_BINS", "N_COLOUR", "UNIT", "describe", "neighbours", "pixel_bins"]

COLOUR_BINS = 25
TEXTURE_BINS = 16
N_COLOUR = 3 * COLOUR_BINS
N_BINS = N_COLOUR + 12 * TEXTURE_BINS

EDGES = np.array([-40, -24, -14, -8, -4.5, -2.5, -1, 0, 1, 2.5, 4.5, 8, 14, 24, 40], np.float32)

# A normalised histogram holds whole numbers that add up to about this much: whole numbers are added in any order,
# hence in vectors, with the same result on every machine.
UNIT = 1 << 20


@kernel
def pixel_bins(image: NDArray[np.float32]) -> NDArray[np.int16]:
    """The 3 colour and 12 texture bins that each pixel of the smoothed `image` falls into, (h, w, 15).
    """
    h, w, _ = image.shape
    out = np.empty((h, w, 15), np.int16)
    half = np.float32(0.5)
    diagonal = np.float32(np.sqrt(0.5))
    table = np.empty(1024, np.int16)
    for i in range(1024):
        v = (i - 512) / 2.0
        table[i] = np.searchsorted(EDGES, v)
    for y in range(h):
        up, down = max(y - 1, 0), min(y + 1, h - 1)
        for x in range(w):
            left, right = max(x - 1, 0), min(x + 1, w - 1)
            for c in range(3):
                out[y, x, c] = c * COLOUR_BINS + min(int(image[y, x, c] * np.float32(COLOUR_BINS / 256)), COLOUR_BINS - 1)
                dx = half * (image[y, right, c] - image[y, left, c])
                dy = half * (image[down, x, c] - image[up, x, c])
                at = N_COLOUR + 4 * c * TEXTURE_BINS
                out[y, x, 3 + 4 * c] = at + table[int(dx * 2 + 512)]
                out[y, x, 4 + 4 * c] = at + TEXTURE_BINS + table[int(dy * 2 + 512)]
                out[y, x, 5 + 4 * c] = at + 2 * TEXTURE_BINS + table[int((dx + dy) * diagonal * 2 + 512)]
                out[y, x, 6 + 4 * c] = at + 3 * TEXTURE_BINS + table[int((dx - dy) * diagonal * 2 + 512)]
    return out


@kernel
def describe(labels, n, bins):
    """Pixels (n,), boxes (n, 4) and normalised histograms (n, N_BINS) of the `n` regions, with room for n - 1 more."""
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
                histogram[r, bins[y, x, j]] += 1
    for r in range(n):
        cs = np.float32(UNIT / 3) / np.float32(size[r])
        ts = np.float32(UNIT / 12) / np.float32(size[r])
        for j in range(N_COLOUR):
            histogram[r, j] = np.int32(histogram[r, j] * cs)
        for j in range(N_COLOUR, N_BINS):
            histogram[r, j] = np.int32(histogram[r, j] * ts)
    return size, box, histogram


@kernel
def neighbours(labels, n):
    """Pairs (m, 2) of touching regions, a < b, in order."""
    h, w = labels.shape
    touch = np.zeros((n, n), np.bool_)
    for y in range(h):
        for x in range(w):
            r = labels[y, x]
            if x + 1 < w:
                touch[r, labels[y, x + 1]] = True
            if y + 1 < h:
                touch[r, labels[y + 1, x]] = True
    pairs = np.empty((n * 16 + 16, 2), np.int32)
    m = 0
    for a in range(n):
        for b in range(a + 1, n):
            if touch[a, b] or touch[b, a]:
                if m == len(pairs):
                    pairs = np.concatenate((pairs, pairs))
                pairs[m, 0] = a
                pairs[m, 1] = b
                m += 1
    return pairs[:m].copy()
