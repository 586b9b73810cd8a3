"""The objective over bags and what goes with it: `BagProblem`, `BagObjective`, Andrews' start.

    ½‖θ‖² + Σ_i c_i ℓ(y_i f(A_i θ))

with f a maximum, or a smoothed one, over the instances of bag i. Where there is a center θ₀, ½‖θ - θ₀‖².
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tag2box.mil.affine import Affine
from tag2box.mil.lbfgs import Ahead, lbfgs
from tag2box.mil.losses import Loss, squared_hinge
from tag2box.runtime.compiled import kernel

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
    """Σ_i c_i ℓ(y_i f(A_i θ)) by the scores of instances, as `lbfgs` wants it; `by_rows`: see `Affine`."""

    def __init__(
        self, problem: BagProblem, bag_loss: Loss, maximum: Maximum, *, by_rows: bool = False
    ) -> None:
        self.problem, self.bag_loss, self.maximum, self.by_rows = problem, bag_loss, maximum, by_rows

    def scores(self, theta: Floats) -> Floats:
        """(n,) scores."""
        return self.problem.A.scores(theta)

    def ahead(self, scores: Floats, d: Floats, t: float) -> Ahead:
        """The line from `scores` along d, and its step t."""
        z = self.problem.A.change(d)
        there = scores + t * z
        loss, r = self.loss(there)
        return Ahead(z, there, loss, float(r @ z), lambda: self.adjoint(r))

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """The sum, and its derivative by each score."""
        p = self.problem
        f, u = self.maximum(scores, p.offsets)
        value, slope = self.bag_loss(p.y * f)
        return float(p.cost @ value), _times(p.cost * slope * p.y, u, p.offsets)

    def adjoint(self, r: Floats) -> Floats:
        """The gradient by θ of what has the derivative r by each score."""
        return self.problem.A.adjoint(r, by_rows=self.by_rows)


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
    return lbfgs(objective, np.zeros(problem.A.n_weights), 200, 1e-2).theta


@kernel
def _times(factors: Floats, u: Floats, offsets: Ints) -> Floats:
    """u, each bag's part times its factor: one pass, where `np.repeat` takes three."""
    out = np.empty_like(u)
    for i in range(len(factors)):
        for j in range(offsets[i], offsets[i + 1]):
            out[j] = factors[i] * u[j]
    return out


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
