"""Latent SVMs over bags (Section 5 of the paper), as scikit-learn estimators.

With a bag's score the best of its instances, both minimize over w (a bias is a feature like any other)

    ½‖w‖² + C Σ_i c_i ℓ(y_i f_i(w)),    f_i(w) = max_z wᵀφ(x_i, z)

where c_i is the weight of bag i. `LatentSVC` goes downhill by the concave-convex procedure: fix the best
instance of each positive bag, solve the convex rest, repeat. `SmoothLatentSVC`
puts the smoothed maximum f_μ in the place of f, for positive and negative bags alike, and
runs L-BFGS on it.

Both start from the SVM of Andrews et al. (2003): all instances of the negative bags against the mean of
each positive bag.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.mil.convex import ConvexHalf
from tag2box.mil.linear import LinearClassifier, Solution
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import BagProblem, minimize, warn_not_converged
from tag2box.mil.smoothing import OMEGAS, segment_max, segment_smoothed_max
from tag2box.mil.validation import check_choice, check_positive

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(eq=False, repr=False)
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
    %(shared)s
    max_iter : int, default=100
        The greatest number of rounds.
    tol : float, default=1e-4
        The relative duality gap of the convex problem, and the relative fall of the objective in a round
        below which the fit stops.

    Attributes
    ----------
    %(linear)s
    %(solution)s
    %(classes)s

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

    _: KW_ONLY
    loss: str = "hinge"
    max_iter: int = 100

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


@dataclass(eq=False, repr=False)
class SmoothLatentSVC(LinearClassifier):
    """Latent SVM for bags with a smoothed maximum, by L-BFGS.

    The score of a bag is the smoothed maximum f_μ over its instances (see `smoothed_max`), in training and
    in prediction: at most `mu` / 2 below the best instance. The objective::

        ½‖w‖² + C Σ_i c_i ℓ(y_i f_μ(wᵀφ(x_i, z) for all z))

    is differentiable. More than two classes are learned one against the rest. Nothing is random.

    Parameters
    ----------
    %(C)s
    mu : float, default=0.01
        The amount of smoothing, in units of the score.
    loss : {"squared_hinge", "logistic", "smooth_hinge"}, default="squared_hinge"
        The loss of a bag.
    %(shared)s
    max_iter : int, default=1000
        The greatest number of iterations.
    tol : float, default=1e-4
        The gradient at which to stop, relative to that at zero.
    omega : {"l2", "entropy"}, default="l2"
        The smoothing: "l2" spreads the weight of a bag over few of its instances, "entropy" over all.
    top : int, default=None
        With "l2", the number of scores of a bag that are projected at first; more are taken where needed, so
        that the result is the same. None projects all.
    decision : {"smooth", "max"}, default="smooth"
        The score of a bag in prediction. "max" is the paper's; with a large `mu`, where whole bags vote, it
        leans to the positive side.

    Attributes
    ----------
    %(linear)s
    %(solution)s
    %(classes)s

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from tag2box.mil import SmoothLatentSVC, make_bags
    >>> bags, y = make_bags(40, random_state=0)
    >>> model = SmoothLatentSVC(C=10, mu=0.5).fit(bags, y)
    >>> len(model.instance_scores(bags)) == bags.n_instances
    True
    >>> bool(cross_val_score(model, bags, y, cv=5).mean() > 0.8)
    True
    """

    losses = SMOOTH

    mu: float = 0.01
    _: KW_ONLY
    omega: str = "l2"
    top: int | None = None
    decision: str = "smooth"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("mu", self.mu)
        check_choice("omega", self.omega, OMEGAS)
        if self.top is not None and (self.top < 1 or self.omega != "l2"):
            raise InputError(f"top must be None, or at least 1 with omega='l2', but it is {self.top}")
        check_choice("decision", self.decision, ("smooth", "max"))

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        if self.decision == "max":
            return super()._bag_scores(scores, offsets)
        return segment_smoothed_max(scores, offsets, self.mu, self.omega, self.top)[0]

    def _solve(self, problem: BagProblem, theta: Floats) -> Solution:
        maximum = partial(segment_smoothed_max, mu=self.mu, omega=self.omega, top=self.top)
        loss = LOSSES[self.loss]
        minimum = minimize(problem, loss, maximum, theta, max_iter=self.max_iter, tol=self.tol)
        if not minimum.converged:
            warn_not_converged("iterations", self.max_iter)
        return minimum.theta, minimum.trace, len(minimum.trace) - 1
