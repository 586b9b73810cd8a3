"""The smoothed maximum of one bag, compiled: what `smoothing` and `one_pass` do bag by bag.

With `"l2"` most of the work is to find τ, below which s/μ is projected to 0. Loops here have no branches that
depend on a score: one that cannot be foreseen costs more than a write in vain.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float64]

MANY = 64  # scores for which a look at those near the highest pays: it leaves few to project


@kernel
def smooth_bag(
    s: Floats, a: int, b: int, mu: float, entropy: bool, top: int, u: Floats, where: NDArray[np.intp]
) -> tuple[float, int]:
    """f_μ of s[a:b], and n: u* is u[:n] at where[:n], and 0 elsewhere."""
    highest = s[a]
    for j in range(a + 1, b):
        highest = max(highest, s[j])
    if entropy:
        return _soften(s, a, b, mu, highest, u, where), b - a
    bound = -1.0  # of τ, from below: (Σ v - 1) / n of any n of them, so -1 of the highest alone
    if b - a > MANY:
        count, total = _near(s, a, b, highest - mu / 8, where), 0.0
        for k in range(count):
            total += s[where[k]] - highest
        bound = (total / mu - 1) / count
    count = _near(s, a, b, highest + mu * bound, where)
    if count == 1:
        u[0] = 1.0
        return highest - mu / 2, 1
    for k in range(count):
        u[k] = (s[where[k]] - highest) / mu
    if count <= top:
        tau, count = threshold(u, where, count)
    else:
        tau = _threshold_of_best(u[:count], top)
    inner, square = 0.0, 0.0
    for k in range(count):
        v, u[k] = u[k], max(u[k] - tau, 0.0)
        inner += u[k] * v
        square += u[k] * u[k]
    return highest + mu * (inner - square / 2), count


@kernel
def _near(s: Floats, a: int, b: int, least: float, where: NDArray[np.intp]) -> int:
    """n of s[a:b] that are at least so high; where[:n] are their places."""
    count = 0
    for j in range(a, b):
        where[count] = j
        count += 1 if s[j] >= least else 0
    return count


@kernel
def _soften(
    s: Floats, a: int, b: int, mu: float, highest: float, u: Floats, where: NDArray[np.intp]
) -> float:
    """The same with "entropy", for which no u* is 0."""
    total = 0.0
    for k in range(b - a):
        u[k], where[k] = np.exp(2 * (s[a + k] - highest) / mu), a + k
        total += u[k]
    for k in range(b - a):
        u[k] /= total
    return float(highest + mu / 2 * np.log(total))


@kernel
def _threshold_of_best(v: Floats, n: int) -> float:
    """The same τ from the n best alone; n grows until one of them lies below τ: the certificate ‖u'‖₀ < N."""
    where = np.empty(len(v), np.intp)
    while n < len(v):
        best = np.partition(v, len(v) - n)[len(v) - n :]
        least = best[0]
        tau, _ = threshold(best, where, n)
        if least <= tau:
            return tau
        n *= 2
    tau, _ = threshold(v.copy(), where, len(v))
    return tau


@kernel
def threshold(v: Floats, where: NDArray[np.intp], n: int) -> tuple[float, int]:
    """τ with Σ max(v - τ, 0) = 1 over the first n of `v`, and how many may lie above it: they come first now.

    Some passes of Michelot (1986) leave out what lies below a lower bound of τ: often that is all, and random
    pivots (Duchi et al. 2008) find τ among the rest in linear time.
    """
    total = -1.0
    for i in range(n):
        total += v[i]
    for _ in range(8):
        bound, kept, total = total / n, 0, -1.0
        for i in range(n):
            x = v[i]
            v[kept], where[kept] = x, where[i]
            kept += 1 if x > bound else 0
            total += x if x > bound else 0.0
        if kept == n:
            return bound, n
        n = kept
    return _by_pivots(v[:n].copy()), n


@kernel
def _by_pivots(v: Floats) -> float:
    """The same τ in linear expected time; v is a scratch copy."""
    start, stop = 0, len(v)
    total, count = 0.0, 0  # of the values known to lie above τ
    state = np.uint64(88172645463325252)
    while start < stop:
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        pivot = v[start + np.int64(state % np.uint64(stop - start))]
        middle, above = start, 0.0  # v[start:middle] >= pivot > v[middle:stop]
        for i in range(start, stop):
            if v[i] >= pivot:
                above += v[i]
                v[i], v[middle] = v[middle], v[i]
                middle += 1
        if total + above - (count + middle - start) * pivot < 1:  # τ lies below the pivot
            total, count, start = total + above, count + middle - start, middle
        else:  # τ is the pivot or lies above it: the pivots themselves add nothing
            kept = start
            for i in range(start, middle):
                if v[i] > pivot:
                    v[i], v[kept] = v[kept], v[i]
                    kept += 1
            stop = kept
    return (total - 1) / count
