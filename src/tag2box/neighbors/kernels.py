"""The loops of `neighbors.py`: scan every image by bytes, refine the few that may be near with floats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.neighbors.arithmetic import ARITHMETIC
from tag2box.neighbors.distance import distance
from tag2box.neighbors.int8 import LANES, ROWS, row_scores, score_tile, top_tile
from tag2box.runtime.compiled import kernel

__all__ = [
    "about_kth",
    "as_bytes",
    "by_image",
    "candidates",
    "limits",
    "nearest",
    "pack",
    "refine",
    "scan",
    "settle",
]

Floats = NDArray[np.floating[Any]]
LOWEST, HIGHEST = np.int32(-(2**31)), np.int32(2**31 - 1)
# To be flipped in a query: 0x80808080 adds 128 to signed bytes, which makes them unsigned.
SIGN = np.int32(-0x7F7F7F80 if ARITHMETIC.shift else 0)
# Bounds are kept in float32, distances compared in it: both are off by less than this share.
ROUNDING = 2e-6
BINS = 512


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
    mask: int,
    best: NDArray[np.int32],
    second: NDArray[np.int32],
    lower: NDArray[np.float32],
) -> None:
    """`best`, `second`: each image's two best tiles for each query, (images, queries); their scores are upper
    bounds but for |q| typical + |e_q||w'|, their lowest bits (`mask`) the tile's number.

    `lower`: what that makes the squared distance to the nearest window at least. Q: (blocks, groups, LANES)
    packed queries; norm, error: theirs. Queries are padded to whole blocks.
    """
    blocks, groups = Q.shape[0], Q.shape[1]
    queries, windows, biases = np.intp(Q.ctypes.data), np.intp(W.ctypes.data), np.intp(bias.ctypes.data)
    stride = 4 * groups
    for i in range(len(start) - 1):
        best[i], second[i] = LOWEST, LOWEST
        for b in range(blocks):
            first, other = np.intp(best[i].ctypes.data), np.intp(second[i].ctypes.data)
            for w in range(start[i], start[i + 1], ROWS):
                top_tile(
                    queries + b * stride * LANES,
                    windows + w * stride,
                    stride,
                    biases + 4 * w,
                    first + 4 * b * LANES,
                    other + 4 * b * LANES,
                    groups,
                    np.int32((w - start[i]) // ROWS),
                    np.int32(mask),
                )
        for j in range(blocks * LANES):
            score = (best[i, j] | mask) * unit + norm[j] * typical + error[j] * grid[i]
            size = norm[j] * norm[j]
            lower[i, j] = size - 2 * score - ROUNDING * (size + abs(score))
        if start[i] == start[i + 1]:
            lower[i] = np.inf


@kernel
def about_kth(lower: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """For each row a value that at least k, and hardly more, of its entries do not exceed, by counting."""
    out = np.empty(len(lower), np.float32)
    bins = np.empty(lower.shape[1], np.int32)
    for q in range(len(lower)):
        low, high = np.float32(np.inf), np.float32(-np.inf)
        for x in lower[q]:
            low = min(low, x)
            high = max(high, x if x < np.inf else high)
        scale = np.float32((BINS - 1) / (high - low)) if high > low else np.float32(0)
        count = np.zeros(BINS + 1, np.int32)  # the last for images without windows
        for i in range(len(bins)):
            bins[i] = np.int32((lower[q, i] - low) * scale) if lower[q, i] < np.inf else BINS
            count[bins[i]] += 1
        last, reached = 0, count[0]
        while reached < k:
            last += 1
            reached += count[last]
        if reached > 2 * k:
            out[q] = np.partition(lower[q], k - 1)[k - 1]
            continue
        out[q] = low
        for i in range(len(bins)):
            out[q] = max(out[q], lower[q, i] if bins[i] <= last else low)
    return out


@kernel
def limits(distance: NDArray[np.float32], at: NDArray[np.int64], k: int) -> NDArray[np.float32]:
    """The square of each query's k-th smallest distance, rounded up."""
    out = np.empty(len(at) - 1, np.float32)
    for q in range(len(out)):
        kth = np.float64(np.partition(distance[at[q] : at[q + 1]], k - 1)[k - 1])
        out[q] = kth * kth * (1 + ROUNDING)
    return out


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
def settle(
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
    limit: NDArray[np.float32],
    mask: int,
    best: NDArray[np.int32],
    second: NDArray[np.int32],
    queries: NDArray[np.int32],
    first: NDArray[np.int64],
    place: NDArray[np.int64],
    query: NDArray[np.int64],
    out_window: NDArray[np.int32],
    out_distance: NDArray[np.float32],
) -> tuple[Any, Any, Any]:
    """The nearest window of each pair (query, image) in its best tile; infinity where all lie beyond `limit`.

    Returns the pairs where another tile may hold a nearer one within the limit, by image as they came.
    queries: their bytes, one after the other; the rest is as in `scan` and `refine`.
    """
    left = np.zeros(len(first), np.int64)
    left_place, left_query = np.empty(len(place), np.int64), np.empty(len(place), np.int64)
    scores = np.empty(ROWS, np.int32)
    stride = 4 * W.shape[1]
    n = 0
    for i in range(len(start) - 1):
        for c in range(first[i], first[i + 1]):
            p, q = place[c], query[c]
            top = best[i, q]
            size = norm[q] * norm[q]
            slack = norm[q] * typical + error[q] * grid[i] + unit
            slack += ROUNDING * (size + abs(top * unit))
            out_distance[p] = np.inf
            if size - 2 * ((top | mask) * unit + slack) > limit[q]:
                continue
            w = ROWS * (top & mask)
            row_scores(
                np.intp(queries[q].ctypes.data),
                np.intp(W.ctypes.data) + (start[i] + w) * stride,
                stride,
                np.intp(bias.ctypes.data) + 4 * (start[i] + w),
                np.intp(scores.ctypes.data),
                queries.shape[1],
            )
            # The likeliest window first: what is farther than that for certain is not measured.
            likeliest = scores.argmax()
            out_window[p] = offsets[i] + w + likeliest
            out_distance[p] = distance(X, rows[q], out_window[p])
            for r in range(min(ROWS, offsets[i + 1] - offsets[i] - w)):
                if r != likeliest and scores[r] * unit + slack >= _needed(size, out_distance[p], limit[q]):
                    _keep_nearer(
                        distance(X, rows[q], offsets[i] + w + r),
                        offsets[i] + w + r,
                        p,
                        out_window,
                        out_distance,
                    )
            if (second[i, q] | mask) * unit + slack >= _needed(size, out_distance[p], limit[q]):
                left_place[n], left_query[n] = p, q
                n += 1
        left[i + 1] = n
    return left, left_place[:n], left_query[:n]


