"""The loops of the cover. Gains are whole numbers here, so that sums are exact and ties are ties."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.floating[Any]]
BLOCK = 1024  # windows whose largest gain is remembered together


class Listed(NamedTuple):
    """A table of neighbors, (n, k) or wider, and what of it makes the graph of one class."""

    image: Ints
    window: Ints
    distance: Floats
    rows: Ints  # those that may be selected
    k: int  # the columns that count
    positive: NDArray[np.bool_]  # (n_images,)


class Edges(NamedTuple):
    """The edges from both sides: window v has the boxes box[indptr[v]:indptr[v + 1]].

    Box u is of the windows user[start[u]:start[u + 1]], and of the image part_of[u]; image i has the boxes
    part[i] to part[i + 1].
    """

    indptr: NDArray[np.int64]
    box: NDArray[np.int32]
    start: NDArray[np.int64]
    user: NDArray[np.int32]
    part: NDArray[np.int64]
    part_of: NDArray[np.int32]


@kernel
def count_edges(table: Listed, n_boxes: int) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """Where the edges of each row start, the image of each box (-1: no edge), and a row at fault or -1.

    At fault is a row that lists an image twice, or a box in another image than a row before it did.
    """
    image, window, rows, positive = table.image, table.window, table.rows, table.positive
    indptr = np.zeros(len(rows) + 1, np.int64)
    home = np.full(n_boxes, -1, np.int32)
    stamp = np.full(len(positive), -1, np.int64)
    for v in range(len(rows)):
        n = 0
        for j in range(table.k):
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
    table: Listed, number: NDArray[np.int32], indptr: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The box of each edge, by its number among the boxes, and the total distance of each row's edges."""
    image, window, rows, positive = table.image, table.window, table.rows, table.positive
    box, total = np.empty(indptr[-1], np.int32), np.zeros(len(rows))
    for v in range(len(rows)):
        e = indptr[v]
        for j in range(table.k):
            i = image[rows[v], j]
            if positive[i]:
                box[e] = number[window[rows[v], j]]
                total[v] += table.distance[rows[v], j]
                e += 1
    return box, total


@kernel
def _lower(user: NDArray[np.int32], first: int, last: int, by: int, gain: Ints) -> None:
    for e in range(first, last):
        gain[user[e]] -= by


@kernel
def _take(
    v: int,
    edges: Edges,
    steps: NDArray[np.int64],
    count: NDArray[np.int32],
    taken: NDArray[np.bool_],
    gain: Ints,
) -> None:
    """Add v's boxes to Γ(S), and lower the gain of every window that loses by it.

    A taken box is worth nothing any more; the others of its image fall to the next step of g.
    """
    start, user, part = edges.start, edges.user, edges.part
    for e in range(edges.indptr[v], edges.indptr[v + 1]):
        u = edges.box[e]
        i = edges.part_of[u]
        if taken[u]:
            continue
        taken[u] = True
        if count[i] == len(steps):
            continue
        before = steps[count[i]]
        count[i] += 1
        fall = before - (steps[count[i]] if count[i] < len(steps) else 0)
        _lower(user, start[u], start[u + 1], before, gain)
        if fall > 0:
            for other in range(part[i], part[i + 1]):
                if not taken[other]:
                    _lower(user, start[other], start[other + 1], fall, gain)


@kernel
def _best_of_block(gain: Ints, total: NDArray[np.float64], block: int) -> int:
    first = block * BLOCK
    best = first
    for v in range(first + 1, min(first + BLOCK, len(gain))):
        if gain[v] > gain[best] or (gain[v] == gain[best] and total[v] < total[best]):
            best = v
    return best


@kernel
def _best(gain: Ints, total: NDArray[np.float64], most: Ints) -> int:
    """The window that gains most; ties: smaller total, then smaller index. `most` bounds blocks."""
    best = _best_of_block(gain, total, int(most.argmax()))
    for block in range(len(most)):
        if most[block] >= gain[best]:
            v = _best_of_block(gain, total, block)
            most[block] = gain[v]
            better = gain[v] > gain[best] or (gain[v] == gain[best] and total[v] < total[best])
            if better or (gain[v] == gain[best] and total[v] == total[best] and v < best):
                best = v
    return best


@kernel
def greedy(
    edges: Edges, total: NDArray[np.float64], steps: NDArray[np.int64], gain: Ints, target: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Greedy by marginal gain: (selected, gains). `gain` is what each window gains on its own.

    Gains are kept up to date from the side of the boxes. They only fall (F is submodular), so an old
    maximum of a block of windows is an upper bound, and most blocks need no look. At t = 1 and with g the
    identity each edge is touched at most once in all.
    """
    n = len(gain)
    most = np.full((n + BLOCK - 1) // BLOCK, gain.max() if n else 0, gain.dtype)
    count = np.zeros(len(edges.part) - 1, np.int32)
    taken = np.zeros(len(edges.part_of), np.bool_)
    selected = np.empty(n, np.int64)
    gains = np.empty(n, np.int64)
    size = 0
    reached = np.int64(0)
    while n > 0 and reached < target:
        v = _best(gain, total, most)
        if gain[v] == 0:
            break
        selected[size] = v
        gains[size] = gain[v]
        reached += gain[v]
        size += 1
        _take(v, edges, steps, count, taken, gain)
    return selected[:size].copy(), gains[:size].copy()


@kernel
def covered_by(
    selected: NDArray[np.int64], edges: Edges, room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct boxes of the selection, in its order, at most `room` of an image: (boxes, which pick)."""
    indptr, box, part_of = edges.indptr, edges.box, edges.part_of
    count = np.zeros(len(edges.part) - 1, np.int64)
    taken = np.zeros(len(part_of), np.bool_)
    covered = np.empty(len(part_of), np.int64)
    by = np.empty(len(part_of), np.int64)
    n = 0
    for pick in range(len(selected)):
        for e in range(indptr[selected[pick]], indptr[selected[pick] + 1]):
            u = box[e]
            if not taken[u] and count[part_of[u]] < room:
                taken[u] = True
                count[part_of[u]] += 1
                covered[n] = u
                by[n] = pick
                n += 1
    return covered[:n].copy(), by[:n].copy()
