"""The convex half of the latent SVM: positive bags reduced to one instance, negative bags keep their max.

    min ½‖w‖² + Σ_i c_i ℓ(min_j m_ij),  m_ij = y_i wᵀx_ij    (a negative bag's max: its least margin)

is solved in its dual, with α_ij >= 0, a_i = Σ_j α_ij and w = Σ α_ij y_i x_ij:

    max -½‖w‖² - Σ_i c_i ℓ*(-a_i / c_i)

by greedy coordinate ascent over the few instances that matter: those that were the least margin of their
bag once (cutting planes). The duality gap over *all* instances says when it is solved.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.mil.bags import is_sparse
from tag2box.mil.losses import LOSSES, SHARPNESS
from tag2box.mil.objective import Affine, BagProblem
from tag2box.mil.smoothing import kernel, segment_max

Floats = NDArray[np.float64]

# For compiled code.
HINGE, SQUARED_HINGE, LOGISTIC, SMOOTH_HINGE = range(4)
CODES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC, "smooth_hinge": SMOOTH_HINGE}

MAX_CUTS = 200
MAX_SWEEPS = 1000  # of as many steps as there are rows
ULP = 2.0**-53  # of 1: margins of the smooth hinge below ULP^(1/100) have the same a, the greatest
FAR = 1e3  # stands for the infinite margin at which the logistic loss has its least slope


class Dual(NamedTuple):
    """The dual problem over the rows held, n of n_bags bags; alpha, a and margin change as it is solved."""

    K: Floats  # (n, n), products of the rows, each times its sign
    offsets: NDArray[np.int64]  # (n_bags + 1,), where the rows of each bag start
    cost: Floats  # (n_bags,)
    loss: int  # one of CODES
    alpha: Floats  # (n,)
    a: Floats  # (n_bags,), sums of alpha
    margin: Floats  # (n,)


class ConvexHalf:
    """The problem above for one class; keeps its cutting planes and α from one call to the next.

    Memory: the products of the rows held with each other, and a row is held while its α is positive.
    """

    def __init__(self, problem: BagProblem, loss: str) -> None:
        self.A, self.offsets, self.loss = problem.A, problem.offsets, loss
        self.y, self.cost = problem.y, problem.cost
        self.rows = np.empty(0, dtype=np.intp)  # instances held, by bag
        self.alpha = np.empty(0)

    def solve(self, w: Floats, witness: NDArray[np.intp], tol: float) -> Floats:
        """The minimizer w, with the positive bags' instances fixed to `witness`, to a relative gap `tol`."""
        margin, worst = self._least_margin(w, witness)
        stale = (self.y[self._bag()] > 0) & ~np.isin(self.rows, witness)
        self._hold(worst[self._has_loss(margin)], keep=~stale)
        for _ in range(MAX_CUTS):
            w, dual = self._ascend(tol)
            margin, worst = self._least_margin(w, witness)
            primal = w @ w / 2 + self.cost @ LOSSES[self.loss](margin)[0]
            new = np.setdiff1d(worst[self._has_loss(margin)], self.rows)
            if primal - dual <= tol * primal or len(new) == 0:
                break
            self._hold(new, keep=self.alpha > 0)
        return w

    def _least_margin(self, w: Floats, witness: NDArray[np.intp]) -> tuple[Floats, NDArray[np.intp]]:
        """Each bag's least margin and the row that has it; a positive bag's row is its witness."""
        scores = self.A.scores(w)
        best, where = segment_max(scores, self.offsets)
        where[self.y > 0] = witness
        best[self.y > 0] = scores[witness]
        return self.y * best, where

    def _has_loss(self, margin: Floats) -> NDArray[np.bool_]:
        """Bags that have a loss: the others need no row."""
        return np.asarray(LOSSES[self.loss](margin)[1] != 0)

    def _bag(self) -> NDArray[np.intp]:
        return np.searchsorted(self.offsets, self.rows, side="right") - 1

    def _hold(self, new: NDArray[np.intp], keep: NDArray[np.bool_]) -> None:
        """Hold those rows that `keep` says, and `new` ones: with α = 0 unless they were held."""
        old, alpha = self.rows[keep], self.alpha[keep]
        self.rows = np.union1d(old, new)
        self.alpha = np.zeros(len(self.rows))
        self.alpha[np.searchsorted(self.rows, old)] = alpha

    def _ascend(self, tol: float) -> tuple[Floats, float]:
        """Solve the dual over the rows held; returns w and the dual's value."""
        held = Affine(self.A.X[self.rows], self.A.bias)
        sign = self.y[self._bag()]
        products = held.X @ held.X.T
        products = np.asarray(products.toarray() if is_sparse(products) else products, dtype=np.float64)
        K = (products + self.A.bias**2) * sign[:, None] * sign
        group, first = np.unique(self._bag(), return_index=True)
        p = Dual(
            K=K,
            offsets=np.append(first, len(self.rows)),
            cost=self.cost[group],
            loss=CODES[self.loss],
            alpha=self.alpha,
            a=np.add.reduceat(self.alpha, first),
            margin=K @ self.alpha,
        )
        value, steps = -np.inf, max(len(self.rows), 100)
        for _ in range(MAX_SWEEPS):
            done = _greedy_ascent(p, steps)
            square = float(p.alpha @ p.margin)
            m = _targets(p)  # -ℓ*(-a / c) = ℓ(m) + m a / c, with ℓ'(m) = -a / c
            value = float(-square / 2 + p.cost @ LOSSES[self.loss](m)[0] + p.a @ m)
            least = np.minimum.reduceat(p.margin, first)
            primal = square / 2 + p.cost @ LOSSES[self.loss](least)[0]
            if done or primal - value <= tol / 4 * primal:
                break
        return held.adjoint(p.alpha * sign), value


