"""The loops of `search.py`: keep each image's two best scores, and measure in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel


@kernel
def keep_best_two(
    products: NDArray[np.float32],  # (n_rows, n_queries) w·q, of the rows of X from `first` on
    size: NDArray[np.float32],  # (n_rows,) |w|²
    first: int,
    offsets: NDArray[np.int64],
    best: NDArray[np.float32],  # (n_images, n_queries), as the others
    second: NDArray[np.float32],
    window: NDArray[np.int32],
) -> None:
    """Enter the scores w·q - |w|²/2 of some rows into each image's best, second best and best window."""
    image = np.searchsorted(offsets, first, side="right") - 1
    for r in range(len(products)):
        while first + r >= offsets[image + 1]:
            image += 1
        row, most, next_most, which = products[r], best[image], second[image], window[image]
        half = size[r] / np.float32(2)
        for q in range(len(row)):
            score, old = row[q] - half, most[q]
            lower = score if score < old else old
            next_most[q] = lower if lower > next_most[q] else next_most[q]
            which[q] = first + r if score > old else which[q]
            most[q] = score if score > old else old


@kernel
def measure(
    rows: NDArray[Any],  # of one image, from row `first` of X on
    first: int,
    queries: NDArray[Any],
    near: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
    window: NDArray[np.int32],
    distance: NDArray[np.float32],
) -> None:
    """The distance of each near query's `window`; where that is unsure, the nearest of all windows.

    distance: infinity before; so it stays where the image is not near. Ties go to the smaller window.
    """
    for q in np.flatnonzero(near):
        likeliest = window[q] - first
        start, stop = (0, len(rows)) if unsure[q] else (likeliest, likeliest + 1)
        for r in range(start, stop):
            total = 0.0
            for j in range(rows.shape[1]):
                total += (np.float64(rows[r, j]) - np.float64(queries[q, j])) ** 2
            to_row = np.float32(np.sqrt(total))
            if to_row < distance[q]:
                distance[q], window[q] = to_row, first + r
