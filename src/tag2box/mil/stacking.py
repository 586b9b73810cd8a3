"""`BagStackingCV`: several machines, each with its settings chosen, combined by a logistic regression.

On the same folds every machine chooses its settings and decides about the bags that are left out. Its
decisions become log odds (Platt 1999), and a logistic regression of the log odds of all machines gives the
answer (stacking, Wolpert 1992).
"""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tag2box.errors import InputError
from tag2box.mil.bag_statistics import BagStatistics
from tag2box.mil.bags import Bags
from tag2box.mil.base import BagClassifier, ProbabilityMixin
from tag2box.mil.latent import SmoothLatentSVC
from tag2box.mil.scaling import InstanceScaler, PerInstance, mostly_zeros
from tag2box.mil.search import cross_validate, fit_sigmoids, folds_of, log_odds
from tag2box.mil.set_kernel import SetKernel

Floats = NDArray[np.float64]
# A machine, and the settings to choose from, as for `GridSearchCV`.
Choice = tuple[Any, dict[str, Any]]
SVM_CS = [1.0, 10.0, 100.0]


def fit_stack(odds: Sequence[Floats], y: NDArray[Any]) -> LogisticRegression:
    """The logistic regression of the log odds of each machine, all (n_bags, 1 or n_classes)."""
    return LogisticRegression().fit(np.hstack(odds), y)


@dataclass(eq=False, repr=False)
class BagStackingCV(ProbabilityMixin, BagClassifier):
    """Several machines, their settings chosen by cross-validation, stacked by a logistic regression.

    Take it if you do not know which machine suits your bags: on twelve public sets it is better in the mean
    than each of its machines, and than the best of them chosen by cross-validation.

    Parameters
    ----------
    machines : list of (estimator, param_grid), default=None
        The machines, classifiers of bags with `decision_function`, and the settings to choose from, as for
        `GridSearchCV`. None is statistics and the set kernel, each with an SVM, and the smoothed latent SVM.
    cv : int or splitter, default=3
        The folds, as in scikit-learn.

    Attributes
    ----------
    machines_ : list of classifiers
        The machines with their chosen settings, fitted to all bags.
    best_params_ : list of dict
        The chosen settings of each.
    best_scores_ : ndarray of shape (n_machines,)
        The mean accuracy of each at these settings, over the folds.
    final_estimator_ : LogisticRegression
        The weights of the machines' log odds.
    %(classes)s

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from tag2box.mil import MISVM, BagStackingCV, SmoothLatentSVC, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> machines = [(SmoothLatentSVC(mu=0.5), {"C": [1, 10]}), (MISVM(SVC()), {"estimator__C": [1, 10]})]
    >>> model = BagStackingCV(machines).fit(bags, y)
    >>> model.predict_proba(bags).shape
    (60, 2)
    """

    machines: Any = None
    _: KW_ONLY
    cv: Any = 3

    def fit(self, bags: Any, y: ArrayLike) -> "BagStackingCV":
        """Choose the settings of each machine, fit it, and weigh them.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : array-like of shape (n_bags,)
            The label of each bag.

        Returns
        -------
        BagStackingCV
            The fitted estimator.
        """
        bags, labels = self._check_training(bags, y)
        machines = self.machines
        if machines is None:
            machines = list(usual_machines(text=mostly_zeros(bags.X)).values())
        if not machines:
            raise InputError("no machines to stack: give at least one, with its settings")
        folds = folds_of(self.cv, labels)
        odds, scores = [], []
        self.machines_, self.best_params_, self._sigmoids = [], [], []
        with warnings.catch_warnings():
            # What a solver that stops early costs is seen in the folds.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for estimator, grid in machines:
                points = list(ParameterGrid(grid))
                result = cross_validate(estimator, points, bags, labels, folds)
                self._sigmoids.append(fit_sigmoids(result.best_decisions, labels, self.classes_))
                odds.append(log_odds(result.best_decisions, self._sigmoids[-1]))
                scores.append(result.scores.mean(axis=0).max())
                self.best_params_.append(points[result.best])
                self.machines_.append(clone(estimator).set_params(**points[result.best]).fit(bags, labels))
        in_folds = np.isfinite(np.hstack(odds)).all(axis=1)  # bags that some fold has left out
        self.final_estimator_ = fit_stack([part[in_folds] for part in odds], labels[in_folds])
        self.best_scores_ = np.array(scores)
        return self

    def _decide(self, bags: Bags) -> Floats:
        """Log odds of the second of two classes, or a score of each class."""
        pairs = zip(self.machines_, self._sigmoids, strict=True)
        odds = [log_odds(machine.decision_function(bags), sigmoids) for machine, sigmoids in pairs]
        return np.asarray(self.final_estimator_.decision_function(np.hstack(odds)))

    def _probabilities(self, decisions: Floats) -> Floats:
        return np.asarray(expit(decisions) if decisions.ndim == 1 else softmax(decisions, axis=1))


def usual_machines(*, text: bool) -> dict[str, Choice]:
    """By name; text: whether instances are mostly zeros."""
    return {"statistics": statistics("normalize"), "NSK": _set_kernel(text), "SLSVM": _smooth()}


def statistics(method: str) -> Choice:
    """Statistics of each bag, and an SVM with a Gaussian kernel; method: how instances are scaled."""
    machine = make_pipeline(PerInstance(InstanceScaler(method)), BagStatistics(), InstanceScaler(), SVC())
    sets = [("mean",), ("min", "max"), ("mean", "min", "max", "std")]
    grid = {"bagstatistics__statistics": sets, "svc__gamma": [0.125, 0.5, 2.0]}
    return machine, grid | {"svc__C": SVM_CS}


def _set_kernel(text: bool) -> Choice:
    """The normalised set kernel and an SVM; on text no Gaussian was better than a linear kernel."""
    kernel = SetKernel("linear" if text else "rbf")
    machine = make_pipeline(PerInstance(InstanceScaler()), kernel, SVC(kernel="precomputed"))
    return machine, {"setkernel__gamma": [1.0] if text else [0.25, 1.0], "svc__C": SVM_CS}


def _smooth() -> Choice:
    """The smoothed latent SVM with a bias."""
    machine = make_pipeline(PerInstance(InstanceScaler("normalize")), SmoothLatentSVC(tol=1e-3))
    return machine, {"smoothlatentsvc__mu": [3.0, 1.0, 0.3], "smoothlatentsvc__C": [0.5, 2.0, 10.0]}