@kernel
def _target(a: float, cost: float, loss: int) -> float:
    """ℓ'⁻¹(-a/c): the margin at which the dual's derivative by this a is 0."""
    b = min(a / cost, 1.0)
    if loss == HINGE:
        return 1.0
    if loss == SQUARED_HINGE:
        return 1 - a / (2 * cost)
    if loss == SMOOTH_HINGE:
        return float(max(1 - b, ULP) ** (1 / SHARPNESS))
    if 0 < b < 1:
        return float(np.log((1 - b) / b))
    return FAR if b == 0 else -FAR


@kernel
def _targets(p: Dual) -> Floats:
    return np.array([_target(p.a[g], p.cost[g], p.loss) for g in range(len(p.cost))])


@kernel
def _bend(a: float, cost: float, margin: float, loss: int) -> float:
    """How fast that margin falls as a grows; at the ends of a's range 0, so that nothing keeps it there."""
    b = a / cost
    if loss == SMOOTH_HINGE:  # where a is nearly c it falls steeply at a, and where it meets the margin not
        rest = max(1 - b, min(max(margin, ULP), 1.0) ** SHARPNESS, ULP)
        return float(rest ** (1 / SHARPNESS - 1) / (SHARPNESS * cost))
    if loss == SQUARED_HINGE:
        return 1 / (2 * cost)
    if loss == HINGE or not 0 < b < 1:
        return 0.0
    return 1 / a + 1 / (cost - a)


@kernel
def _step(m: float, square: float, alpha: float, a: float, cost: float, loss: int) -> float:
    """The best change δ of one α: where the dual's derivative, target(a + δ) - m - δ‖x‖², is 0."""
    if loss == SQUARED_HINGE:
        return max((1 - m - a / (2 * cost)) / (square + 1 / (2 * cost)), -alpha)
    if loss == HINGE:
        return min(max((1 - m) / square, -alpha), cost - a)
    low, high = -alpha, cost - a
    if loss == SMOOTH_HINGE and _target(a + low, cost, loss) - m - low * square <= 0:
        return low  # to the very end, which bisection never reaches
    for _ in range(60):  # bisection: the derivative falls with δ
        middle = (low + high) / 2
        if _target(a + middle, cost, loss) - m - middle * square > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@kernel
def _pick(p: Dual) -> tuple[int, int, int]:
    """The move that gains most to second order: (bag, row, -1) for one α, (bag, to, from) for an exchange."""
    K, offsets, alpha, margin = p.K, p.offsets, p.alpha, p.margin
    most, bag, to, give = 0.0, -1, -1, -1
    for g in range(len(p.cost)):
        worst, easiest = offsets[g], -1  # least margin; greatest margin among those with α > 0
        for j in range(offsets[g], offsets[g + 1]):
            if margin[j] < margin[worst]:
                worst = j
            if alpha[j] > 0 and (easiest < 0 or margin[j] > margin[easiest]):
                easiest = j
        target = _target(p.a[g], p.cost[g], p.loss)
        grows = p.a[g] < p.cost[g] or p.loss == SQUARED_HINGE
        for j in (worst, easiest):
            lack = target - margin[j] if j >= 0 else 0.0
            if (lack > 0 and j == worst and grows) or (lack < 0 and j == easiest):
                gain = lack * lack / (K[j, j] + _bend(p.a[g], p.cost[g], margin[j], p.loss))
                if gain > most:
                    most, bag, to, give = gain, g, j, -1
        if easiest < 0:
            continue
        lead = margin[easiest] - margin[worst]
        apart = K[worst, worst] + K[easiest, easiest] - 2 * K[worst, easiest]
        if lead > 0 and apart > 0 and lead * lead / apart > most:
            most, bag, to, give = lead * lead / apart, g, worst, easiest
    return bag, to, give


@kernel
def _greedy_ascent(p: Dual, steps: int) -> bool:
    """Up to `steps` moves, each the best; α, a and the margins change in place. True: none is left."""
    K, alpha, a, margin = p.K, p.alpha, p.a, p.margin
    for _ in range(steps):
        g, to, give = _pick(p)
        if g < 0:
            return True
        if give < 0:
            step = _step(margin[to], K[to, to], alpha[to], a[g], p.cost[g], p.loss)
            a[g] = min(max(a[g] + step, 0.0), np.inf if p.loss == SQUARED_HINGE else p.cost[g])
        else:
            apart = K[to, to] + K[give, give] - 2 * K[to, give]
            step = min((margin[give] - margin[to]) / apart, alpha[give])
            alpha[give] -= step
        alpha[to] = max(alpha[to] + step, 0.0)
        for j in range(len(margin)):
            margin[j] += step * (K[to, j] - (K[give, j] if give >= 0 else 0.0))
    return False
