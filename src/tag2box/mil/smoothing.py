"""Nesterov's smoothing of the maximum (Section 5.2 of the paper).

    f_μ(s) = max over u in the simplex of <s, u> - μ/2 ω(u)

with ω(u) = ‖u‖² (`"l2"`: u* is the projection of s/μ on the simplex, sparse) or ω(u) = Σ u log u
(`"entropy"`: u* is the softmax of 2s/μ, dense). u* is the gradient of f_μ. For `"l2"` and n scores,
max - μ/2 <= f_μ <= max - μ/(2n).

Top-N: the projection keeps the order of the scores, so it can be computed from the N best alone. If it leaves
one of them at zero it is the exact answer (the certificate), else N grows.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])

OMEGAS = ("l2", "entropy")
ALL = np.iinfo(np.int64).max  # the value of `top` that stands for None


def kernel(function: F) -> F:
    """numba's `njit`, compiled at the first call and cached on disk, without the GIL, and with its types."""
    return cast("F", njit(cache=True, nogil=True, error_model="numpy")(function))


def simplex_projection(v: ArrayLike) -> Floats:
    """Project a vector onto the probability simplex.

    Parameters
    ----------
    v : array-like of shape (n,)
        The vector.

    Returns
    -------
    ndarray of shape (n,)
        The nearest point with nonnegative entries that sum to 1.

    Examples
    --------
    >>> from tag2box.mil import simplex_projection
    >>> simplex_projection([0.5, 2.0, 1.5]).tolist()
    [0.0, 0.75, 0.25]
    """
    v = _finite_vector(v)
    return _segments(v, np.array([0, len(v)]), 1.0, False, ALL)[1]


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
    >>> from tag2box.mil import smoothed_max
    >>> value, weights = smoothed_max([1.0, 3.0, 2.5], mu=1.0)
    >>> value
    2.5625
    >>> weights.tolist()
    [0.0, 0.75, 0.25]
    """
    s = _finite_vector(scores)
    value, weights = segment_smoothed_max(s, np.array([0, len(s)]), mu, omega)
    return float(value[0]), weights


def segment_smoothed_max(
    scores: ArrayLike, offsets: ArrayLike, mu: float, omega: str = "l2", top: int | None = None
) -> tuple[Floats, Floats]:
    """f_μ of every segment `scores[offsets[i]:offsets[i + 1]]`, and u* of all of them in one array.

    `top` is the N of top-N, for `"l2"` only: the result does not depend on it.
    """
    s = _finite_vector(scores)
    o = np.ascontiguousarray(offsets, dtype=np.int64)
    if not (np.isfinite(mu) and mu >= 0):
        raise InputError(f"mu must be 0 or more, but it is {mu}")
    if mu == 0:
        value, best = segment_max(s, o)
        weights = np.zeros_like(s)
        weights[best] = 1
        return value, weights
    if omega not in OMEGAS:
        raise InputError(f"omega must be one of {', '.join(OMEGAS)}, but it is {omega!r}")
    if top is not None and top < 1:
        raise InputError(f"top must be at least 1, but it is {top}")
    return _segments(s, o, mu, omega == "entropy", ALL if top is None else top)


def segment_max(scores: Floats, offsets: NDArray[Any]) -> tuple[Floats, NDArray[np.intp]]:
    """The largest score of every segment and its index in `scores`; the first among equals."""
    return _segment_max(np.ascontiguousarray(scores, dtype=np.float64), np.asarray(offsets, dtype=np.int64))


def _finite_vector(v: ArrayLike) -> Floats:
    out = np.ascontiguousarray(v, dtype=np.float64)
    if out.ndim != 1 or len(out) == 0:
        raise InputError(f"expected a vector of at least one number, but the shape is {out.shape}")
    if not np.isfinite(out).all():
        raise InputError("expected finite numbers, but there is a NaN or an infinity: scale the features")
    return out


@kernel
def _segments(s: Floats, offsets: Ints, mu: float, entropy: bool, top: int) -> tuple[Floats, Floats]:
    value, weights = np.empty(len(offsets) - 1), np.zeros_like(s)
    for i in range(len(value)):
        a, b = offsets[i], offsets[i + 1]
        highest = s[a:b].max()
        v = (s[a:b] - highest) / mu  # at most 0
        if entropy:
            u = np.exp(2 * v)
            total = u.sum()
            value[i], weights[a:b] = highest + mu / 2 * np.log(total), u / total
        else:
            tau = _threshold(v[v > -1], top)  # the highest alone has τ = -1, and others raise it
            inner, square = 0.0, 0.0
            for j in range(b - a):
                u_j = max(v[j] - tau, 0.0)
                inner += u_j * v[j]
                square += u_j * u_j
                weights[a + j] = u_j
            value[i] = highest + mu * (inner - square / 2)
    return value, weights


@kernel
def _threshold(v: Floats, top: int) -> float:
    """τ with Σ max(v - τ, 0) = 1, from the `top` best where they suffice; v is overwritten."""
    n = top
    while n < len(v):
        best = np.partition(v, len(v) - n)[len(v) - n :]
        least = best.min()
        tau = _michelot(best)
        if least <= tau:  # the certificate
            return tau
        n *= 2
    return _michelot(v)


@kernel
def _michelot(v: Floats) -> float:
    """The same τ: what is below a lower bound of τ is left out until nothing is (Michelot 1986)."""
    n, total = len(v), v.sum() - 1
    while True:
        bound, kept, total = total / n, 0, -1.0
        for i in range(n):
            if v[i] > bound:
                v[kept] = v[i]
                kept += 1
                total += v[kept - 1]
        if kept == n:
            return float(bound)
        n = kept


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
