"""The loops of `neighbors.py`: scan every image by bytes, refine the few that may be near with floats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.compiled import kernel
from tag2box.distance import distance
from tag2box.int8 import LANES, ROWS, max_tile, score_tile

__all__ = ["by_image", "candidates", "nearest", "pack", "refine", "scan"]

Floats = NDArray[np.floating[Any]]
LOWEST, HIGHEST = np.int32(-(2**31)), np.int32(2**31 - 1)
SIGN = np.int32(-0x7F7F7F80)  # 0x80808080: from signed bytes to bytes + 128
# Bounds are kept in float32, distances compared in it: both are off by less than this share.
ROUNDING = 2e-6


@kernel
def pack(W: NDArray[np.int32], rows: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    """Rows of W as the tiles want queries: out (groups, LANES), bytes + 128; spare lanes are 0."""
    for lane in range(LANES):
        for g in range(len(out)):
            out[g, lane] = W[rows[lane], g] ^ SIGN if lane < len(rows) else 0


@kernel
def scan(
    W: NDArray[np.int32],
    start: NDArray[np.int64],
    bias: NDArray[np.int32],
    grid: NDArray[np.float32],
    unit: float,
    typical: float,
    Q: NDArray[np.int32],
    norm: NDArray[np.float32],
    error: NDArray[np.float32],
    lower: NDArray[np.float32],
) -> None:
    """`lower[image, query]`: a lower bound on the squared distance to the image's nearest window.

    Q: (blocks, groups, LANES) packed queries; norm, error: theirs, padded to whole blocks.
    """
    blocks, groups = Q.shape[0], Q.shape[1]
    best = np.empty(LANES, np.int32)
    queries, windows, biases = np.intp(Q.ctypes.data), np.intp(W.ctypes.data), np.intp(bias.ctypes.data)
    stride = 4 * groups
    for i in range(len(start) - 1):
        for b in range(blocks):
            best[:] = LOWEST
            q = queries + b * stride * LANES
            for w in range(start[i], start[i + 1], ROWS):
                max_tile(q, windows + w * stride, stride, biases + 4 * w, np.intp(best.ctypes.data), groups)
            for lane in range(LANES):
                j = b * LANES + lane
                score = best[lane] * unit + norm[j] * typical + error[j] * grid[i]
                size = norm[j] * norm[j]
                lower[i, j] = size - 2 * score - ROUNDING * (size + abs(score))
        if start[i] == start[i + 1]:
            lower[i] = np.inf


@kernel
def candidates(lower: NDArray[np.float32], above: Floats, limit: Floats) -> tuple[Any, Any]:
    """Images with above < lower ≤ limit for each query (the rows of lower): (where they start, images)."""
    at = np.zeros(len(lower) + 1, np.int64)
    for q in range(len(lower)):
        n = 0
        for i in range(lower.shape[1]):
            n += above[q] < lower[q, i] <= limit[q]
        at[q + 1] = at[q] + n
    image = np.empty(at[-1], np.int32)
    for q in range(len(lower)):
        n = at[q]
        for i in range(lower.shape[1]):
            if above[q] < lower[q, i] <= limit[q]:
                image[n] = i
                n += 1
    return at, image


@kernel
def by_image(at: NDArray[np.int64], image: NDArray[np.int32], n_images: int) -> tuple[Any, Any, Any]:
    """The pairs (query, image) sorted by image: (where each image's start, place of the pair, its query)."""
    first = np.zeros(n_images + 1, np.int64)
    for i in image:
        first[i + 1] += 1
    for i in range(n_images):
        first[i + 1] += first[i]
    place = np.empty(len(image), np.int64)
    query = np.empty(len(image), np.int64)
    fill = first.copy()
    for q in range(len(at) - 1):
        for p in range(at[q], at[q + 1]):
            place[fill[image[p]]] = p
            query[fill[image[p]]] = q
            fill[image[p]] += 1
    return first, place, query


@kernel
def _first_best(scores: NDArray[np.int32], best: NDArray[np.int32], out: NDArray[np.int32]) -> None:
    for w in range(len(scores) - 1, -1, -1):
        for lane in range(LANES):
            out[lane] = np.int32(w) if scores[w, lane] == best[lane] else out[lane]


@kernel
def refine(
    X: NDArray[Any],
    offsets: NDArray[np.int64],
    W: NDArray[np.int32],
    start: NDArray[np.int64],
    bias: NDArray[np.int32],
    grid: NDArray[np.float32],
    unit: float,
    typical: float,
    norm: NDArray[np.float32],
    error: NDArray[np.float32],
    rows: NDArray[np.int64],
    padded: NDArray[np.int64],
    limit: NDArray[np.float32],
    first: NDArray[np.int64],
    place: NDArray[np.int64],
    query: NDArray[np.int64],
    out_window: NDArray[np.int32],
    out_distance: NDArray[np.float32],
) -> None:
    """The nearest window and its distance for each pair (query, image) within its query's `limit`.

    All of an image's windows are scored by bytes; those that the bound leaves are measured in floats. Beyond
    the limit the answer is infinity, or a window that lies beyond it too. rows, padded: where each query is
    in X and in W; norm, error: theirs.
    """
    scores = np.empty(((start[1:] - start[:-1]).max(), LANES), np.int32)
    best, least, likeliest = np.empty((3, LANES), np.int32)
    Q = np.empty((W.shape[1], LANES), np.int32)
    stride = 4 * W.shape[1]
    for i in range(len(start) - 1):
        windows = offsets[i + 1] - offsets[i]
        for c in range(first[i], first[i + 1], LANES):
            n = min(LANES, first[i + 1] - c)
            pack(W, padded[query[c : c + n]], Q)
            best[:] = LOWEST
            for w in range(start[i], start[i + 1], ROWS):
                score_tile(
                    np.intp(Q.ctypes.data),
                    np.intp(W.ctypes.data) + w * stride,
                    stride,
                    np.intp(bias.ctypes.data) + 4 * w,
                    np.intp(scores.ctypes.data) + 4 * LANES * (w - start[i]),
                    np.intp(best.ctypes.data),
                    W.shape[1],
                )
            _first_best(scores[:windows], best, likeliest)
            least[:] = HIGHEST
            for lane in range(n):
                p, q = place[c + lane], query[c + lane]
                out_distance[p] = np.inf
                size = norm[q] * norm[q]
                slack = norm[q] * typical + error[q] * grid[i] + unit
                slack += ROUNDING * (size + abs(best[lane] * unit))
                if size - 2 * (best[lane] * unit + slack) > limit[q]:
                    continue
                # The likeliest window first: what is farther than that for certain is not measured.
                out_window[p] = offsets[i] + likeliest[lane]
                r = distance(X, rows[q], out_window[p])
                out_distance[p] = r
                enough = min(r * r * (1 + ROUNDING), limit[q])
                least[lane] = np.int32(max(((size - enough) / 2 - slack) / unit - 1, LOWEST + 1.0))
            for w in range(windows):
                hits = np.int32(0)
                for lane in range(LANES):
                    hits += np.int32(scores[w, lane] >= least[lane])
                if hits == 0:
                    continue
                row = offsets[i] + w
                for lane in range(n):
                    if scores[w, lane] >= least[lane] and w != likeliest[lane]:
                        p = place[c + lane]
                        r = distance(X, rows[query[c + lane]], row)
                        if r < out_distance[p] or (r == out_distance[p] and row < out_window[p]):
                            out_distance[p] = r
                            out_window[p] = row


@kernel
def nearest(
    k: int,
    at: NDArray[np.int64],
    pairs: tuple[Any, Any, Any],
    at_more: NDArray[np.int64],
    pairs_more: tuple[Any, Any, Any],
    out_image: NDArray[np.int32],
    out_window: NDArray[np.int32],
    out_distance: NDArray[np.float32],
) -> None:
    """The k nearest of each query's pairs (image, window, distance), from two lots, by distance and image."""
    for q in range(len(at) - 1):
        a, z = at[q], at[q + 1]
        b, y = at_more[q], at_more[q + 1]
        image = np.concatenate((pairs[0][a:z], pairs_more[0][b:y]))
        window = np.concatenate((pairs[1][a:z], pairs_more[1][b:y]))
        distance = np.concatenate((pairs[2][a:z], pairs_more[2][b:y]))
        # A distance is not negative: its bits are in its own order, and the image breaks ties.
        keys = (distance.view(np.int32).astype(np.int64) << 32) | image
        order = np.argsort(keys)[:k]
        out_image[q] = image[order]
        out_window[q] = window[order]
        out_distance[q] = distance[order]
