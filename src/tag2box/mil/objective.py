"""The objective over bags, its minimization by L-BFGS, and the start of Andrews et al. (2003).

    ½‖θ - θ₀‖² + Σ_i c_i ℓ(y_i f(A_i θ))

f is a maximum, or a smoothed one, over the instances of bag i. `Affine` is A: the scores Xw + βv with
θ = (w, v). The bias is a constant feature β, as in scikit-learn's `LinearSVC` (`intercept_scaling`): it is
regularized like every weight, and the intercept is βv. β = 0 means that there is none, and θ = w.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from tag2box.mil.bags import is_sparse
from tag2box.mil.losses import Loss, squared_hinge

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# (scores, offsets) -> its value per bag, and its derivative by each score
Maximum = Callable[[Floats, Ints], tuple[Floats, Floats]]

# Products with fewer numbers (256 MB of float32) gain little by threads, and lose much where cores are busy.
SMALL = 1 << 26
FEW = 0.25  # the share of rows below which taking them out is cheaper than a product with all


@dataclass(frozen=True)
class Affine:
    """The map θ -> Xw + βv. X: (n, d), dense or CSR; θ: (d,) or, with a bias, (d + 1,)."""

    X: Any
    bias: float

    @property
    def n_weights(self) -> int:
        """The length of θ."""
        return int(self.X.shape[1]) + (self.bias > 0)

    def scores(self, theta: Floats) -> Floats:
        """(n,) scores, in float64 whatever the type of X."""
        d = self.X.shape[1]
        scores = np.asarray(self.X @ theta[:d].astype(self.X.dtype, copy=False), dtype=np.float64)
        return scores + self.bias * theta[d] if self.bias > 0 else scores

    def adjoint(self, r: Floats) -> Floats:
        """Σ_j r_j (x_j, β), the gradient of <r, scores> by θ; few r_j that are not 0 make it cheap."""
        rows = np.flatnonzero(r)
        X, few = (self.X[rows], r[rows]) if len(rows) < FEW * len(r) else (self.X, r)
        w = np.asarray(X.T @ few.astype(X.dtype, copy=False), dtype=np.float64)
        return np.append(w, self.bias * r.sum()) if self.bias > 0 else w

    def units(self, cost: float) -> Floats:
        """The unit of each of θ, for a loss of this weight: less than 1 for a bias of much curvature."""
        units = np.ones(self.n_weights)
        if self.bias > 0:
            rows = self.X[:: max(self.X.shape[0] // 256, 1)]
            square = float(((rows.data if is_sparse(rows) else rows).astype(np.float64) ** 2).sum())
            square /= rows.shape[0] * rows.shape[1]
            units[-1] = ((1 + 2 * cost * square) / (1 + 2 * cost * self.bias**2)) ** 0.25
        return units

    def few_threads(self) -> AbstractContextManager[Any]:
        """A context in which BLAS keeps to one thread if the products here are small."""
        return _blas().limit(limits=1, user_api="blas") if self.X.size < SMALL else nullcontext()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@dataclass(frozen=True)
class BagProblem:
    """A: the n instances; offsets: (n_bags + 1,); y: (n_bags,) of +1 and -1; cost: (n_bags,) C c_i > 0."""

    A: Affine
    offsets: Ints
    y: Floats
    cost: Floats

    def loss(self, theta: Floats, loss: Loss, maximum: Maximum) -> tuple[float, Floats]:
        """Σ_i c_i ℓ(y_i f(A_i θ)) and its gradient."""
        f, u = maximum(self.A.scores(theta), self.offsets)
        value, slope = loss(self.y * f)
        r = np.repeat(self.cost * slope * self.y, np.diff(self.offsets)) * u
        return float(self.cost @ value), self.A.adjoint(r)


class Minimum(NamedTuple):
    """θ, the objective at the start and after every iteration, and whether it ended before `max_iter`."""

    theta: Floats
    trace: list[float]
    converged: bool


def minimize(
    problem: BagProblem,
    loss: Loss,
    maximum: Maximum,
    theta: Floats,
    *,
    max_iter: int,
    tol: float,
    center: Floats | None = None,
) -> Minimum:
    """Minimize from `theta` until the gradient is `tol` of that at zero, or the objective falls no more."""
    zero = np.zeros_like(theta)
    center = zero if center is None else center
    units = problem.A.units(problem.cost.sum())
    values: list[float] = []

    def objective(x: Floats) -> tuple[float, Floats]:
        offset = units * x - center
        value, gradient = problem.loss(units * x, loss, maximum)
        values.append(float(offset @ offset / 2 + value))
        return values[-1], units * (offset + gradient)

    gtol = tol * np.abs(objective(zero)[1]).max()
    values.clear()
    trace: list[float] = []
    options: Any = {"maxiter": max_iter, "maxfun": 50 * max_iter, "gtol": gtol, "ftol": 1e-4 * tol}
    result = scipy_minimize(
        objective,
        theta / units,
        jac=True,
        method="L-BFGS-B",
        callback=lambda _: trace.append(values[-1]),
        options=options,
    )
    return Minimum(units * result.x, [values[0], *trace], result.status != 1)


def andrews_start(problem: BagProblem) -> Floats:
    """The SVM of all negative instances against the mean of each positive bag (Andrews et al. 2003)."""
    sizes = np.diff(problem.offsets)
    begins = np.repeat(problem.y < 0, sizes)  # every negative instance is a bag of its own
    begins[problem.offsets[:-1]] = True
    bag = np.repeat(np.arange(len(sizes)), sizes)[begins]
    offsets = np.append(np.flatnonzero(begins), len(begins))
    means = BagProblem(problem.A, offsets, problem.y[bag], problem.cost[bag])
    # A start need not be exact: a hundredth of the first gradient is enough.
    return minimize(means, squared_hinge, _mean, np.zeros(problem.A.n_weights), max_iter=200, tol=1e-2).theta


def _mean(scores: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    sizes = np.diff(offsets)
    return np.add.reduceat(scores, offsets[:-1]) / sizes, np.repeat(1 / sizes, sizes)


def warn_not_converged(what: str, limit: int) -> None:
    """Warn the caller of `fit`."""
    warnings.warn(
        f"not converged after {limit} {what}: raise max_iter or tol, or scale the features",
        ConvergenceWarning,
        stacklevel=6,
    )
