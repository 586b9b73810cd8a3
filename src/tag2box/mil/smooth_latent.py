"""The latent SVM with a smoothed maximum, f_μ of `smoothing` in the place of f of `latent`, by L-BFGS."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.mil.bag_classifier import BagClassifier
from tag2box.mil.bag_estimator import check_choice, check_positive
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import BagProblem, minimize, warn_not_converged
from tag2box.mil.smoothing import OMEGAS, segment_smoothed_max

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SmoothLatentSVC(BagClassifier):
    """Latent SVM for bags with a smoothed maximum, by L-BFGS.

    The score of a bag is the smoothed maximum f_μ over its instances (see `smoothed_max`), in training and
    in prediction: at most `mu` / 2 below the best instance. The objective::

        ½‖w‖² + C Σ_i c_i ℓ(y_i f_μ(wᵀφ(x_i, z) for all z))

    is differentiable. More than two classes are learned one against the rest. Nothing is random.

    Parameters
    ----------
    C : float, default=1.0
        The weight of the loss against the regularization ½‖w‖².
    mu : float, default=0.01
        The amount of smoothing, in units of the score.
    omega : {"l2", "entropy"}, default="l2"
        The smoothing: "l2" spreads the weight of a bag over few of its instances, "entropy" over all.
    loss : {"squared_hinge", "logistic", "smooth_hinge"}, default="squared_hinge"
        The loss of a bag.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    intercept_scaling : float, default=1.0
        The value of the constant feature that stands for the intercept. Its weight is regularized like the
        others, as in `sklearn.svm.LinearSVC`.
    top : int, default=None
        With "l2", the number of scores of a bag that are projected at first; more are taken where needed, so
        that the result is the same. None projects all.
    decision : {"smooth", "max"}, default="smooth"
        The score of a bag in prediction. "max" is the paper's; with a large `mu`, where whole bags vote, it
        leans to the positive side.
    class_weight : dict or "balanced", default=None
        The weight of each class, as in scikit-learn.
    init : {"andrews", "zeros"}, ndarray or tuple, default="andrews"
        The weights to start from: those of Andrews et al. (2003), zeros, `coef` or `(coef, intercept)`.
    warm_start : bool, default=False
        Whether to start from the solution of the last fit.
    max_iter : int, default=1000
        The greatest number of iterations.
    tol : float, default=1e-4
        The gradient at which to stop, relative to that at zero.
    n_jobs : int, default=None
        The number of threads for more than two classes. None means 1, -1 means one per core.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; of two classes, the second is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercept of each row of `coef_`.
    objective_ : float or ndarray of shape (n_classes,)
        The value of the objective at the solution.
    objective_trace_ : list of float, or list of such lists
        The objective at the start and after every iteration.
    n_iter_ : int or ndarray of shape (n_classes,)
        The number of iterations.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    LatentSVC : Without smoothing.
    smoothed_max : The smoothed maximum.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> rng = np.random.default_rng(0)
    >>> y = np.array([1, -1] * 10)
    >>> shift = [2 * (np.arange(5) < label)[:, None] for label in y]  # one instance of the positive bags
    >>> bags = t2b.Bags.from_list([rng.normal(size=(5, 3)) + each for each in shift])
    >>> model = t2b.SmoothLatentSVC(C=10, mu=0.5).fit(bags, y)
    >>> model.instance_scores(bags).shape
    (100,)
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

    def _solve(self, problem: BagProblem, theta: Floats) -> tuple[Floats, list[float], int]:
        maximum = partial(segment_smoothed_max, mu=self.mu, omega=self.omega, top=self.top)
        loss = LOSSES[self.loss]
        minimum = minimize(problem, loss, maximum, theta, max_iter=self.max_iter, tol=self.tol)
        if not minimum.converged:
            warn_not_converged("iterations", self.max_iter)
        return minimum.theta, minimum.trace, len(minimum.trace) - 1
