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
from tag2box.mil.smooth_bag import smooth_bag, threshold
from tag2box.runtime.checks import check_at_least, check_choice
from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OMEGAS = ("l2", "entropy")
ALL = np.iinfo(np.int64).max  # as `top`


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
    if top is not None:
        check_at_least(1, top=top)
    return _segments(s, o, mu, omega == "entropy", ALL if top is None else top)


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
def _project(v: Floats) -> Floats:
    highest = v.max()  # taken off first: v may be s/μ with a tiny μ
    tau, _ = threshold(v - highest, np.empty(len(v), np.intp), len(v))
    out: Floats = np.maximum(v - highest - tau, 0.0)
    return out


@kernel
def _segments(s: Floats, offsets: Ints, mu: float, entropy: bool, top: int) -> tuple[Floats, Floats]:
    value = np.empty(len(offsets) - 1)
    weights = np.zeros_like(s)
    u, where = np.empty_like(s), np.empty(len(s), np.intp)
    for i in range(len(value)):
        value[i], count = smooth_bag(s, offsets[i], offsets[i + 1], mu, entropy, top, u, where)
        for k in range(count):
            weights[where[k]] = u[k]
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
