"""Graph-based segmentation: Felzenszwalb and Huttenlocher, "Efficient graph-based image segmentation", 2004.

Pixels are vertices, edges lead to the 8 neighbors and weigh the distance of the colors. Edges are taken by
rising weight; one joins two components A and B when it weighs at most min(Int(A) + k/|A|, Int(B) + k/|B|),
where Int is the heaviest edge inside.

What every k would do is done once, for all of them (`pieces`): a component lives on as long as the smallest
and the largest k agree on its edges, and is a finished piece as soon as they do not. The segmentation of one
k (`segment`) goes on from there, with pieces instead of pixels and a third of the edges, to the same regions.

Asking only the edges of a minimum spanning tree is another segmentation (an edge that closes a cycle may join
what an earlier edge of the cycle did not), and it cost a point of overlap.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel
from tag2box.windows.edges import STEPS, Pixel, ends_of, steps

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Pieces = tuple[Ints, Floats, Ints, Floats]

CHUNK = 512  # edges that are looked at together, without a branch, to drop those inside a component


@kernel
def pieces(edge: Ints, first: Ints, h: int, w: int, lowest: float, highest: float) -> tuple[Ints, Pieces]:
    """What segmentations of all k from `lowest` to `highest` share; `sort_edges` gives `edge` and `first`.

    The piece of each pixel (h, w), numbered in raster order, and for `segment`: the pixels of each piece,
    its heaviest edge, and the edges between pieces as (m, 2) and their weights, infinite for those that no k
    joins by.
    """
    label, state, status = _join_what_all_join(edge, first, h, w, np.float32(lowest), np.float32(highest))
    name = np.full(h * w, -1, np.int32)
    size, heaviest = np.empty(h * w, np.int32), np.empty(h * w, np.float32)
    n = 0
    for p in range(h * w):
        root = Pixel(_root(label[p]))
        if name[root] < 0:
            name[root] = n
            size[n], heaviest[n] = np.int32(state[root, 0]), state[root, 1]
            n += 1
        label[p] = name[root]
    left = np.empty(len(edge) + 1, np.int32)
    m = 0
    for i in range(len(edge)):
        left[m] = i
        m += status[i] > 0
    ends, weight = np.empty((m + 1, 2), np.int32), np.empty(m + 1, np.float32)
    step = steps(w)
    between = v = 0
    for i in left[:m]:
        while i >= first[v + 1]:
            v += 1
        one, other = ends_of(edge[i], step)
        ends[between, 0], ends[between, 1] = label[one], label[other]
        weight[between] = np.float32(v) / np.float32(STEPS) if status[i] == 1 else np.float32(np.inf)
        between += label[one] != label[other]
    rest = size[:n].copy(), heaviest[:n].copy(), ends[:between], weight[:between]
    return label.reshape(h, w), rest


@kernel
def segment(parts: Pieces, k: float, min_pixels: int) -> tuple[Ints, int]:
    """The region of each piece, numbered as pieces are, and the number of regions; `parts` is of `pieces`.

    Components of fewer than `min_pixels` join a neighbor, again by rising weight.
    """
    size, heaviest, ends, weight = parts
    n = len(size)
    scale = np.float32(k)
    label, after = np.arange(n).astype(np.int32), np.arange(n).astype(np.int32)
    state = np.empty((n, 2), np.float32)  # pixels, and Int(A) + k/|A|, at the label of A
    for i in range(n):
        state[i, 0] = size[i]
        state[i, 1] = heaviest[i] + scale / np.float32(size[i])
    refused, candidates = np.empty(len(weight), np.int32), np.empty(CHUNK, np.int32)
    n_refused = 0
    for start in range(0, len(weight), CHUNK):
        m = 0
        for i in range(start, min(start + CHUNK, len(weight))):
            candidates[m] = i
            m += label[Pixel(ends[i, 0])] != label[Pixel(ends[i, 1])]
        for i in candidates[:m]:
            a, b = label[Pixel(ends[i, 0])], label[Pixel(ends[i, 1])]
            if a == b:
                continue
            if weight[i] <= min(state[Pixel(a), 1], state[Pixel(b), 1]):
                root = _join(label, after, state, a, b)
                state[root, 1] = weight[i] + scale / state[root, 0]
            else:
                refused[n_refused] = i
                n_refused += 1
    for i in refused[:n_refused]:
        a, b = label[Pixel(ends[i, 0])], label[Pixel(ends[i, 1])]
        if a != b and min(state[Pixel(a), 0], state[Pixel(b), 0]) < min_pixels:
            _join(label, after, state, a, b)
    return _number(label)


@kernel
def _join_what_all_join(
    edge: Ints, first: Ints, h: int, w: int, lowest: np.float32, highest: np.float32
) -> tuple[Ints, Floats, NDArray[np.uint8]]:
    """Labels of pixels, negative (~label) where finished, (pixels, Int) at labels, and what became of edges.

    An edge is inside a component (0), is left to each k (1), or joins for none (2).
    """
    label, after = np.arange(h * w).astype(np.int32), np.arange(h * w).astype(np.int32)
    state = np.zeros((h * w, 2), np.float32)
    state[:, 0] = 1
    status, candidates = np.empty(len(edge), np.uint8), np.empty(CHUNK, np.int32)
    step = steps(w)
    v = 0
    for start in range(0, len(edge), CHUNK):
        m = 0
        for i in range(start, min(start + CHUNK, len(edge))):
            p, q = ends_of(edge[i], step)
            a, b = label[p], label[q]
            finished = (a & b) < 0
            status[i] = (a != b) & finished
            candidates[m] = i
            m += (a != b) & (not finished)
        for i in candidates[:m]:
            while i >= first[v + 1]:
                v += 1
            weight = np.float32(v) / np.float32(STEPS)
            p, q = ends_of(edge[i], step)
            a, b = label[p], label[q]
            if a == b:
                continue
            if (a | b) >= 0 and weight <= min(_limit(state, a, lowest), _limit(state, b, lowest)):
                state[_join(label, after, state, a, b), 1] = weight
            elif (a >= 0 and weight > _limit(state, a, highest)) or (
                b >= 0 and weight > _limit(state, b, highest)
            ):
                status[i] = 2
            else:
                status[i] = 1
                for each in (a, b):
                    if each >= 0:
                        _relabel(label, after, each, ~each)
    return label, state, status


@kernel
def _limit(state: Floats, a: np.int32, k: np.float32) -> np.float32:
    return np.float32(state[Pixel(a), 1] + k / state[Pixel(a), 0])


@kernel
def _root(label: np.int32) -> np.int32:
    return label if label >= 0 else ~label


@kernel
def _join(label: Ints, after: Ints, state: Floats, a: np.int32, b: np.int32) -> Pixel:
    """Give the smaller of two components the label of the larger, which is returned."""
    if state[Pixel(a), 0] < state[Pixel(b), 0]:
        a, b = b, a
    _relabel(label, after, b, a)
    after[Pixel(a)], after[Pixel(b)] = after[Pixel(b)], after[Pixel(a)]  # two circles become one
    state[Pixel(a), 0] += state[Pixel(b), 0]
    return Pixel(a)


@kernel
def _relabel(label: Ints, after: Ints, a: np.int32, new: np.int32) -> None:
    """Walk around the circle of a's component."""
    p = Pixel(a)
    while True:
        label[p] = new
        p = Pixel(after[p])
        if p == Pixel(a):
            return


@kernel
def _number(label: Ints) -> tuple[Ints, int]:
    """Labels numbered by first appearance."""
    name, out = np.full(len(label), -1, np.int32), np.empty(len(label), np.int32)
    n = 0
    for p in range(len(label)):
        if name[label[p]] < 0:
            name[label[p]] = n
            n += 1
        out[p] = name[label[p]]
    return out, n
