"""Nesterov's smoothing of the maximum (Section 5.2 of the paper).

    f_μ(s) = max over u in the simplex of <s, u> - μ/2 ω(u)

with ω(u) = ‖u‖² (`"l2"`: u* is the projection of s/μ on the simplex, sparse) or ω(u) = Σ u log u
(`"entropy"`: u* is the softmax of 2s/μ, dense). u* is the gradient of f_μ. For `"l2"` and n scores,
max - μ/2 <= f_μ <= max - μ/(2n).

Top-N: the projection keeps the order of the scores, so it can be made from the N best alone; if it leaves
one of them at zero it is the exact answer (the certificate), else N grows.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.runtime.checks import check_at_least, check_choice
from tag2box.runtime.compiled import kernel

__all__ = ["OMEGAS", "segment_max", "segment_smoothed_max", "simplex_projection", "smoothed_max"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OMEGAS = ("l2", "entropy")


def simplex_projection(v: ArrayLike) -> Floats:
    """Project a vector onto the probability simplex.

    Parameters
    ----------
    v : array-like of shape (n,)
        The vector.

    Returns
    -------
    ndarray of shape (n,)
        The nearest point with nonnegative entries that sum to 1. Exact, in O(n) expected time.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.simplex_projection([0.5, 2.0, 1.5]).tolist()
    [0.0, 0.75, 0.25]
    """
    return _project(_scores(v))


def smoothed_max(scores: ArrayLike, mu: float, omega: str = "l2") -> tuple[float, Floats]:
    """Compute Nesterov's smoothed maximum and its gradient.

    The maximum of <scores, u> - mu / 2 · omega(u) over the probability simplex.

    Parameters
    ----------
    scores : array-like of shape (n,)
        The scores.
    mu : float
        The amount of smoothing, in units of the scores. With 0 it is the maximum itself.
    omega : {"l2", "entropy"}, default="l2"
        The function that smooths: ‖u‖² or Σ u log u.

    Returns
    -------
    value : float
        The smoothed maximum. With "l2" it lies between max - mu / 2 and max - mu / (2 n).
    weights : ndarray of shape (n,)
        The maximizer u, which is also the gradient. With "l2" most of its entries are 0.

    Examples
    --------
    >>> import tag2box as t2b
    >>> value, weights = t2b.smoothed_max([1.0, 3.0, 2.5], mu=1.0)
    >>> value
    2.5625
    >>> weights.tolist()
    [0.0, 0.75, 0.25]
    """
    s = _scores(scores)
    value, weights = segment_smoothed_max(s, np.array([0, len(s)]), mu, omega)
    return float(value[0]), weights


def segment_smoothed_max(
    scores: ArrayLike, offsets: ArrayLike, mu: float, omega: str = "l2", top: int | None = None
) -> tuple[Floats, Floats]:
    """f_μ of every segment `scores[offsets[i]:offsets[i + 1]]`, and u* of all of them in one array.

    `top` is the N of top-N, for `"l2"` only, and grows in a segment until its certificate holds: the answer
    is the same with and without it.
    """
    s = _scores(scores)
    o = np.ascontiguousarray(offsets, dtype=np.int64)
    if not (np.isfinite(mu) and mu >= 0):
        raise InputError(f"mu must be 0 or more, but it is {mu}")
    if mu == 0:
        value, where = segment_max(s, o)
        weights = np.zeros_like(s)
        weights[where] = 1
        return value, weights
    check_choice("omega", omega, OMEGAS)
    if omega == "entropy":
        return _segment_entropy(s, o, mu)
    if top is not None:
        check_at_least(1, top=top)
    return _segment_l2(s, o, mu, np.iinfo(np.int64).max if top is None else top)


def segment_max(scores: Floats, offsets: NDArray[Any]) -> tuple[Floats, NDArray[np.intp]]:
    """Largest score of every segment and its place in `scores`; the first among equals."""
    return _segment_max(np.ascontiguousarray(scores, dtype=np.float64), np.asarray(offsets, dtype=np.int64))


def _scores(v: ArrayLike) -> Floats:
    out = np.ascontiguousarray(v, dtype=np.float64)
    if out.ndim != 1 or len(out) == 0:
        raise InputError(f"expected a vector of at least one number, but the shape is {out.shape}")
    if not np.isfinite(out).all():
        raise InputError("expected finite numbers, but there is a NaN or an infinity among them")
    return out


@kernel
def _threshold(v: Floats, n: int) -> float:
    """τ with Σ max(v - τ, 0) = 1 over the first n of `v`, which is a scratch copy.

    Some passes of Michelot (1986) leave out what lies below a lower bound of τ: often that is all, and random
    pivots (Duchi et al. 2008) find τ among the rest in linear time.
    """
    start, stop = 0, n
    for _ in range(8):
        total, kept = -1.0, 0
        for i in range(stop):
            total += v[i]
        bound = total / stop
        for i in range(stop):
            if v[i] > bound:
                v[kept] = v[i]
                kept += 1
        if kept == stop:
            return bound
        stop = kept
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


@kernel
def _project(v: Floats) -> Floats:
    highest = v.max()  # taken off first: v may be s/μ with a tiny μ
    tau = _threshold(v - highest, len(v))
    out: Floats = np.maximum(v - highest - tau, 0.0)
    return out


@kernel
def _segment_l2(s: Floats, offsets: Ints, mu: float, top: int) -> tuple[Floats, Floats]:
    value = np.empty(len(offsets) - 1)
    weights = np.zeros_like(s)
    near, scratch = np.empty_like(s), np.empty_like(s)
    where = np.empty(len(s), np.intp)
    for i in range(len(offsets) - 1):
        first = offsets[i]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if s[j] > s[first]:
                first = j
        highest = s[first]
        where[0], near[0], scratch[0] = first, 0.0, 0.0
        count, bound = 1, -1.0  # (Σ v - 1) / n of those taken is never above τ: what lies below it has u = 0
        for j in range(offsets[i], offsets[i + 1]):
            if s[j] > highest + mu * bound and j != first:
                v = (s[j] - highest) / mu
                where[count], near[count], scratch[count] = j, v, v
                count += 1
                bound += (v - bound) / count
        tau = _threshold(scratch, count) if count <= top else _threshold_of_best(near[:count], top)
        inner, square = 0.0, 0.0
        for k in range(count):
            u = max(near[k] - tau, 0.0)
            weights[where[k]] = u
            inner += u * near[k]
            square += u * u
        value[i] = highest + mu * (inner - square / 2)
    return value, weights


@kernel
def _threshold_of_best(v: Floats, n: int) -> float:
    """The same τ from the n best alone; n grows until one of them lies below τ: the certificate ‖u'‖₀ < N."""
    while n < len(v):
        best = np.partition(v, len(v) - n)[len(v) - n :]
        least = best[0]
        tau = _threshold(best, n)
        if least <= tau:
            return tau
        n *= 2
    return _threshold(v.copy(), len(v))


@kernel
def _segment_entropy(s: Floats, offsets: Ints, mu: float) -> tuple[Floats, Floats]:
    value = np.empty(len(offsets) - 1)
    weights = np.empty_like(s)
    for i in range(len(offsets) - 1):
        a, b = offsets[i], offsets[i + 1]
        highest = s[a:b].max()
        total = 0.0
        for j in range(a, b):
            weights[j] = np.exp(2 * (s[j] - highest) / mu)
            total += weights[j]
        for j in range(a, b):
            weights[j] /= total
        value[i] = highest + mu / 2 * np.log(total)
    return value, weights


@kernel
def _segment_max(s: Floats, offsets: Ints) -> tuple[Floats, NDArray[np.intp]]:
    value = np.empty(len(offsets) - 1)
    where = np.empty(len(offsets) - 1, np.intp)
    for i in range(len(offsets) - 1):
        best = offsets[i]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if s[j] > s[best]:
                best = j
        value[i], where[i] = s[best], best
    return value, where