@kernel
def _needed(size: Any, nearest: Any, limit: Any) -> Any:
    """The score of a window that is no farther than `nearest`, nor than the limit."""
    return (size - min(nearest * nearest * (1 + ROUNDING), limit)) / 2


@kernel
def _keep_nearer(
    r: np.float32, row: int, p: int, out_window: NDArray[np.int32], out_distance: NDArray[np.float32]
) -> None:
    if r < out_distance[p] or (r == out_distance[p] and row < out_window[p]):
        out_distance[p] = r
        out_window[p] = row


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
    """Replace the window of each pair (query, image) by the nearest one, unless that lies beyond the limit.

    All of an image's windows are scored by bytes; those that may be nearer than the one known, and within the
    limit, are measured in floats. rows, padded: where each query is in X and in W; norm, error: theirs.
    """
    scores = np.empty(((start[1:] - start[:-1]).max(), LANES), np.int32)
    least = np.empty(LANES, np.int32)
    Q = np.empty((W.shape[1], LANES), np.int32)
    stride = 4 * W.shape[1]
    for i in range(len(start) - 1):
        for c in range(first[i], first[i + 1], LANES):
            n = min(LANES, first[i + 1] - c)
            pack(W, padded[query[c : c + n]], Q)
            for w in range(start[i], start[i + 1], ROWS):
                score_tile(
                    np.intp(Q.ctypes.data),
                    np.intp(W.ctypes.data) + w * stride,
                    stride,
                    np.intp(bias.ctypes.data) + 4 * w,
                    np.intp(scores.ctypes.data) + 4 * LANES * (w - start[i]),
                    W.shape[1],
                )
            least[:] = HIGHEST
            for lane in range(n):
                p, q = place[c + lane], query[c + lane]
                size = norm[q] * norm[q]
                needed = _needed(size, out_distance[p], limit[q])
                slack = norm[q] * typical + error[q] * grid[i] + unit
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
                    p = place[c + lane]
                    if scores[w, lane] >= least[lane] and row != out_window[p]:
                        r = distance(X, rows[query[c + lane]], row)
                        _keep_nearer(r, row, p, out_window, out_distance)


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
