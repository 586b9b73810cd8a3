"""Latent SVMs that choose C and μ by cross-validation, along a path of warm starts.

In each fold the settings are visited so that neighbors on the path differ by one step: C goes up and down,
μ falls from the smoothest problem to the sharpest. Each fit starts where the last one ended. The decisions
about the bags that a fold leaves out, at the chosen setting, calibrate probabilities.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.metrics import get_scorer

from tag2box.mil.bag_estimator import BagEstimator, bag_weights
from tag2box.mil.bags import Bags
from tag2box.mil.calibration import fit_sigmoids, log_odds
from tag2box.mil.latent import LatentSVC
from tag2box.mil.search import Point, accuracy, along, cross_validate, folds_of
from tag2box.mil.smooth_latent import SmoothLatentSVC

Floats = NDArray[np.float64]


def path(Cs: ArrayLike, mus: ArrayLike | None = None) -> list[Point]:
    """The settings in the order of the path: μ falls, C goes up, then down, then up again."""
    up = [float(C) for C in np.unique(Cs)]
    if mus is None:
        return [{"C": C} for C in up]
    rows = enumerate(np.unique(mus)[::-1])
    return [{"mu": float(mu), "C": C} for k, mu in rows for C in (up[::-1] if k % 2 else up)]


class _LatentCV(BagEstimator):
    """The choice; who inherits has the machine and the path."""

    _kind: type[BagEstimator]
    cv: Any
    scoring: Any
    estimator: Any

    def fit(self, bags: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Choose the settings by cross-validation, then learn from all bags.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : array-like of shape (n_bags,)
            The label of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            The weight of each bag in the fits; every bag counts alike in the choice.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        bags, labels = self._begin(bags, y)
        weight = None if sample_weight is None else bag_weights(sample_weight, len(bags))
        machine = self._kind() if self.estimator is None else self.estimator
        score = accuracy if self.scoring is None else get_scorer(self.scoring)
        points, folds = self._points(), folds_of(self.cv, labels)
        tried = cross_validate(machine, points, bags, labels, folds, weight, score=score, warm=True)
        for model, _ in along(machine, points[: tried.best + 1], bags, labels, bags, weight, warm=True):
            self.estimator_ = model
        self.path_, self.scores_ = points, tried.scores
        self.best_params_ = points[tried.best]
        self.best_score_ = tried.best_score
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.calibration_ = fit_sigmoids(tried.best_decisions, labels, self.classes_)
        return self

    def predict_proba(self, bags: Any) -> Floats:
        """Predict the probability of every class, calibrated by bags that the fits had not seen.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            The probabilities.
        """
        likely = expit(log_odds(self.decision_function(bags), self.calibration_))
        if likely.shape[1] == 1:
            return np.hstack([1 - likely, likely])
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def _instance_scores(self, bags: Bags) -> Floats:
        return np.asarray(self.estimator_.instance_scores(bags))

    def _bag_scores(self, scores: Floats, offsets: NDArray[np.int64]) -> Floats:
        return np.asarray(self.estimator_._bag_scores(scores, offsets))

    def _points(self) -> list[Point]:
        raise NotImplementedError


class LatentSVCCV(_LatentCV):
    """`LatentSVC` with C chosen by cross-validation, and calibrated probabilities.

    Parameters
    ----------
    Cs : array-like of float, default=(0.1, 1.0, 10.0, 100.0)
        The values of C to choose from.
    cv : int or splitter, default=5
        The folds, as in scikit-learn.
    scoring : str or callable, default=None
        What is best, as in scikit-learn. None is accuracy.
    estimator : LatentSVC, default=None
        The machine with its other parameters. None is `LatentSVC()`.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting.
    best_score_ : float
        Its mean score over the folds.
    path_ : list of dict
        The settings in the order in which they were visited.
    scores_ : ndarray of shape (n_folds, n_settings)
        The score of each setting in each fold.
    estimator_ : LatentSVC
        The machine at the chosen setting, fitted to all bags.
    calibration_ : ndarray of shape (1, 2) or (n_classes, 2)
        Slope and offset of the sigmoid of each class.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercept of each row of `coef_`.
    classes_ : ndarray of shape (n_classes,)
        The labels; of two classes, the second is the positive one.
    n_features_in_ : int
        The number of features.

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


class SmoothLatentSVCCV(_LatentCV):
    """`SmoothLatentSVC` with C and mu chosen by cross-validation, and calibrated probabilities.

    Parameters
    ----------
    Cs : array-like of float, default=(0.1, 1.0, 10.0, 100.0)
        The values of C to choose from.
    mus : array-like of float, default=(0.3, 1.0, 3.0)
        The values of mu to choose from.
    cv : int or splitter, default=5
        The folds, as in scikit-learn.
    scoring : str or callable, default=None
        What is best, as in scikit-learn. None is accuracy.
    estimator : SmoothLatentSVC, default=None
        The machine with its other parameters. None is `SmoothLatentSVC()`.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting.
    best_score_ : float
        Its mean score over the folds.
    path_ : list of dict
        The settings in the order in which they were visited.
    scores_ : ndarray of shape (n_folds, n_settings)
        The score of each setting in each fold.
    estimator_ : SmoothLatentSVC
        The machine at the chosen setting, fitted to all bags.
    calibration_ : ndarray of shape (1, 2) or (n_classes, 2)
        Slope and offset of the sigmoid of each class.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercept of each row of `coef_`.
    classes_ : ndarray of shape (n_classes,)
        The labels; of two classes, the second is the positive one.
    n_features_in_ : int
        The number of features.

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
    >>> model.predict_proba(bags).sum(axis=1).round(6).tolist() == [1.0] * 60
    True
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
