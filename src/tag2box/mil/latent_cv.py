"""Latent SVMs that choose C and μ by cross-validation, with calibrated probabilities.

The decisions about the bags that a fold leaves out, at the chosen setting, calibrate the probabilities.
"""

from dataclasses import KW_ONLY, dataclass
from inspect import cleandoc
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone

from tag2box.mil.bags import Bags
from tag2box.mil.base import BagBase, InstanceClassifier, ProbabilityMixin
from tag2box.mil.latent import LatentSVC, SmoothLatentSVC
from tag2box.mil.search import cross_validate, fit_sigmoids, folds_of, log_odds

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class LatentCV(ProbabilityMixin, InstanceClassifier):
    """A latent SVM whose settings are chosen by cross-validation; a subclass names its kind."""

    Cs: Any = (0.1, 1.0, 10.0, 100.0)
    _: KW_ONLY
    cv: Any = 5
    scoring: Any = None
    estimator: Any = None

    _kind: ClassVar[type[InstanceClassifier]]

    shared_docs = BagBase.shared_docs | {
        "Cs": cleandoc("""
            Cs : array-like of float, default=(0.1, 1.0, 10.0, 100.0)
                The values of C to choose from.
        """),
        "search": cleandoc("""
            cv : int or splitter, default=5
                The folds, as in scikit-learn.
            scoring : str or callable, default=None
                The score to maximize, as in scikit-learn. None is accuracy.
        """),
        "choice": cleandoc("""
            best_params_ : dict
                The chosen setting.
            best_score_ : float
                Its mean score over the folds.
            path_ : list of dict
                The settings that were tried.
            scores_ : ndarray of shape (n_folds, n_settings)
                The score of each setting in each fold.
            calibration_ : ndarray of shape (1, 2) or (n_classes, 2)
                Slope and offset of the sigmoid of each class.
        """),
    }

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        estimator = self._kind() if self.estimator is None else self.estimator
        grid, folds = self._grid(), folds_of(self.cv, labels)
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        result = cross_validate(estimator, points, bags, labels, folds, weight, scoring=self.scoring)
        weights = {} if weight is None else {"sample_weight": weight}
        self.path_, self.scores_ = points, result.scores
        self.best_params_, self.best_score_ = points[result.best], float(result.scores.mean(axis=0).max())
        self.estimator_ = clone(estimator).set_params(**self.best_params_).fit(bags, labels, **weights)
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.calibration_ = fit_sigmoids(result.best_decisions, labels, self.classes_)

    def _instance_scores(self, bags: Bags) -> Floats:
        return np.asarray(self.estimator_.instance_scores(bags))

    def _bag_scores(self, scores: Floats, offsets: NDArray[np.int64]) -> Floats:
        return np.asarray(self.estimator_._bag_scores(scores, offsets))

    def _probabilities(self, decisions: Floats) -> Floats:
        likely = expit(log_odds(decisions, self.calibration_))
        return np.asarray(likely[:, 0] if decisions.ndim == 1 else likely)

    def _grid(self) -> dict[str, Any]:
        return {"C": self.Cs}


class LatentSVCCV(LatentCV):
    """`LatentSVC` with C chosen by cross-validation, and calibrated probabilities.

    Parameters
    ----------
    %(Cs)s
    %(search)s
    estimator : LatentSVC, default=None
        The estimator with its other parameters. None is `LatentSVC()`.

    Attributes
    ----------
    estimator_ : LatentSVC
        The estimator at the chosen setting, fitted to all bags.
    %(choice)s
    %(linear)s
    %(classes)s

    Examples
    --------
    >>> from tag2box.mil import LatentSVCCV, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> model = LatentSVCCV(cv=3).fit(bags, y)
    >>> sorted(model.best_params_)
    ['C']
    >>> model.predict_proba(bags).shape
    (60, 2)
    """

    _kind = LatentSVC


@dataclass(eq=False, repr=False)
class SmoothLatentSVCCV(LatentCV):
    """`SmoothLatentSVC` with C and mu chosen by cross-validation, and calibrated probabilities.

    Parameters
    ----------
    %(Cs)s
    mus : array-like of float, default=(0.3, 1.0, 3.0)
        The values of mu to choose from.
    %(search)s
    estimator : SmoothLatentSVC, default=None
        The estimator with its other parameters. None is `SmoothLatentSVC()`.

    Attributes
    ----------
    estimator_ : SmoothLatentSVC
        The estimator at the chosen setting, fitted to all bags.
    %(choice)s
    %(linear)s
    %(classes)s

    Examples
    --------
    >>> from tag2box.mil import SmoothLatentSVCCV, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> model = SmoothLatentSVCCV(Cs=[1, 10], mus=[0.3, 3], cv=3).fit(bags, y)
    >>> sorted(model.best_params_)
    ['C', 'mu']
    >>> model.predict_proba(bags).shape
    (60, 2)
    """

    _kind = SmoothLatentSVC

    mus: Any = (0.3, 1.0, 3.0)

    def _grid(self) -> dict[str, Any]:
        return {"C": self.Cs, "mu": self.mus}
