"""Hierarchical grouping of regions, Uijlings et al. 2013, Algorithm 1."""
import heapq

import numpy as np

from tag2box.compiled import kernel
from tag2box.regions import N_BINS, N_COLOUR, UNIT

__all__ = ["group"]

@kernel
def similarity(a, b, size, box, histogram, whole, use):
    s = np.float32(0)
    if use[0]:
        t = 0
        for j in range(N_COLOUR):
            t += min(histogram[a, j], histogram[b, j])
        s += np.float32(t) / np.float32(UNIT)
    if use[1]:
        t = 0
        for j in range(N_COLOUR, N_BINS):
            t += min(histogram[a, j], histogram[b, j])
        s += np.float32(t) / np.float32(UNIT)
    if use[2]:
        s += np.float32(1) - np.float32(size[a] + size[b]) / np.float32(whole)
    if use[3]:
        bw = max(box[a, 2], box[b, 2]) - min(box[a, 0], box[b, 0])
        bh = max(box[a, 3], box[b, 3]) - min(box[a, 1], box[b, 1])
        s += np.float32(1) - np.float32(bw * bh - size[a] - size[b]) / np.float32(whole)
    return s

@kernel
def group(size, box, histogram, pairs, use):
    n = (len(size) + 1) // 2
    whole = size[:n].sum()
    m = len(pairs)
    start = np.zeros(2 * n - 1, np.int32)
    length = np.zeros(2 * n - 1, np.int32)
    for i in range(m):
        length[pairs[i, 0]] += 1
        length[pairs[i, 1]] += 1
    start[1:n] = np.cumsum(length[: n - 1])
    pool = np.empty(8 * m + 16, np.int32)
    length[:] = 0
    heap = [(np.float32(0), np.int32(0), np.int32(0)) for _ in range(0)]
    for i in range(m):
        a, b = pairs[i, 0], pairs[i, 1]
        pool[start[a] + length[a]] = b
        length[a] += 1
        pool[start[b] + length[b]] = a
        length[b] += 1
        heap.append((-similarity(a, b, size, box, histogram, whole, use), a, b))
    heapq.heapify(heap)
    end = 2 * m
    root = np.arange(2 * n - 1).astype(np.int32)
    seen = np.zeros(2 * n - 1, np.int32)
    t = np.int32(n)
    while t < 2 * n - 1:
        _, a, b = heapq.heappop(heap)
        if root[a] != a or root[b] != b:
            continue
        root[a] = t
        root[b] = t
        size[t] = size[a] + size[b]
        box[t, 0] = min(box[a, 0], box[b, 0])
        box[t, 1] = min(box[a, 1], box[b, 1])
        box[t, 2] = max(box[a, 2], box[b, 2])
        box[t, 3] = max(box[a, 3], box[b, 3])
        fa = np.float32(size[a]) / np.float32(size[t])
        fb = np.float32(size[b]) / np.float32(size[t])
        for j in range(N_BINS):
            histogram[t, j] = np.int32(histogram[a, j] * fa + histogram[b, j] * fb)
        if end + length[a] + length[b] > len(pool):
            pool = np.concatenate((pool, np.empty(len(pool) + length[a] + length[b], np.int32)))
        start[t] = end
        for c in (a, b):
            for i in range(start[c], start[c] + length[c]):
                v = pool[i]
                while root[v] != v:
                    root[v] = root[root[v]]
                    v = root[v]
                if v != t and seen[v] != t:
                    seen[v] = t
                    pool[end] = v
                    end += 1
                    heapq.heappush(heap, (-similarity(v, t, size, box, histogram, whole, use), v, np.int32(t)))
        length[t] = end - start[t]
        t += np.int32(1)
