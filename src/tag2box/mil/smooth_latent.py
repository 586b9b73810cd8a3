"""The latent SVM with a smoothed maximum, f_μ of `smoothing` in the place of f of `latent`, by L-BFGS."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.mil.linear import LinearClassifier, Solution
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import BagProblem, minimize, warn_not_converged
from tag2box.mil.smoothing import OMEGAS, segment_smoothed_max
from tag2box.mil.validation import check_choice, check_positive

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    omega : {"l2", "entropy"}, default="l2"
        The smoothing: "l2" spreads the weight of a bag over few of its instances, "entropy" over all.
    loss : {"squared_hinge", "logistic", "smooth_hinge"}, default="squared_hinge"
        The loss of a bag.
    %(intercept)s
    top : int, default=None
        With "l2", the number of scores of a bag that are projected at first; more are taken where needed, so
        that the result is the same. None projects all.
    decision : {"smooth", "max"}, default="smooth"
        The score of a bag in prediction. "max" is the paper's; with a large `mu`, where whole bags vote, it
        leans to the positive side.
    %(start)s
    max_iter : int, default=1000
        The greatest number of iterations.
    tol : float, default=1e-4
        The gradient at which to stop, relative to that at zero.
    %(n_jobs)s

    Attributes
    ----------
    %(linear)s
    %(solution)s
    %(classes)s

    See Also
    --------
    LatentSVC : Without smoothing.
    smoothed_max : The smoothed maximum.

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

    def __init__(
        self,
        C: float = 1.0,
        mu: float = 0.01,
        *,
        omega: str = "l2",
        loss: str = "squared_hinge",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        top: int | None = None,
        decision: str = "smooth",
        class_weight: Any = None,
        init: Any = "andrews",
        warm_start: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.mu = mu
        self.omega = omega
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.top = top
        self.decision = decision
        self.class_weight = class_weight
        self.init = init
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

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
