"""What `neighbors.py` keeps of the features beside themselves: one byte a dimension, and how wrong that is.

Rows are centred and rotated, x -> R'(x - m): distances stay. The first d0 rotated dimensions (the head)
carry as much of the variance as d0 dimensions can; within head and tail a random rotation spreads it evenly,
which is what eight bits want. Then x = x' + e with x' on a grid, and for the score q·w - |w|²/2

    q·w ≤ q0'·w0' + |q0||e_w0| + |e_q0||w0'| + |q1||w1|           (head only: Cauchy-Schwarz)
    |q·w - q'·w'| ≤ |q||e_w| + |e_q||w'|                           (head and tail)

The norms are stored, not estimated: the bounds hold whatever the data are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.compiled import kernel
from tag2box.int8 import ROWS

__all__ = ["Index", "build_index"]

Floats = NDArray[np.floating[Any]]

SAMPLE = 4096  # rows that the rotation and the grid are learned from: a few times d is plenty
WITHIN = 0.9999  # of the sample's entries fit the grid; what lies beyond is cut off, and counted in |e|
CHUNK = 8192  # rows that are rotated at a time, in float64
LARGEST = 2.0**29  # of a bias: products of up to 16384 dimensions still fit beside it
HUGE = 1e15  # an error bound that rules nothing out, and whose square is still a float32


@dataclass(frozen=True)
class Index:
    """The windows in bytes. Each image's rows are padded to a multiple of `ROWS` by repeating its last.

    W: (n_padded, slots + groups0 + groups1) int32, each holding four bytes: tail norm | head | tail.
    start: (n_images + 1,) first padded row of each image. head_bias, bias: (n_padded,) to be added to the
    products. unit0, unit: what one step of a head score and of a full score is worth, unit0 = unit << shift.
    norm, norm0, error, error0: (n_padded,) |x|, |x0|, |e|, |e0|. worst: (4, n_images) the largest |e|, |x'|,
    |e0|, |x0'| of each image.
    """

    W: NDArray[np.int32]
    start: NDArray[np.int64]
    head_bias: NDArray[np.int32]
    bias: NDArray[np.int32]
    slots: int
    groups0: int
    groups1: int
    unit0: float
    unit: float
    shift: int
    norm: NDArray[np.float32]
    norm0: NDArray[np.float32]
    error: NDArray[np.float32]
    error0: NDArray[np.float32]
    worst: NDArray[np.float32]


def build_index(X: Floats, offsets: NDArray[np.int64], d0: int) -> Index:
    """The index of `X` with a head of `d0` dimensions. One pass over X, deterministic.

    Memory: a byte a dimension and 24 bytes a window, and about 60 MB while it is built.
    """
    d = X.shape[1]
    sizes = np.diff(offsets)
    padded = -(-sizes // ROWS) * ROWS
    start = np.concatenate([[0], np.cumsum(padded)])
    within = np.arange(start[-1]) - np.repeat(start[:-1], padded)
    source = np.repeat(offsets[:-1], padded) + np.minimum(within, np.repeat(sizes - 1, padded))
    mean, R = rotation(X, d0)
    scale0, halvings, widest = _grid((_sample(X) - mean) @ R, d0)
    scale1 = scale0 / 2**halvings
    groups0, groups1 = -(-d0 // 4), -(-(d - d0) // 4)
    # |q1||w1| ≤ slots of four products of bytes, each byte |x1| / (2 √slots scale0), rounded up.
    slots = int(np.ceil((widest / (2 * 127 * scale0)) ** 2)) if d0 < d else 0
    W = np.zeros((len(source), 4 * (slots + groups0 + groups1)), np.int8)
    head_bias, bias = np.empty((2, len(source)), np.int32)
    norms = np.empty((6, len(source)), np.float32)
    for i in range(0, len(source), CHUNK):
        part = slice(i, i + CHUNK)
        Y = (X[source[part]].astype(np.float64) - mean) @ R
        _quantise(Y, d0, scale0, scale1, slots, W[part], head_bias[part], bias[part], norms[:, part])
    filled = np.flatnonzero(sizes)
    worst = np.zeros((4, len(sizes)), np.float32)
    if len(filled):
        worst[:, filled] = np.maximum.reduceat(norms[2:], start[:-1][filled], axis=1)
    norm, norm0, error, _, error0, _ = norms
    unit0, unit = scale0**2, scale1**2
    layout = (slots, groups0, groups1, unit0, unit, 2 * halvings)
    return Index(W.view(np.int32), start, head_bias, bias, *layout, norm, norm0, error, error0, worst)


def _sample(X: Floats) -> NDArray[np.float64]:
    return X[np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).astype(np.intp)].astype(np.float64)


def rotation(X: Floats, d0: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean m and the orthogonal R: principal directions first, spread evenly over head and over tail."""
    rows = _sample(X)
    mean = rows.mean(axis=0)
    rows -= mean
    V = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    rng = np.random.default_rng(0)
    spread = [np.linalg.qr(rng.standard_normal((m, m)))[0] for m in (d0, X.shape[1] - d0)]
    return mean, np.hstack([V[:, :d0] @ spread[0], V[:, d0:] @ spread[1]])


