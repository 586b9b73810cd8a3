"""The loops of `cover.py`. Gains are whole numbers here, so that sums are exact and ties are ties."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.compiled import kernel

__all__ = ["count_edges", "fill_edges", "lazy_greedy", "static_greedy"]

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.floating[Any]]
# Per pick: the window, its gain, and how many boxes are covered then; the covered boxes in order.
Trace = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


@kernel
def count_edges(
    image: Ints, window: Ints, rows: Ints, k: int, positive: NDArray[np.bool_], n_boxes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """Where the edges of each row start, the image of each box (-1: no edge), and a row at fault or -1.

    At fault is a row that lists an image twice, or a box in another image than a row before it did.
    """
    indptr = np.zeros(len(rows) + 1, np.int64)
    home = np.full(n_boxes, -1, np.int32)
    stamp = np.full(len(positive), -1, np.int64)
    for v in range(len(rows)):
        n = 0
        for j in range(k):
            i = image[rows[v], j]
            u = window[rows[v], j]
            if stamp[i] == v or (positive[i] and home[u] >= 0 and home[u] != i):
                return indptr, home, rows[v]
            stamp[i] = v
            if positive[i]:
                home[u] = i
                n += 1
        indptr[v + 1] = indptr[v] + n
    return indptr, home, -1


@kernel
def fill_edges(
    image: Ints,
    window: Ints,
    distance: Floats,
    rows: Ints,
    k: int,
    positive: NDArray[np.bool_],
    number: NDArray[np.int32],
    indptr: NDArray[np.int64],
    box: NDArray[np.int32],
    total: NDArray[np.float64],
) -> None:
    """Write the edges, and the total distance of each row's edges."""
    for v in range(len(rows)):
        e = indptr[v]
        for j in range(k):
            i = image[rows[v], j]
            if positive[i]:
                box[e] = number[window[rows[v], j]]
                total[v] += distance[rows[v], j]
                e += 1


@kernel
def _before(a: int, b: int, bound: NDArray[np.int64], total: NDArray[np.float64]) -> bool:
    if bound[a] != bound[b]:
        return bound[a] > bound[b]
    if total[a] != total[b]:
        return total[a] < total[b]
    return a < b


@kernel
def _sift_down(
    heap: NDArray[np.int32], at: int, bound: NDArray[np.int64], total: NDArray[np.float64]
) -> None:
    v = heap[at]
    n = len(heap)
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and _before(heap[child + 1], heap[child], bound, total):
            child += 1
        if not _before(heap[child], v, bound, total):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = v


@kernel
def _gain(v: int, indptr: NDArray[np.int64], box: NDArray[np.int32], worth: Ints) -> int:
    gain = 0
    for e in range(indptr[v], indptr[v + 1]):
        gain += worth[box[e]]
    return gain


@kernel
def _take(
    v: int,
    indptr: NDArray[np.int64],
    box: NDArray[np.int32],
    part: NDArray[np.int64],
    image: NDArray[np.int32],
    steps: Ints,
    count: NDArray[np.int32],
    taken: NDArray[np.bool_],
    worth: Ints,
    covered: NDArray[np.int32],
    n_covered: int,
    full_too: bool,
) -> int:
    """Add v's boxes to Γ(S); return how many there are now. Those of a full image only where `full_too`.

    `worth` of every other box of an image falls to the image's next step of g.
    """
    for e in range(indptr[v], indptr[v + 1]):
        u = box[e]
        if taken[u] or (worth[u] == 0 and not full_too):
            continue
        taken[u] = True
        worth[u] = 0
        covered[n_covered] = u
        n_covered += 1
        i = image[u]
        if count[i] == len(steps):
            continue
        before = steps[count[i]]
        count[i] += 1
        after = steps[count[i]] if count[i] < len(steps) else 0
        if after != before:
            for other in range(part[i], part[i + 1]):
                if not taken[other]:
                    worth[other] = after
    return n_covered


@kernel
def lazy_greedy(
    indptr: NDArray[np.int64],
    box: NDArray[np.int32],
    part: NDArray[np.int64],
    image: NDArray[np.int32],
    total: NDArray[np.float64],
    steps: Ints,
    worth: Ints,
    target: float,
) -> Trace:
    """Greedy by marginal gain. The top of the heap is right once its gain is up to date.

    A gain never rises (F is submodular), so a stale one is an upper bound. `worth[u]` is what box u would
    add now; a window has at most one box in an image, so its gain is the sum over its boxes.
    """
    n = len(indptr) - 1
    bound = (indptr[1:] - indptr[:-1]) * np.int64(steps[0])
    heap = np.arange(n).astype(np.int32)
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(heap, at, bound, total)
    count = np.zeros(len(part) - 1, np.int32)
    taken = np.zeros(len(image), np.bool_)
    selected = np.empty(n, np.int64)
    gains = np.empty(n, np.int64)
    ends = np.empty(len(selected), np.int64)
    covered = np.empty(len(image), np.int32)
    n_covered = 0
    size = 0
    reached = np.int64(0)
    while n and reached < target and bound[heap[0]] > 0:
        v = heap[0]
        gain = _gain(v, indptr, box, worth)
        if gain == bound[v]:
            n_covered = _take(
                v, indptr, box, part, image, steps, count, taken, worth, covered, n_covered, True
            )
            selected[size] = v
            gains[size] = gain
            ends[size] = n_covered
            size += 1
            reached += gain
            gain = 0
        bound[v] = gain
        _sift_down(heap, 0, bound, total)
    return selected[:size].copy(), gains[:size].copy(), ends[:size].copy(), covered[:n_covered].copy()


@kernel
def static_greedy(
    indptr: NDArray[np.int64],
    box: NDArray[np.int32],
    part: NDArray[np.int64],
    image: NDArray[np.int32],
    order: Ints,
    steps: Ints,
    worth: Ints,
    target: float,
) -> Trace:
    """In the given order, every window that still gains; full images are out."""
    count = np.zeros(len(part) - 1, np.int32)
    taken = np.zeros(len(image), np.bool_)
    selected = np.empty(len(order), np.int64)
    gains = np.empty(len(order), np.int64)
    ends = np.empty(len(selected), np.int64)
    covered = np.empty(len(image), np.int32)
    n_covered = 0
    size = 0
    reached = np.int64(0)
    for v in order:
        if reached >= target:
            break
        gain = _gain(v, indptr, box, worth)
        if gain > 0:
            n_covered = _take(
                v, indptr, box, part, image, steps, count, taken, worth, covered, n_covered, False
            )
            selected[size] = v
            gains[size] = gain
            ends[size] = n_covered
            size += 1
            reached += gain
    return selected[:size].copy(), gains[:size].copy(), ends[:size].copy(), covered[:n_covered].copy()
