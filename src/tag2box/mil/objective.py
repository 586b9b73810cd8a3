"""The objective over bags and what goes with it: `BagProblem`, `BagObjective`, L-BFGS, Andrews' start.

    ½‖θ‖² + Σ_i c_i ℓ(y_i f(A_i θ))

with f a maximum, or a smoothed one, over the instances of bag i. Where there is a center θ₀, ½‖θ - θ₀‖².
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from tag2box.mil.affine import Affine
from tag2box.mil.losses import Loss, squared_hinge

__all__ = ["BagObjective", "BagProblem", "andrews_start", "lbfgs", "warn_not_converged"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# (scores, offsets) -> its value per bag, and its derivative by each score
Maximum = Callable[[Floats, Ints], tuple[Floats, Floats]]


@dataclass(frozen=True)
class BagProblem:
    """A: the n instances; offsets: (n_bags + 1,); y: (n_bags,) of +1 and -1; cost: (n_bags,) C c_i > 0."""

    A: Affine
    offsets: Ints
    y: Floats
    cost: Floats

    @property
    def sizes(self) -> Ints:
        """Instances in each bag, (n_bags,)."""
        return np.diff(self.offsets)


class BagObjective:
    """θ -> the objective and its gradient, the function that goes to L-BFGS; `by_rows`: see `Affine`."""

    def __init__(
        self,
        problem: BagProblem,
        loss: Loss,
        maximum: Maximum,
        center: Floats | None = None,
        *,
        by_rows: bool = False,
    ) -> None:
        self.problem, self.loss, self.maximum = problem, loss, maximum
        self.center, self.by_rows = center, by_rows

    def __call__(self, theta: NDArray[Any]) -> tuple[float, Floats]:
        """The value at `theta` and its gradient."""
        p = self.problem
        f, u = self.maximum(p.A.scores(theta), p.offsets)
        value, slope = self.loss(p.y * f)
        r = np.repeat(p.cost * slope * p.y, p.sizes) * u  # (n,) derivative by each score
        delta = theta if self.center is None else theta - self.center
        return float(delta @ delta / 2 + p.cost @ value), delta + p.A.adjoint(r, by_rows=self.by_rows)


def lbfgs(objective: BagObjective, theta: Floats, max_iter: int, tol: float) -> tuple[Floats, float, int]:
    """Minimize from `theta` until the gradient is `tol` of that at zero: θ, its value, the iterations."""
    scale = np.abs(objective(np.zeros_like(theta))[1]).max()
    options: Any = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol * scale, "ftol": tol * 1e-4}
    result = minimize(objective, theta, jac=True, method="L-BFGS-B", options=options | {"maxcor": 20})
    return result.x, float(result.fun), int(result.nit)


def andrews_start(problem: BagProblem) -> Floats:
    """The SVM of all negative instances against the mean of each positive bag (Andrews et al. 2003)."""
    positive = np.repeat(problem.y > 0, problem.sizes)
    begins = ~positive  # every negative instance is a bag of its own
    begins[problem.offsets[:-1]] = True
    bag = np.repeat(np.arange(len(problem.y)), problem.sizes)[begins]
    offsets = np.append(np.flatnonzero(begins), len(positive))
    means = BagProblem(problem.A, offsets, problem.y[bag], problem.cost[bag])
    # It is only a start: a hundredth of the first gradient is near enough.
    objective = BagObjective(means, squared_hinge, _mean, by_rows=True)
    return lbfgs(objective, np.zeros(problem.A.n_weights), 200, 1e-2)[0]


def _mean(scores: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    sizes = np.diff(offsets)
    return np.add.reduceat(scores, offsets[:-1]) / sizes, np.repeat(1 / sizes, sizes)


def warn_not_converged(what: str, limit: int) -> None:
    """Say so to the caller of `fit`."""
    warnings.warn(
        f"not converged after {limit} {what}: raise max_iter or tol, or scale the features",
        ConvergenceWarning,
        stacklevel=4,
    )
