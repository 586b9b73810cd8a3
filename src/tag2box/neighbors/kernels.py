"""The loops of the search: codes of 8 bits, each image's best score, and distances in float64."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float32]
# How much larger one |a - b|² may come out of float32 than another that is not smaller.
SURE, TINY = 1.001, 1e-36


@kernel
def encode(rows: Floats, codes: NDArray[np.int8], step: Floats, error: Floats) -> None:
    """Turn each row w by a Hadamard matrix H / √d, d = codes.shape[1], and round it: step · codes ≈ H w / √d.

    Turned, the numbers of a row are about as large. error: |H w / √d - step · codes|, measured.
    """
    d, v = codes.shape[1], np.empty(codes.shape[1], np.float32)
    for r in range(len(rows)):
        v[: rows.shape[1]], v[rows.shape[1] :] = rows[r] / np.float32(np.sqrt(d)), 0
        half = 1
        while half < d:
            for i in range(0, d, 2 * half):
                for j in range(i, i + half):
                    v[j], v[j + half] = v[j] + v[j + half], v[j] - v[j + half]
            half *= 2
        step[r] = max(np.abs(v).max(), np.float32(1e-35)) / np.float32(127)
        left = v - np.rint(v / step[r]) * step[r]
        codes[r] = np.rint(v / step[r]).astype(np.int8)
        error[r] = np.sqrt((left * left).sum())


@kernel
def group_size(n: int) -> int:
    """Rows in a group of an image of n rows: at most 64 groups."""
    return max(4, (n + 63) // 64)


class Tables(NamedTuple):
    """(n_images, n_queries) each: what a score may be wrong by, the best score of the image so far, and a bit
    for each group of its rows that may have it."""

    slack: Floats
    best: Floats
    groups: NDArray[np.uint64]


@kernel
def keep_best(
    products: Floats,  # (n_rows or more, n_queries or more)
    step: Floats,  # (n_rows,) what a product is multiplied by, as by that of its query
    size: Floats,  # (n_rows,) |w|²
    query_step: Floats,  # (n_queries,)
    first: int,  # the row of X that the products begin with
    at: int,  # the query
    offsets: NDArray[np.int64],
    tables: Tables,
) -> None:
    """Enter the scores w·q - |w|²/2 of some rows into the best of each image, and into its groups."""
    n, r, image = len(query_step), 0, np.searchsorted(offsets, first, side="right") - 1
    top = np.empty(n, np.float32)
    while r < len(step):
        while first + r >= offsets[image + 1]:
            image += 1
        rows = group_size(offsets[image + 1] - offsets[image])
        group = (first + r - offsets[image]) // rows
        stop = min(len(step), min(offsets[image] + (group + 1) * rows, offsets[image + 1]) - first)
        bit = np.uint64(1) << np.uint64(group)
        top[:] = -np.inf
        for row in range(r, stop):
            product, s, h = products[row], step[row], size[row] / np.float32(2)
            for q in range(n):
                score = product[q] * query_step[q] * s - h
                top[q] = score if score > top[q] else top[q]
        most, room = tables.best[image, at : at + n], tables.slack[image, at : at + n]
        bits = tables.groups[image, at : at + n]
        for q in range(n):
            old, wide = most[q], np.float32(2) * room[q]
            kept = bits[q] if old + wide >= top[q] else np.uint64(0)
            bits[q] = kept | bit if top[q] + wide >= old else kept
            most[q] = top[q] if top[q] > old else old
        r = stop


@partial(kernel, fastmath={"reassoc"})
def about(a: NDArray[Any], b: NDArray[Any]) -> float:
    """|a - b|² in the type of X, summed up in any order."""
    total = a[0] - a[0]
    for j in range(len(a)):
        total += (a[j] - b[j]) ** 2
    return np.float64(total)


@kernel
def measure(
    rows: NDArray[Any],  # of one image
    queries: NDArray[Any],
    near: NDArray[np.bool_],  # (n_queries,)
    groups: NDArray[np.uint64],  # (n_queries,) which groups of rows may have the nearest
    window: NDArray[np.int32],  # (near.sum(),), as distance: the answer
    distance: Floats,
) -> None:
    """The nearest row to each near query by float64, and its distance. Ties go to the smaller row."""
    size = group_size(len(rows))
    square = np.empty(len(rows))
    for n, q in enumerate(np.flatnonzero(near)):
        for r in range(len(rows)):
            maybe = groups[q] >> np.uint64(r // size) & np.uint64(1)
            square[r] = about(rows[r], queries[q]) if maybe else np.inf
        most, distance[n] = (square.min() + TINY) * SURE, np.inf
        for row in np.flatnonzero(square <= most):
            total = 0.0
            for j in range(rows.shape[1]):
                total += (np.float64(rows[row, j]) - np.float64(queries[q, j])) ** 2
            to_row = np.float32(np.sqrt(total))
            if to_row < distance[n]:
                distance[n], window[n] = to_row, row
