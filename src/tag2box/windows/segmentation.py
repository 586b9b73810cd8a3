"""Graph-based segmentation: Felzenszwalb and Huttenlocher, "Efficient graph-based image segmentation", 2004.

Pixels are vertices, edges lead to the 8 neighbors and weigh the distance of the colors. Edges are taken by
rising weight; one joins two components A and B when it weighs at most min(Int(A) + k/|A|, Int(B) + k/|B|),
where Int is the heaviest edge inside. Weights are rounded down to 1/STEPS of a gray level, so that edges are
sorted by counting: those of equal weight keep the order of the raster.

4-neighbors would halve the time; with them overlap was a point behind OpenCV, which has 8. Asking only the
edges of a minimum spanning tree, one for all k, would save a third. That is another segmentation (an edge
that closes a cycle may join what an earlier edge of the cycle did not), and it cost a point as well.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

__all__ = ["STEPS", "segment", "sort_edges"]

Ints = NDArray[np.int32]
Pixel = np.uint32  # unsigned: numba need not ask whether an index counts from the end

STEPS = 8
N_WEIGHTS = 442 * STEPS + 1  # the longest distance in a cube of side 255 is 441.7


@kernel
def sort_edges(image: NDArray[np.float32]) -> tuple[Ints, Ints]:
    """Edges of the (h, w, 3) `image` by rising weight, as (edge, first).

    Edge 4p + d leads from pixel p to the right (d = 0), or down: left (1), straight (2), right (3).
    Those of weight v / STEPS are `edge[first[v] : first[v + 1]]`.
    """
    h, w, _ = image.shape
    weight = np.full(4 * h * w, -1, np.int32)
    first = np.zeros(N_WEIGHTS + 1, np.int32)
    for y in range(h):
        for x in range(w):
            for d in range(4):
                qy, qx = (y, x + 1) if d == 0 else (y + 1, x + d - 2)
                if qy == h or qx < 0 or qx == w:
                    continue
                v = _distance(image, y, x, qy, qx)
                weight[4 * (y * w + x) + d] = v
                first[v + 1] += 1
    first = np.cumsum(first).astype(np.int32)
    at = first.copy()
    edge = np.empty(first[-1], np.int32)
    for e in range(4 * h * w):
        v = weight[e]
        if v >= 0:
            edge[at[v]] = e
            at[v] += 1
    return edge, first


@kernel
def segment(edge: Ints, first: Ints, h: int, w: int, k: float, min_pixels: int) -> tuple[Ints, int]:
    """Labels (h, w), numbered in raster order, and their number; `sort_edges` gives `edge` and `first`.

    Components of fewer than `min_pixels` join a neighbor, again by rising weight.
    """
    parent = np.full(h * w, -1, np.int32)  # minus the size of the component at its root
    limit = np.full(h * w, k, np.float32)  # Int(A) + k/|A|, at the root of A
    refused = np.empty(len(edge), np.int32)
    n_refused = 0
    for v in range(len(first) - 1):
        weight = np.float32(v) / np.float32(STEPS)
        for i in range(first[v], first[v + 1]):
            a, b = _ends(parent, edge[i], w)
            if a == b:
                continue
            if weight <= limit[a] and weight <= limit[b]:
                root = _join(parent, a, b)
                limit[root] = weight - np.float32(k) / np.float32(parent[root])
            else:
                refused[n_refused] = edge[i]
                n_refused += 1
    for e in refused[:n_refused]:
        a, b = _ends(parent, e, w)
        if a != b and max(parent[a], parent[b]) > -min_pixels:
            _join(parent, a, b)
    return _number(parent, h, w)


@kernel
def _distance(image: NDArray[np.float32], y: int, x: int, qy: int, qx: int) -> int:
    a = image[y, x, 0] - image[qy, qx, 0]
    b = image[y, x, 1] - image[qy, qx, 1]
    c = image[y, x, 2] - image[qy, qx, 2]
    return int(np.sqrt(a * a + b * b + c * c) * np.float32(STEPS))


@kernel
def _ends(parent: Ints, edge: int, w: int) -> tuple[Pixel, Pixel]:
    """The roots of the two components that `edge` touches."""
    p = Pixel(edge >> 2)
    d = edge & 3
    q = Pixel(p + (w + d - 2 if d else 1))
    if parent[p] == parent[q] >= 0:  # most edges: spares the two searches
        return p, p
    return _find(parent, p), _find(parent, q)


@kernel
def _find(parent: Ints, p: Pixel) -> Pixel:
    up = parent[p]
    while up >= 0:
        above = parent[Pixel(up)]
        if above < 0:
            return Pixel(up)
        parent[p] = above  # shortens the path for the next search
        p, up = Pixel(up), above
    return p


@kernel
def _join(parent: Ints, a: Pixel, b: Pixel) -> Pixel:
    if parent[a] > parent[b]:
        a, b = b, a
    parent[a] += parent[b]
    parent[b] = a
    return a


@kernel
def _number(parent: Ints, h: int, w: int) -> tuple[Ints, int]:
    labels = np.empty((h, w), np.int32)
    name = np.full(h * w, -1, np.int32)
    n = 0
    for y in range(h):
        for x in range(w):
            root = _find(parent, Pixel(y * w + x))
            if name[root] < 0:
                name[root] = n
                n += 1
            labels[y, x] = name[root]
    return labels, n
