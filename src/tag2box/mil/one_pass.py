"""`SmoothedObjective`: the smoothed latent SVM's objective, whose product and adjoint read X once.

The rows of some bags are scored, their smoothed maxima and losses taken, and their share of the gradient
added while they are in the processor's cache: a block of bags at a time.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.mil.affine import BLOCK, add_rows
from tag2box.mil.lbfgs import Ahead
from tag2box.mil.losses import CODES, LOSSES, loss_at
from tag2box.mil.objective import BagObjective, BagProblem
from tag2box.mil.smooth_bag import smooth_bag
from tag2box.mil.smoothing import ALL, segment_smoothed_max
from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Bags(NamedTuple):
    """What the kernels know of a problem: `BagProblem` without instances, the loss and the smoothing."""

    offsets: Ints
    y: Floats
    cost: Floats
    loss: int  # one of CODES
    entropy: bool
    mu: float
    top: int


class _Room(NamedTuple):
    """Scratch as long as the scores: of the system, memory costs more than what is done with it here."""

    r: Floats
    rows: NDArray[np.intp]
    u: Floats
    where: NDArray[np.intp]
    product: Any  # of the type of X

    @classmethod
    def of(cls, n: int, dtype: Any) -> "_Room":
        floats, places = np.empty((2, n)), np.empty((2, n), np.intp)
        return cls(floats[0], places[0], floats[1], places[1], np.empty(n, dtype))


class SmoothedObjective(BagObjective):
    """Σ_i c_i ℓ(y_i f_μ(A_i θ)) as `lbfgs` wants it, compiled; one pass over a dense X for a step ahead."""

    def __init__(
        self, problem: BagProblem, loss: str, mu: float, omega: str = "l2", top: int | None = None
    ) -> None:
        maximum = partial(segment_smoothed_max, mu=mu, omega=omega, top=top)
        super().__init__(problem, LOSSES[loss], maximum, by_rows=True)
        offsets = np.ascontiguousarray(problem.offsets, dtype=np.int64)
        smoothing = omega == "entropy", float(mu), ALL if top is None else top
        self._bags = _Bags(offsets, problem.y, problem.cost, CODES[loss], *smoothing)
        self._room = _Room.of(problem.A.X.shape[0], problem.A.X.dtype)

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """The sum, and its derivative by each score."""
        value, r = _loss(scores, self._bags, self._room)
        _refuse_infinite(value + scores.sum())
        return value, r

    def ahead(self, scores: Floats, d: Floats, t: float) -> Ahead:
        """The line from `scores` along d, and its step t with the adjoint."""
        A = self.problem.A
        if not A.in_one_pass:
            return super().ahead(scores, d, t)
        n = A.X.shape[1]
        constant = A.bias * d[n] if A.bias > 0 else 0.0
        z, there, loss, slope, adjoint = _one_pass(
            A.X,
            d[:n].astype(A.X.dtype, copy=False),
            float(constant),
            A.bias,
            scores,
            t,
            self._bags,
            self._room,
        )
        _refuse_infinite(loss + slope)
        return Ahead(z, there, loss, slope, lambda: adjoint)


def _refuse_infinite(sums: float) -> None:
    if not np.isfinite(sums):
        raise InputError("the scores of instances are too large for floating point: scale the features")


@kernel
def _losses_of(s: Floats, first: int, last: int, p: Any, room: Any) -> tuple[float, int]:
    """Σ of bags first to last, and n: its derivatives by their scores are r[:n] at rows[:n], 0 elsewhere."""
    r, rows, u, where, _ = room
    total, n = 0.0, 0
    for i in range(first, last):
        f, count = smooth_bag(s, p.offsets[i], p.offsets[i + 1], p.mu, p.entropy, p.top, u, where)
        value, slope = loss_at(p.y[i] * f, p.loss)
        total += p.cost[i] * value
        factor = p.cost[i] * slope * p.y[i]
        if factor == 0:
            continue
        for k in range(count):
            r[n], rows[n] = factor * u[k], where[k]
            n += 1 if u[k] > 0 else 0
    return total, n


@kernel
def _loss(s: Floats, p: Any, room: Any) -> tuple[float, Floats]:
    """g, and r of every score."""
    r = np.zeros(len(s))
    total, n = _losses_of(s, 0, len(p.y), p, room)
    for k in range(n):
        r[room.rows[k]] = room.r[k]
    return total, r


@kernel
def _one_pass(
    X: Any, d: Any, constant: float, bias: float, s: Floats, t: float, p: Any, room: Any
) -> tuple[Floats, Floats, float, float, Floats]:
    """z = Xd + constant; s + tz; and there g, <r, z> and Aᵀr."""
    r, rows, _, _, product = room
    z, there = np.empty_like(s), np.empty_like(s)
    w = np.zeros(X.shape[1] + (1 if bias > 0 else 0))
    loss, slope, total, first = 0.0, 0.0, 0.0, 0
    most = BLOCK // (X.itemsize * X.shape[1])
    while first < len(p.y):
        last, a = first + 1, p.offsets[first]
        while last < len(p.y) and p.offsets[last + 1] - a <= most:
            last += 1
        b = p.offsets[last]
        np.dot(X[a:b], d, product[a:b])
        for j in range(a, b):
            z[j] = product[j] + constant
            there[j] = s[j] + t * z[j]
        value, count = _losses_of(there, first, last, p, room)
        add_rows(X, a, b, rows[:count], r[:count], product, w[: X.shape[1]])
        for k in range(count):
            slope += r[k] * z[rows[k]]
            total += r[k]
        loss += value
        first = last
    if bias > 0:
        w[-1] = bias * total
    return z, there, loss, slope, w
