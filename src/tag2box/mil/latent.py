"""Latent SVMs over bags (Section 5 of the paper), as scikit-learn estimators.

With a bag's score the best of its instances, both minimize over w (a bias is a feature like any other)

    ½‖w‖² + C Σ_i c_i ℓ(y_i f_i(w)),    f_i(w) = max_z wᵀφ(x_i, z)

where c_i is the weight of bag i. `LatentSVC` goes downhill by the concave-convex procedure: fix the best
instance of each positive bag, solve the convex rest, repeat. `SmoothLatentSVC`
(`smooth_latent`) puts the smoothed maximum f_μ in the place of f, for positive and negative bags alike, and
runs L-BFGS on it.

Both start from the SVM of Andrews et al. (2003): all instances of the negative bags against the mean of
each positive bag.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.mil.convex import ConvexHalf
from tag2box.mil.linear import LinearClassifier, Solution
from tag2box.mil.losses import LOSSES
from tag2box.mil.objective import BagProblem, warn_not_converged
from tag2box.mil.smoothing import segment_max

Floats = NDArray[np.float64]


class LatentSVC(LinearClassifier):
    """Latent SVM for bags, by the concave-convex procedure.

    The score of a bag is the maximum over its instances. Each round fixes the best instance of every
    positive bag and solves the convex problem that is left, so that the objective::

        ½‖w‖² + C Σ_i c_i ℓ(y_i max_z wᵀφ(x_i, z))

    never rises. More than two classes are learned one against the rest. Nothing is random.

    Parameters
    ----------
    %(C)s
    loss : {"hinge", "squared_hinge", "logistic", "smooth_hinge"}, default="hinge"
        The loss of a bag. "hinge" is the latent SVM.
    %(intercept)s
    %(start)s
    max_iter : int, default=100
        The greatest number of rounds.
    tol : float, default=1e-4
        The relative duality gap of the convex problem, and the relative fall of the objective in a round
        below which the fit stops.
    %(n_jobs)s

    Attributes
    ----------
    %(linear)s
    %(solution)s
    %(classes)s

    See Also
    --------
    SmoothLatentSVC : Smooths the maximum; with an intercept the two differ by noise (docs/bags.md).

    Notes
    -----
    Memory beside the bags: the square of the number of instances that have a loss, at most a few per bag.

    Examples
    --------
    A bag is positive if one of its instances is above 1.

    >>> from tag2box.mil import Bags, LatentSVC
    >>> bags = Bags.from_list([[[0.1], [2.0]], [[3.0]], [[0.5], [0.2]], [[0.9]]])
    >>> model = LatentSVC(C=100).fit(bags, [1, 1, -1, -1])
    >>> model.predict(Bags.from_list([[[0.0], [2.5]], [[0.3]]])).tolist()
    [1, -1]
    >>> model.witness(bags).tolist()
    [1, 2, 3, 5]
    """

    losses = tuple(LOSSES)

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        init: Any = "andrews",
        warm_start: bool = False,
        max_iter: int = 100,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.init = init
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    def _solve(self, problem: BagProblem, theta: Floats) -> Solution:
        half = ConvexHalf(problem, self.loss)

        def look(theta: Floats) -> tuple[float, NDArray[np.intp]]:
            best, where = segment_max(problem.A.scores(theta), problem.offsets)
            loss = LOSSES[self.loss](problem.y * best)[0]
            return float(theta @ theta / 2 + problem.cost @ loss), where[problem.y > 0]

        value, witness = look(theta)
        trace = [value]
        for rounds in range(1, self.max_iter + 1):
            candidate = half.solve(theta, witness, self.tol)
            value, next_witness = look(candidate)
            if value < trace[-1]:
                theta = candidate
            fall = trace[-1] - value
            trace.append(min(value, trace[-1]))
            if fall <= self.tol * value or np.array_equal(witness, next_witness):
                return theta, trace, rounds
            witness = next_witness
        warn_not_converged("rounds", self.max_iter)
        return theta, trace, self.max_iter