def _grid(Y: NDArray[np.float64], d0: int) -> tuple[float, int, float]:
    """The head's grid step, how often the tail's is halved, and a tail norm that hardly a row exceeds."""
    end0 = float(np.quantile(np.abs(Y[:, :d0]), WITHIN))
    scale0 = end0 / 127 if end0 > 0 else 1.0
    if d0 == Y.shape[1]:
        return scale0, 0, 0.0
    end1 = float(np.quantile(np.abs(Y[:, d0:]), WITHIN))
    # Products of the head, shifted twice that often, must stay below 2^30.
    most = np.floor(np.log2(2**30 / (127 * 255 * (d0 + 4))) / 2)
    halvings = int(np.clip(np.floor(np.log2(end0 / end1)), 0, min(most, 3))) if min(end0, end1) > 0 else 0
    return scale0, halvings, 1.25 * float(np.linalg.norm(Y[:, d0:], axis=1).max())


@kernel
def _round(y: NDArray[np.float64], step: float, out: NDArray[np.int8]) -> tuple[float, float, float, int]:
    """Bytes of y on the grid; |y|², |y - y'|², |y'|² and the sum of the bytes."""
    size, wrong, grid, total = 0.0, 0.0, 0.0, 0
    for j in range(len(y)):
        byte = min(max(np.rint(y[j] / step), -127.0), 127.0)
        out[j] = np.int8(byte)
        size += y[j] * y[j]
        wrong += (y[j] - byte * step) ** 2
        grid += (byte * step) ** 2
        total += int(byte)
    return size, wrong, grid, total


@kernel
def _quantise(
    Y: NDArray[np.float64],
    d0: int,
    scale0: float,
    scale1: float,
    slots: int,
    W: NDArray[np.int8],
    head_bias: NDArray[np.int32],
    bias: NDArray[np.int32],
    norms: NDArray[np.float32],
) -> None:
    """Bytes, biases and the norms |x|, |x0|, |e|, |x'|, |e0|, |x0'| of rotated rows.

    A row far outside of the sample may fit no byte: it gets a bound that is true for being huge.
    """
    first0 = 4 * slots
    first1 = first0 + (d0 + 3) // 4 * 4
    shift = int(np.rint(2 * np.log2(scale0 / scale1)))
    for r in range(len(Y)):
        size0, wrong0, grid0, sum0 = _round(Y[r, :d0], scale0, W[r, first0:])
        size1, wrong1, grid1, sum1 = _round(Y[r, d0:], scale1, W[r, first1:])
        half = (size0 + size1) / 2
        up0, up = -half / scale0**2 + 1, -half / scale1**2
        fits = up > -LARGEST
        if slots > 0:
            byte = np.ceil(np.sqrt(size1) / (2 * np.sqrt(slots) * scale0) * (1 + 1e-9))
            W[r, :first0] = np.int8(min(byte, 127.0))
            fits = fits and byte <= 127
        norms[0, r], norms[1, r] = np.sqrt(size0 + size1), np.sqrt(size0)
        norms[2, r], norms[3, r] = np.sqrt(wrong0 + wrong1), np.sqrt(grid0 + grid1)
        norms[4, r], norms[5, r] = np.sqrt(wrong0), np.sqrt(grid0)
        if not fits:
            up0, up = 0.0, max(up, -LARGEST)
            norms[2, r] = norms[4, r] = HUGE
        head_bias[r] = np.int32(np.rint(up0)) - 128 * sum0
        bias[r] = np.int32(np.rint(up)) - 128 * ((sum0 << shift) + sum1)
