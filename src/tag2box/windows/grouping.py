"""Hierarchical grouping of regions: Uijlings et al. 2013, Algorithm 1.

The two most similar neighbors become one region, until one is left. Their similarity (equations 2 to 6) is
the sum of some of: color and texture (intersection of normalized histograms), size (1 - share of the image)
and fill (1 - share of the image that the common bounding box holds beyond the two).
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel
from tag2box.windows.regions import N_BINS, N_COLOR, UNIT

Ints = NDArray[np.int32]
Terms = tuple[bool, bool, bool, bool]
NONE = np.iinfo(np.int64).max  # no pair: later than any


@kernel
def group(size: Ints, box: Ints, histogram: Ints, pairs: Ints, terms: Terms) -> None:
    """Fill rows n to 2n - 2 of `size`, `box` and `histogram` with the merged regions, in order of merging.

    The first n rows are the regions, `pairs` (m, 2) those that touch, `terms` which of color, texture, size
    and fill count. Of equally similar pairs, that of the smallest numbers is merged.
    """
    n = (len(size) + 1) // 2
    start, length, touching = _lists(pairs, n)
    # What each of `touching` is worth to a region of higher number. A pair is in the hands of the higher of
    # its two, and only the best pair of each region is in the heap.
    worth = np.full(len(touching), NONE)
    end = 2 * len(pairs)
    whole = int(size[:n].sum())
    for r in range(n):
        for j in range(start[r], start[r] + length[r]):
            if touching[j] < r:
                s = similarity(touching[j], np.int32(r), size, box, histogram, whole, terms)
                worth[j] = _entry(s, touching[j], np.int32(r))
    into = np.arange(2 * n - 1).astype(np.int32)  # what each region has become part of; itself while it lives
    heap = [_best(np.int32(r), start, length, touching, worth, into) for r in range(n)]
    heapq.heapify(heap)
    met = np.zeros(2 * n - 1, np.int32)
    for i in range(n, 2 * n - 1):
        t = np.int32(i)
        a, b = _pair(heapq.heappop(heap))
        while into[a] != a or into[b] != b:  # a pair of the past
            if into[b] == b:
                heapq.heappush(heap, _best(b, start, length, touching, worth, into))
            a, b = _pair(heapq.heappop(heap))
        into[a] = into[b] = t
        _merge(a, b, t, size, box, histogram)
        most = end + length[a] + length[b]
        if most > len(touching):
            touching = np.concatenate((touching, np.empty(most, np.int32)))
            worth = np.concatenate((worth, np.empty(most, np.int64)))
        start[t] = end
        for part in (a, b):
            for j in range(start[part], start[part] + length[part]):
                other = _living(into, touching[j])
                if other != t and met[other] != t:
                    met[other] = t
                    touching[end] = other
                    s = similarity(other, t, size, box, histogram, whole, terms)
                    worth[end] = _entry(s, other, t)
                    end += 1
        length[t] = end - start[t]
        heapq.heappush(heap, _best(t, start, length, touching, worth, into))


@kernel
def _best(
    r: np.int32, start: Ints, length: Ints, touching: Ints, worth: NDArray[np.int64], into: Ints
) -> int:
    """The best pair in the hands of region `r` whose other end lives, or `NONE`."""
    best = NONE
    for j in range(start[r], start[r] + length[r]):
        if worth[j] < best and into[touching[j]] == touching[j]:
            best = worth[j]
    return best


@kernel
def similarity(
    a: np.int32, b: np.int32, size: Ints, box: Ints, histogram: Ints, whole: int, terms: Terms
) -> np.float32:
    """S(a, b), the sum of those of its four `terms` that are True; the image has `whole` pixels."""
    s = np.float32(0)
    if terms[0]:
        s += _intersection(histogram[a, :N_COLOR], histogram[b, :N_COLOR])
    if terms[1]:
        s += _intersection(histogram[a, N_COLOR:], histogram[b, N_COLOR:])
    both = size[a] + size[b]
    if terms[2]:
        s += np.float32(1) - np.float32(both) / np.float32(whole)
    if terms[3]:
        width = max(box[a, 2], box[b, 2]) - min(box[a, 0], box[b, 0])
        height = max(box[a, 3], box[b, 3]) - min(box[a, 1], box[b, 1])
        s += np.float32(1) - np.float32(width * height - both) / np.float32(whole)
    return s


@kernel
def _entry(s: np.float32, a: np.int32, b: np.int32) -> int:
    """One number that sorts by falling similarity, then a, then b: 64 bits compare faster than a tuple.

    Similarities are at most 4 and told apart to 2**-24; regions are fewer than 2**16.
    """
    return (int((4.0 - s) * (1 << 24)) << 32) | (int(a) << 16) | int(b)


@kernel
def _pair(entry: int) -> tuple[np.int32, np.int32]:
    return np.int32((entry >> 16) & 0xFFFF), np.int32(entry & 0xFFFF)


@kernel
def _intersection(p: Ints, q: Ints) -> np.float32:
    common = np.int32(0)
    for j in range(len(p)):
        common = np.int32(common + min(p[j], q[j]))
    return np.float32(common) / np.float32(UNIT)


@kernel
def _merge(a: np.int32, b: np.int32, t: np.int32, size: Ints, box: Ints, histogram: Ints) -> None:
    size[t] = size[a] + size[b]
    for j in range(2):
        box[t, j] = min(box[a, j], box[b, j])
        box[t, j + 2] = max(box[a, j + 2], box[b, j + 2])
    share_a = np.float32(size[a]) / np.float32(size[t])
    share_b = np.float32(size[b]) / np.float32(size[t])
    for j in range(N_BINS):
        histogram[t, j] = np.int32(histogram[a, j] * share_a + histogram[b, j] * share_b)


@kernel
def _lists(pairs: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """`pairs` as lists: region r touches `touching[start[r] : start[r] + length[r]]`."""
    length = np.zeros(2 * n - 1, np.int32)
    for a, b in pairs:
        length[a] += 1
        length[b] += 1
    start = np.zeros(2 * n - 1, np.int32)
    for r in range(1, n):
        start[r] = start[r - 1] + length[r - 1]
    touching = np.empty(8 * len(pairs), np.int32)
    length[:] = 0
    for a, b in pairs:
        touching[start[a] + length[a]] = b
        touching[start[b] + length[b]] = a
        length[a] += 1
        length[b] += 1
    return start, length, touching


@kernel
def _living(into: Ints, r: np.int32) -> np.int32:
    while into[r] != r:
        into[r] = into[into[r]]
        r = into[r]
    return r
