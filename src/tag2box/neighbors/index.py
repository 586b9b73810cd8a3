"""What `search.py` keeps of the features beside themselves: one byte a dimension, and how wrong that is.

Rows are centered and rotated, x -> R(x - m), which no distance notices. The rotation (random signs and
Hadamard transforms) spreads a row evenly over its dimensions, which is what eight bits want. Then x = x' + e
with x' rounded to whole steps, and

    q·w ≤ q'·w' + |q||e_w| + |e_q||w'|        (Cauchy-Schwarz, twice)

bounds the score q·w - |w|²/2 of a window from above, so its distance |q|² - 2 score from below. The norms are
stored, not estimated: the bound holds whatever the data are. On CNN features |e| is about 0.9 % of |x|.

Bounds from the leading principal components alone were tried and left out: on the same features they rule
out hardly an image, because half of the components hold only three quarters of the variance.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.neighbors.arithmetic import ARITHMETIC
from tag2box.neighbors.int8 import ROWS
from tag2box.runtime.compiled import kernel

__all__ = ["Index", "build_index"]

Floats = NDArray[np.floating[Any]]

SAMPLE = 4096  # rows that the step is learned from
WITHIN = 0.9999  # of the sample's entries fit a byte; what lies beyond is cut off, and counted in |e|
CHUNK = 128  # rows that are rotated at a time, in float64: they stay in the cache
LARGEST = 2.0**29  # of a bias: products of up to 16384 dimensions still fit beside it
HUGE = 1e18  # an error that rules nothing out


class Index(NamedTuple):
    """The windows in bytes. Each image's rows are padded to a multiple of `ROWS` by repeating its last.

    W: (n_padded, groups) int32, each holding four dimensions, or two (`arithmetic.py`); start: (n_images +
    1,) the first padded row of each image; unit: what one step of a product is worth; typical: a usual |e|.
    bias: (n_padded,) makes a product of bytes an upper bound, but for |q| typical + |e_q||w'|.
    norm, error: (n_padded,) |x| and |e|; largest: (n_images,) the largest |x'| of each image.
    """

    W: NDArray[np.int32]
    start: NDArray[np.int64]
    bias: NDArray[np.int32]
    unit: float
    typical: float
    norm: NDArray[np.float32]
    error: NDArray[np.float32]
    largest: NDArray[np.float32]


def build_index(X: Floats, offsets: NDArray[np.int64]) -> Index:
    """The index of `X`, in one pass over it; the same every time.

    Memory: d + 20 bytes a window (2 d + 20 without VNNI), and 30 bytes a window more while it is built.
    """
    sizes = np.diff(offsets)
    padded = -(-sizes // ROWS) * ROWS
    start = np.concatenate([[0], np.cumsum(padded)])
    within = np.arange(start[-1]) - np.repeat(start[:-1], padded)
    source = np.repeat(offsets[:-1], padded) + np.minimum(within, np.repeat(sizes - 1, padded))
    mean, signs, step, typical = _learn_steps(X)
    width = -(-X.shape[1] // ARITHMETIC.dimensions) * ARITHMETIC.dimensions
    # 64 more than there are: rows are also read in whole vectors.
    kind = np.int8 if ARITHMETIC.dimensions == 4 else np.int16
    W = np.zeros(len(source) * width + 64, kind)[:-64].reshape(-1, width)
    total = np.empty(len(source), np.int32)
    norm, error, rounded = np.empty((3, len(source)), np.float32)
    for i in range(0, len(source), CHUNK):
        part = slice(i, i + CHUNK)
        Y = rotate(X[source[part]].astype(np.float64) - mean, signs)
        _quantize(Y, step, W[part], total[part], norm[part], error[part], rounded[part])
    if not np.isfinite(norm).all():
        raise InputError(f"X must be finite, but row {source[np.argmin(np.isfinite(norm))]} is not")
    # Rows this far out (of the sample, by hundreds of times) are measured in floats against everything.
    outside = norm.astype(np.float64) ** 2 > LARGEST * step**2
    error[outside] = HUGE
    # Most errors are typical; a larger one is made up for in full, for the longest of all queries.
    excess = np.maximum(error - typical, 0) * norm.max(where=~outside, initial=0)
    raised = (excess - norm.astype(np.float64) ** 2 / 2) / step**2 + 1
    bias = np.rint(np.clip(raised, -LARGEST, LARGEST)).astype(np.int32) - ARITHMETIC.shift * total
    filled = np.flatnonzero(sizes)
    largest = np.full(len(sizes), step, np.float32)
    largest[filled] = np.maximum(np.maximum.reduceat(rounded, start[:-1][filled]), step)
    return Index(W.view(np.int32), start, bias, step**2, typical, norm, error, largest)


def _learn_steps(X: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
    """The mean m, the signs of the rotation, the step and a usual |e|, from a sample of the rows."""
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).astype(np.intp)].astype(np.float64)
    mean = rows.mean(axis=0)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (2, X.shape[1]))
    Y = rotate(rows - mean, signs)
    step = float(np.quantile(np.abs(Y), WITHIN)) / 127 or 1.0
    wrong = Y - step * np.clip(np.rint(Y / step), -127, 127)
    return mean, signs, step, float(np.quantile(np.linalg.norm(wrong, axis=0), 0.9))


def rotate(rows: NDArray[np.float64], signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Random signs and a Hadamard transform of the first 2^p dimensions, the same of the last: (d, n)."""
    Y = np.ascontiguousarray(rows.T)
    d = len(Y)
    size = 1 << (d.bit_length() - 1)
    for flip, first in zip(signs, (0, d - size), strict=True):
        Y *= flip[:, None]
        _hadamard(Y[first : first + size])
        Y[first : first + size] /= np.sqrt(size)
    return Y


@kernel
def _hadamard(Y: NDArray[np.float64]) -> None:
    """The transform of every column, in place."""
    half = 1
    while half < len(Y):
        for i in range(0, len(Y), 2 * half):
            for j in range(i, i + half):
                for c in range(Y.shape[1]):
                    a, b = Y[j, c], Y[j + half, c]
                    Y[j, c] = a + b
                    Y[j + half, c] = a - b
        half *= 2


@kernel
def _quantize(
    Y: NDArray[np.float64],
    step: float,
    W: NDArray[np.int8 | np.int16],
    total: NDArray[np.int32],
    norm: NDArray[np.float32],
    error: NDArray[np.float32],
    rounded: NDArray[np.float32],
) -> None:
    """Bytes of rotated rows (the columns of Y), their sums, and |x|, |e|, |x'|."""
    n = Y.shape[1]
    size, wrong, kept = np.zeros((3, n))
    total[:] = 0
    for j in range(len(Y)):
        for c in range(n):
            y = Y[j, c]
            byte = min(max(np.rint(y / step), -127.0), 127.0)
            W[c, j] = np.int16(byte)
            total[c] += np.int32(byte)
            size[c] += y * y
            wrong[c] += (y - byte * step) ** 2
            kept[c] += (byte * step) ** 2
    norm[:], error[:], rounded[:] = np.sqrt(size), np.sqrt(wrong), np.sqrt(kept)
