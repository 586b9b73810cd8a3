"""The loops of `search.py`: scan every image by bytes, measure the few that may be near in floats."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.neighbors.arithmetic import ARITHMETIC
from tag2box.neighbors.distance import distance
from tag2box.neighbors.index import Index
from tag2box.neighbors.int8 import LANES, ROWS, row_scores, score_tile, top_tile
from tag2box.neighbors.pairs import ROUNDING, Pairs, PairsByImage
from tag2box.runtime.compiled import kernel

__all__ = [
    "Indexed",
    "Queries",
    "Tiles",
    "as_bytes",
    "pack",
    "scan",
    "search_all_tiles",
    "search_best_tile",
]

LOWEST, HIGHEST = np.int32(-(2**31)), np.int32(2**31 - 1)
# To be flipped in a query: 0x80808080 adds 128 to signed bytes, which makes them unsigned.
SIGN = np.int32(-0x7F7F7F80 if ARITHMETIC.shift else 0)


class Indexed(NamedTuple):
    """The windows that are searched."""

    X: NDArray[Any]
    offsets: NDArray[np.int64]
    codes: Index


class Queries(NamedTuple):
    """The queries of a block; `norm`, `error` and `packed` are padded to a multiple of LANES."""

    row: NDArray[np.int64]  # of each in X
    padded: NDArray[np.int64]  # of each in the index
    norm: NDArray[np.float32]
    error: NDArray[np.float32]
    packed: NDArray[np.int32]  # (blocks, groups, LANES), as the tiles take them
    words: NDArray[np.int32]  # (n, groups or more), one after the other; zeros behind the last group


class Tiles(NamedTuple):
    """The two best tiles of each image for each query, (images, padded queries).

    A score is an upper bound but for |q| typical + |e_q||w'|; its lowest bits (`mask`) are the tile's number.
    """

    mask: int
    best: NDArray[np.int32]
    second: NDArray[np.int32]


@kernel
def pack(W: NDArray[np.int32], rows: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    """Rows of W as the tiles want queries: out (groups, LANES), shifted; spare lanes are 0."""
    for lane in range(LANES):
        for g in range(len(out)):
            out[g, lane] = W[rows[lane], g] ^ SIGN if lane < len(rows) else 0


@kernel
def as_bytes(W: NDArray[np.int32], rows: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    """Rows of W as queries, one after the other; out (rows, at least groups) is zero before."""
    for r in range(len(rows)):
        for g in range(W.shape[1]):
            out[r, g] = W[rows[r], g] ^ SIGN


@kernel
def scan(index: Index, queries: Queries, mask: int) -> tuple[Tiles, NDArray[np.float32]]:
    """The two best tiles of each image, and the least squared distance that they allow, (images, queries)."""
    W, start, bias, packed = index.W, index.start, index.bias, queries.packed
    norm, error = queries.norm, queries.error
    blocks, groups = packed.shape[0], packed.shape[1]
    shape = len(start) - 1, blocks * LANES
    best, second = np.empty(shape, np.int32), np.empty(shape, np.int32)
    lower = np.empty(shape, np.float32)
    q, windows, biases = np.intp(packed.ctypes.data), np.intp(W.ctypes.data), np.intp(bias.ctypes.data)
    stride = 4 * groups
    for i in range(len(start) - 1):
        best[i], second[i] = LOWEST, LOWEST
        for b in range(blocks):
            first, other = np.intp(best[i].ctypes.data), np.intp(second[i].ctypes.data)
            for w in range(start[i], start[i + 1], ROWS):
                top_tile(
                    q + b * stride * LANES,
                    windows + w * stride,
                    biases + 4 * w,
                    first + 4 * b * LANES,
                    other + 4 * b * LANES,
                    groups,
                    np.int32((w - start[i]) // ROWS),
                    np.int32(mask),
                )
        for j in range(blocks * LANES):
            score = (best[i, j] | mask) * index.unit + norm[j] * index.typical + error[j] * index.largest[i]
            size = norm[j] * norm[j]
            lower[i, j] = size - 2 * score - ROUNDING * (size + abs(score))
        if start[i] == start[i + 1]:
            lower[i] = np.inf
    return Tiles(mask, best, second), lower


@kernel
def search_best_tile(
    indexed: Indexed, queries: Queries, tiles: Tiles, limit: NDArray[np.float32], pairs: PairsByImage
) -> tuple[NDArray[np.int32], NDArray[np.float32], PairsByImage]:
    """The nearest window of each pair in its best tile, and its distance; infinity if all lie beyond `limit`.

    Then the pairs where another tile may hold a nearer one within the limit, in the same order.
    """
    X, offsets, index = indexed.X, indexed.offsets, indexed.codes
    W, start, unit, mask = index.W, index.start, index.unit, tiles.mask
    norm, error, words, n_pairs = queries.norm, queries.error, queries.words, len(pairs.place)
    window, nearest = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.float32)
    left = np.zeros(len(pairs.first), np.int64)
    left_place, left_query = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    scores = np.empty(ROWS, np.int32)
    stride = 4 * W.shape[1]
    n = 0
    for i in range(len(start) - 1):
        for c in range(pairs.first[i], pairs.first[i + 1]):
            p, q = pairs.place[c], pairs.query[c]
            top = tiles.best[i, q]
            size = norm[q] * norm[q]
            slack = norm[q] * index.typical + error[q] * index.largest[i] + unit
            slack += ROUNDING * (size + abs(top * unit))
            nearest[p] = np.inf
            if size - 2 * ((top | mask) * unit + slack) > limit[q]:
                continue
            w = ROWS * (top & mask)
            row_scores(
                np.intp(words[q].ctypes.data),
                np.intp(W.ctypes.data) + (start[i] + w) * stride,
                stride,
                np.intp(index.bias.ctypes.data) + 4 * (start[i] + w),
                np.intp(scores.ctypes.data),
                words.shape[1],
            )
            # The likeliest window first: what is farther than that for certain is not measured.
            likeliest = scores.argmax()
            window[p] = offsets[i] + w + likeliest
            nearest[p] = distance(X, queries.row[q], window[p])
            for r in range(min(ROWS, offsets[i + 1] - offsets[i] - w)):
                if r != likeliest and scores[r] * unit + slack >= _needed(size, nearest[p], limit[q]):
                    row = offsets[i] + w + r
                    _keep_nearer(distance(X, queries.row[q], row), row, p, window, nearest)
            if (tiles.second[i, q] | mask) * unit + slack >= _needed(size, nearest[p], limit[q]):
                left_place[n], left_query[n] = p, q
                n += 1
        left[i + 1] = n
    return window, nearest, PairsByImage(left, left_place[:n], left_query[:n])


@kernel
def _needed(size: Any, nearest: Any, limit: Any) -> Any:
    """The score of a window that is no farther than `nearest`, nor than the limit."""
    return (size - min(nearest * nearest * (1 + ROUNDING), limit)) / 2


@kernel
def _keep_nearer(
    r: np.float32, row: int, p: int, window: NDArray[np.int32], nearest: NDArray[np.float32]
) -> None:
    if r < nearest[p] or (r == nearest[p] and row < window[p]):
        nearest[p] = r
        window[p] = row


@kernel
def search_all_tiles(
    indexed: Indexed, queries: Queries, limit: NDArray[np.float32], left: PairsByImage, pairs: Pairs
) -> None:
    """Replace the window of the pairs that are `left` by the nearest one, unless that lies beyond the limit.

    All windows of an image are scored by bytes; those that may be nearer than the one known, and within the
    limit, are measured in floats.
    """
    X, offsets, index = indexed.X, indexed.offsets, indexed.codes
    W, start, unit, norm = index.W, index.start, index.unit, queries.norm
    scores = np.empty(((start[1:] - start[:-1]).max(), LANES), np.int32)
    least = np.empty(LANES, np.int32)
    Q = np.empty((W.shape[1], LANES), np.int32)
    for i in range(len(start) - 1):
        for c in range(left.first[i], left.first[i + 1], LANES):
            n = min(LANES, left.first[i + 1] - c)
            pack(W, queries.padded[left.query[c : c + n]], Q)
            for w in range(start[i], start[i + 1], ROWS):
                score_tile(
                    np.intp(Q.ctypes.data),
                    np.intp(W.ctypes.data) + w * 4 * W.shape[1],
                    np.intp(index.bias.ctypes.data) + 4 * w,
                    np.intp(scores.ctypes.data) + 4 * LANES * (w - start[i]),
                    W.shape[1],
                )
            least[:] = HIGHEST
            for lane in range(n):
                p, q = left.place[c + lane], left.query[c + lane]
                size = norm[q] * norm[q]
                needed = _needed(size, pairs.distance[p], limit[q])
                slack = norm[q] * index.typical + queries.error[q] * index.largest[i] + unit
                slack += ROUNDING * (size + abs(needed))
                least[lane] = np.int32(max((needed - slack) / unit - 1, LOWEST + 1.0))
            for w in range(offsets[i + 1] - offsets[i]):
                hits = np.int32(0)
                for lane in range(LANES):
                    hits += np.int32(scores[w, lane] >= least[lane])
                if hits == 0:
                    continue
                row = offsets[i] + w
                for lane in range(n):
                    p = left.place[c + lane]
                    if scores[w, lane] >= least[lane] and row != pairs.window[p]:
                        r = distance(X, queries.row[left.query[c + lane]], row)
                        _keep_nearer(r, row, p, pairs.window, pairs.distance)
