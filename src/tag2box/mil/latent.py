"""Latent SVMs over bags (Section 5 of the paper), as scikit-learn estimators.

With a bag's score the best of its instances, both minimize over w (a bias is a feature like any other)

    ½‖w‖² + C Σ_i c_i ℓ(y_i f_i(w)),    f_i(w) = max_z wᵀφ(x_i, z)

where c_i is the weight of bag i. `LatentSVC` goes downhill by the concave-convex procedure: fix the best
instance of each positive bag, solve the convex rest, repeat. `SmoothLatentSVC` puts the smoothed maximum
f_μ (see `smoothing`) in the place of f, for positive and negative bags alike, and runs L-BFGS on it.

Both start from the SVM of Andrews et al. (2003): all instances of the negative bags against the mean of
each positive bag.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tag2box.errors import InputError
from tag2box.mil.bag_classifier import BagClassifier, check_positive
from tag2box.mil.convex import CODES, ConvexHalf
from tag2box.mil.losses import LOSSES
from tag2box.mil.objective import BagObjective, BagProblem, lbfgs
from tag2box.mil.smoothing import OMEGAS, segment_max, segment_smoothed_max

__all__ = ["LatentSVC", "SmoothLatentSVC"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LatentSVC(BagClassifier):
    """Latent SVM by the concave-convex procedure: its objective never rises.

    Parameters: `C` weighs the loss against ½‖w‖²; `loss` is hinge (the latent SVM), squared_hinge or
    logistic; `fit_intercept` adds a constant feature of `intercept_scaling`, regularized like the
    others; `class_weight` is a dict, "balanced" or None; `init` is "andrews", "zeros", coef or (coef,
    intercept); `warm_start` starts at the last fit; `max_iter` bounds the rounds; `tol` is the relative gap
    of the convex half and the least relative fall of the objective in a round.

    Learned: `classes_`, `coef_` (1 or n_classes, d), `intercept_`, `objective_`, `objective_trace_` (its
    value at the start and after every round), `n_iter_`. Memory beside the bags: the square of the number
    of instances that have a loss, at most a few per bag.
    """

    losses = tuple(CODES)

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

    def _solve(self, problem: BagProblem, theta: Floats) -> tuple[Floats, list[float], int]:
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
        _warn_not_converged("rounds", self.max_iter)
        return theta, trace, self.max_iter


class SmoothLatentSVC(BagClassifier):
    """Latent SVM with the maximum smoothed, by L-BFGS.

    Parameters: as in `LatentSVC`, and `mu`, the amount of smoothing in units of the score; `omega`, l2
    (sparse weights over a bag's instances) or entropy; `loss`, a smooth one: squared_hinge, logistic or
    smooth_hinge; `top`, with l2, to project only so many of a bag's scores, more where the certificate asks
    for it, so that the answer is the same; `max_iter` bounds the iterations, `tol` the gradient relative to
    that at zero.

    A bag's score is, as in training, the smoothed maximum of its instances' scores: no more than mu/2 below
    the best one. With a large mu, where whole bags vote, deciding by the plain maximum would lean to the
    positive side. `decision="max"` asks for that all the same, as in the paper's decision rule.

    Learned: as in `LatentSVC`; `objective_trace_` has the value at the start and at the end.
    """

    losses = ("squared_hinge", "logistic", "smooth_hinge")

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
        if self.omega not in OMEGAS:
            raise InputError(f"omega must be one of {', '.join(OMEGAS)}, but it is {self.omega!r}")
        if self.top is not None and (self.top < 1 or self.omega != "l2"):
            raise InputError(f"top must be None, or at least 1 with omega='l2', but it is {self.top}")
        if self.decision not in ("smooth", "max"):
            raise InputError(f"decision must be smooth or max, but it is {self.decision!r}")

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        if self.decision == "max":
            return super()._bag_scores(scores, offsets)
        return segment_smoothed_max(scores, offsets, self.mu, self.omega, self.top)[0]

    def _solve(self, problem: BagProblem, theta: Floats) -> tuple[Floats, list[float], int]:
        maximum = partial(segment_smoothed_max, mu=self.mu, omega=self.omega, top=self.top)
        objective = BagObjective(problem, LOSSES[self.loss], maximum)
        start = objective(theta)[0]
        theta, end, n_iter = lbfgs(objective, theta, self.max_iter, self.tol)
        if n_iter >= self.max_iter:
            _warn_not_converged("iterations", self.max_iter)
        return theta, [start, end], n_iter


def _warn_not_converged(what: str, limit: int) -> None:
    warnings.warn(
        f"not converged after {limit} {what}: raise max_iter or tol, or scale the features",
        ConvergenceWarning,
        stacklevel=4,
    )
