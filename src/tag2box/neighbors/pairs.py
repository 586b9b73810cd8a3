"""Pairs of a query and an image: which may be near, in what order to measure them, and which are nearest."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

__all__ = ["ROUNDING", "Pairs", "PairsByImage", "about_kth", "by_image", "candidates", "limits", "nearest"]

Floats = NDArray[np.floating[Any]]
# Bounds are kept in float32, distances compared in it: both are off by less than this share.
ROUNDING = 2e-6
BINS = 512


class Pairs(NamedTuple):
    """Pairs (query, image), query by query: those of query q are from at[q] to at[q + 1]."""

    at: NDArray[np.int64]
    image: NDArray[np.int32]
    window: NDArray[np.int32]  # the nearest that is known, as a row of X
    distance: NDArray[np.float32]  # of that window; infinity where none lies within the limit


class PairsByImage(NamedTuple):
    """Pairs (query, image), image by image: those of image i are from first[i] to first[i + 1]."""

    first: NDArray[np.int64]
    place: NDArray[np.int64]  # of each in its `Pairs`
    query: NDArray[np.int64]


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
def limits(pairs: Pairs, k: int) -> NDArray[np.float32]:
    """The square of each query's k-th smallest distance, rounded up."""
    at = pairs.at
    out = np.empty(len(at) - 1, np.float32)
    for q in range(len(out)):
        kth = np.float64(np.partition(pairs.distance[at[q] : at[q + 1]], k - 1)[k - 1])
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
def by_image(at: NDArray[np.int64], image: NDArray[np.int32], n_images: int) -> PairsByImage:
    """The pairs (query, image) sorted by image."""
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
    return PairsByImage(first, place, query)


@kernel
def nearest(k: int, some: Pairs, more: Pairs) -> tuple[Any, Any, Any]:
    """The k nearest images of each query, from two lots of pairs: image, window, distance, each (queries, k).

    Ties in distance go to the smaller image.
    """
    n = len(some.at) - 1
    images, windows = np.empty((n, k), np.int32), np.empty((n, k), np.int32)
    distances = np.empty((n, k), np.float32)
    for q in range(n):
        a, z = some.at[q], some.at[q + 1]
        b, y = more.at[q], more.at[q + 1]
        image = np.concatenate((some.image[a:z], more.image[b:y]))
        window = np.concatenate((some.window[a:z], more.window[b:y]))
        distance = np.concatenate((some.distance[a:z], more.distance[b:y]))
        # A distance is not negative: its bits are in its own order, and the image breaks ties.
        keys = (distance.view(np.int32).astype(np.int64) << 32) | image
        order = np.argsort(keys)[:k]
        images[q] = image[order]
        windows[q] = window[order]
        distances[q] = distance[order]
    return images, windows, distances
