"""The loops of `neighbors.py`: scan every image by bytes, refine the few that may be near with floats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.compiled import kernel
from tag2box.int8 import LANES, ROWS, max_tile, score_tile

__all__ = ["by_image", "candidates", "nearest", "pack", "refine", "scan"]

Floats = NDArray[np.floating[Any]]
LOWEST = np.int32(-(2**31))
SIGN = np.int32(-0x7F7F7F80)  # 0x80808080: from signed bytes to bytes + 128
# Bounds are kept in float32, distances compared in it: both are off by less than this share.
ROUNDING = 2e-6


@kernel
def pack(
    W: NDArray[np.int32], rows: NDArray[np.int64], slots: int, first: int, out: NDArray[np.int32]
) -> None:
    """Rows of W from group `first` on as the tiles want queries: out (groups, LANES); spare lanes are 0."""
    for lane in range(LANES):
        for g in range(len(out)):
            word = np.int32(0)
            if lane < len(rows):
                word = W[rows[lane], first + g]
                if first + g >= slots:
                    word ^= SIGN
            out[g, lane] = word


@kernel
def scan(
    W: NDArray[np.int32],
    start: NDArray[np.int64],
    head_bias: NDArray[np.int32],
    Q: NDArray[np.int32],
    unit0: float,
    norm: Floats,
    norm0: Floats,
    error0: Floats,
    worst: NDArray[np.float32],
    lower: NDArray[np.float32],
) -> None:
    """`lower[image, query]`: a lower bound on the squared distance to the image's nearest window.

    Q: (blocks, groups, LANES) packed queries; norm, norm0, error0: of the queries, padded to whole blocks.
    """
    blocks, groups = Q.shape[0], Q.shape[1]
    best = np.empty(LANES, np.int32)
    queries, windows, biases = np.intp(Q.ctypes.data), np.intp(W.ctypes.data), np.intp(head_bias.ctypes.data)
    stride = 4 * W.shape[1]
    for i in range(len(start) - 1):
        for b in range(blocks):
            best[:] = LOWEST
            q = queries + b * groups * LANES * 4
            for w in range(start[i], start[i + 1], ROWS):
                max_tile(q, windows + w * stride, stride, biases + 4 * w, np.intp(best.ctypes.data), groups)
            for lane in range(LANES):
                j = b * LANES + lane
                score = best[lane] * unit0 + norm0[j] * worst[2, i] + error0[j] * worst[3, i]
                size = norm[j] * norm[j]
                lower[i, j] = size - 2 * score - ROUNDING * (size + abs(score))
        if start[i] == start[i + 1]:
            lower[i] = np.inf


@kernel
def candidates(lower: NDArray[np.float32], above: Floats, limit: Floats) -> tuple[Any, Any]:
    """Images with above < lower ≤ limit, for each query: (where they start, images). lower: (queries, images)."""
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
def distance(a: Floats, b: Floats) -> float:
    """|a - b|: differences, squares and sums in float64 and in one fixed order, then rounded to float32."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(a) // 8 * 8
    for j in range(0, whole, 8):
        s0 += (np.float64(a[j]) - np.float64(b[j])) ** 2
        s1 += (np.float64(a[j + 1]) - np.float64(b[j + 1])) ** 2
        s2 += (np.float64(a[j + 2]) - np.float64(b[j + 2])) ** 2
        s3 += (np.float64(a[j + 3]) - np.float64(b[j + 3])) ** 2
        s4 += (np.float64(a[j + 4]) - np.float64(b[j + 4])) ** 2
        s5 += (np.float64(a[j + 5]) - np.float64(b[j + 5])) ** 2
        s6 += (np.float64(a[j + 6]) - np.float64(b[j + 6])) ** 2
        s7 += (np.float64(a[j + 7]) - np.float64(b[j + 7])) ** 2
    for j in range(whole, len(a)):
        s0 += (np.float64(a[j]) - np.float64(b[j])) ** 2
    return np.float32(np.sqrt(((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))))


@kernel
def refine(
    X: Floats,
    offsets: NDArray[np.int64],
    W: NDArray[np.int32],
    start: NDArray[np.int64],
    bias: NDArray[np.int32],
    layout: tuple[int, int, int, int],
    unit: float,
    norm: Floats,
    error: Floats,
    worst: NDArray[np.float32],
    rows: NDArray[np.int64],
    padded: NDArray[np.int64],
    first: NDArray[np.int64],
    place: NDArray[np.int64],
    query: NDArray[np.int64],
    limit: NDArray[np.float32],
    out_distance: NDArray[np.float32],
    out_window: NDArray[np.int32],
) -> None:
    """The nearest window and its distance for each pair (query, image); infinity where that exceeds `limit`.

    All of an image's windows are scored by bytes; those that the error bound leaves are measured in floats.
    rows, padded: where each query is in X and in W; norm, error: of the queries.
    """
    slots, groups0, groups1, shift = layout
    most = (start[1:] - start[:-1]).max()
    scores = np.empty((most, LANES), np.int32)
    best = np.empty(LANES, np.int32)
    least = np.empty(LANES, np.int32)
    Q = np.empty((groups0 + groups1, LANES), np.int32)
    head = np.intp(W.ctypes.data) + 4 * slots
    stride = 4 * W.shape[1]
    for i in range(len(start) - 1):
        for c in range(first[i], first[i + 1], LANES):
            n = min(LANES, first[i + 1] - c)
            pack(W, padded[query[c : c + n]], slots, slots, Q)
            best[:] = LOWEST
            for w in range(start[i], start[i + 1], ROWS):
                score_tile(
                    np.intp(Q.ctypes.data),
                    head + w * stride,
                    stride,
                    np.intp(bias.ctypes.data) + 4 * w,
                    np.intp(scores.ctypes.data) + 4 * LANES * (w - start[i]),
                    np.intp(best.ctypes.data),
                    groups0,
                    groups1,
                    np.int32(shift),
                )
            least[:] = 2**31 - 1
            for lane in range(n):
                q = query[c + lane]
                size = norm[q] * norm[q]
                slack = norm[q] * worst[0, i] + error[q] * worst[1, i] + unit
                score = best[lane] * unit
                slack += ROUNDING * (size + abs(score))
                if size - 2 * (score + slack) <= limit[q]:
                    least[lane] = np.int32(max(best[lane] - 2 * slack / unit - 1, LOWEST + 1.0))
                out_distance[place[c + lane]] = np.inf
            for w in range(offsets[i + 1] - offsets[i]):
                hits = 0
                for lane in range(LANES):
                    hits += scores[w, lane] >= least[lane]
                if hits == 0:
                    continue
                row = offsets[i] + w
                for lane in range(n):
                    if scores[w, lane] >= least[lane]:
                        p = place[c + lane]
                        r = distance(X[rows[query[c + lane]]], X[row])
                        if r < out_distance[p]:
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
    """The k nearest of each query's pairs (image, window, distance), two lots of them, by distance and image."""
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
