"""Latent SVMs that choose C and μ by cross-validation, along a path of warm starts.

In each fold the settings are visited so that neighbors on the path differ by one step: C goes up and down,
μ falls from the smoothest problem to the sharpest. Each fit starts where the last one ended. The decisions
about the bags that a fold leaves out, at the chosen setting, calibrate probabilities.
"""

from inspect import cleandoc
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.metrics import get_scorer

from tag2box.mil.bags import Bags
from tag2box.mil.base import BagBase, InstanceClassifier, ProbabilityMixin
from tag2box.mil.calibration import fit_sigmoids, log_odds
from tag2box.mil.latent import LatentSVC
from tag2box.mil.search import Point, accuracy, cross_validate, fit_path, folds_of
from tag2box.mil.smooth_latent import SmoothLatentSVC

Floats = NDArray[np.float64]


def path(Cs: ArrayLike, mus: ArrayLike | None = None) -> list[Point]:
    """The settings in the order of the path: μ falls, C goes up, then down, then up again."""
    up = [float(C) for C in np.unique(Cs)]
    if mus is None:
        return [{"C": C} for C in up]
    rows = enumerate(np.unique(mus)[::-1])
    return [{"mu": float(mu), "C": C} for k, mu in rows for C in (up[::-1] if k % 2 else up)]


class LatentCV(ProbabilityMixin, InstanceClassifier):
    """A latent SVM whose settings are chosen by cross-validation; a subclass defines `_points`."""

    _kind: type[InstanceClassifier]
    cv: Any
    scoring: Any
    estimator: Any

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
                The settings in the order in which they were visited.
            scores_ : ndarray of shape (n_folds, n_settings)
                The score of each setting in each fold.
            calibration_ : ndarray of shape (1, 2) or (n_classes, 2)
                Slope and offset of the sigmoid of each class.
        """),
    }

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        estimator = self._kind() if self.estimator is None else self.estimator
        score = accuracy if self.scoring is None else get_scorer(self.scoring)
        points, folds = self._points(), folds_of(self.cv, labels)
        result = cross_validate(estimator, points, bags, labels, folds, weight, score=score, warm=True)
        for model, _ in fit_path(estimator, points[: result.best + 1], bags, labels, bags, weight, warm=True):
            self.estimator_ = model
        self.path_, self.scores_ = points, result.scores
        self.best_params_, self.best_score_ = points[result.best], result.best_score
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.calibration_ = fit_sigmoids(result.best_decisions, labels, self.classes_)

    def _instance_scores(self, bags: Bags) -> Floats:
        return np.asarray(self.estimator_.instance_scores(bags))

    def _bag_scores(self, scores: Floats, offsets: NDArray[np.int64]) -> Floats:
        return np.asarray(self.estimator_._bag_scores(scores, offsets))

    def _probabilities(self, decisions: Floats) -> Floats:
        likely = expit(log_odds(decisions, self.calibration_))
        return np.asarray(likely[:, 0] if decisions.ndim == 1 else likely)

    def _points(self) -> list[Point]:
        raise NotImplementedError


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

    See Also
    --------
    SmoothLatentSVCCV : The same for `SmoothLatentSVC`.

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

    def __init__(
        self,
        Cs: Any = (0.1, 1.0, 10.0, 100.0),
        *,
        cv: Any = 5,
        scoring: Any = None,
        estimator: Any = None,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.estimator = estimator

    def _points(self) -> list[Point]:
        return path(self.Cs)


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

    See Also
    --------
    LatentSVCCV : The same for `LatentSVC`.

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

    def __init__(
        self,
        Cs: Any = (0.1, 1.0, 10.0, 100.0),
        mus: Any = (0.3, 1.0, 3.0),
        *,
        cv: Any = 5,
        scoring: Any = None,
        estimator: Any = None,
    ) -> None:
        self.Cs = Cs
        self.mus = mus
        self.cv = cv
        self.scoring = scoring
        self.estimator = estimator

    def _points(self) -> list[Point]:
        return path(self.Cs, self.mus)
