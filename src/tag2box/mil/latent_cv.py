"""Latent SVMs that choose C and μ by cross-validation, along a path of warm starts.

In each fold the settings are visited so that neighbors on the path differ by one step: C goes up and down,
μ falls from the smoothest problem to the sharpest. Each fit starts where the last one ended. The decisions
about the bags that a fold leaves out are kept: at the chosen setting they calibrate probabilities,

    P(y = +1 | f) = 1 / (1 + exp(-(a f + b)))    (Platt 1999, with his targets)
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import check_cv

from tag2box.errors import InputError
from tag2box.mil.bag_estimator import BagEstimator, bag_labels, bag_weights, classes_of, finite_bags
from tag2box.mil.bags import Bags
from tag2box.mil.latent import LatentSVC
from tag2box.mil.smooth_latent import SmoothLatentSVC

__all__ = ["LatentSVCCV", "SmoothLatentSVCCV", "path"]

Floats = NDArray[np.float64]
Point = dict[str, float]


def path(Cs: ArrayLike, mus: ArrayLike | None = None) -> list[Point]:
    """The settings in the order of the path: μ falls, C goes up, then down, then up again."""
    up = [float(C) for C in np.unique(Cs)]
    if mus is None:
        return [{"C": C} for C in up]
    rows = enumerate(np.unique(mus)[::-1])
    return [{"mu": float(mu), "C": C} for k, mu in rows for C in (up[::-1] if k % 2 else up)]


class _LatentCV(BagEstimator):
    """The choice; who inherits has the machine and the path."""

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
        bags = finite_bags(bags)
        labels = bag_labels(y, len(bags))
        weight = None if sample_weight is None else bag_weights(sample_weight, len(bags))
        self.classes_ = classes_of(labels)
        self.n_features_in_ = bags.X.shape[1]
        points = self._points()
        if not points:
            raise InputError("no settings to choose from: give at least one C, and one mu")
        scores, decisions = self._cross_validate(bags, labels, weight, points)
        chosen = int(scores.mean(axis=0).argmax())  # the first among equals: the smoothest
        for model in self._along(points[: chosen + 1], bags, labels, weight):
            self.estimator_ = model
        self.path_, self.scores_ = points, scores
        self.best_params_, self.best_score_ = points[chosen], float(scores.mean(axis=0)[chosen])
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.calibration_ = _platt(decisions[chosen], labels, self.classes_)
        return self

    def instance_scores(self, bags: Any) -> Floats:
        """Score every instance.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
            The linear score of each instance.
        """
        return np.asarray(self.estimator_.instance_scores(self._known(bags)))

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
        scores = self.decision_function(bags)
        columns = scores[:, None] if scores.ndim == 1 else scores
        odds = columns * self.calibration_[:, 0] + self.calibration_[:, 1]
        likely = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        if scores.ndim == 1:
            return np.hstack([1 - likely, likely])
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def _bag_scores(self, scores: Floats, offsets: NDArray[np.int64]) -> Floats:
        return np.asarray(self.estimator_._bag_scores(scores, offsets))

    def _points(self) -> list[Point]:
        raise NotImplementedError

    def _machine(self) -> Any:
        raise NotImplementedError

    def _along(self, points: list[Point], bags: Bags, y: NDArray[Any], weight: Floats | None) -> Any:
        """The machine at each point of the path, each fit started from the last; always the same object."""
        model = clone(self._machine() if self.estimator is None else self.estimator)
        for point in points:
            yield model.set_params(**point, warm_start=True).fit(bags, y, weight)

    def _cross_validate(
        self, bags: Bags, y: NDArray[Any], weight: Floats | None, points: list[Point]
    ) -> tuple[Floats, Floats]:
        """(n_folds, n_points) scores, and (n_points, n_bags[, n_classes]) decisions about bags left out."""
        score = _accuracy if self.scoring is None else get_scorer(self.scoring)
        columns = (len(self.classes_),) if len(self.classes_) > 2 else ()
        folds = list(check_cv(self.cv, y, classifier=True).split(np.zeros(len(y)), y))
        scores = np.empty((len(folds), len(points)))
        decisions = np.full((len(points), len(y), *columns), np.nan)
        for i, (train, test) in enumerate(folds):
            if len(np.unique(y[train])) < len(self.classes_):
                raise InputError("a fold leaves out all bags of a class: take fewer folds")
            inside = None if weight is None else weight[train]
            for k, model in enumerate(self._along(points, bags[train], y[train], inside)):
                decisions[k, test] = model.decision_function(bags[test])
                scores[i, k] = score(model, bags[test], y[test])
        return scores, decisions


def _accuracy(model: Any, bags: Bags, y: NDArray[Any]) -> float:
    return float(accuracy_score(y, model.predict(bags)))


def _platt(decisions: Floats, y: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """(1 or n_classes, 2) slope and offset of each sigmoid. Bags that no fold left out take no part."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    seen = np.isfinite(columns).all(axis=1)
    names = classes if len(classes) > 2 else classes[1:]
    sides = ((y == name)[seen] for name in names)
    return np.array([_sigmoid(f, side) for f, side in zip(columns[seen].T, sides, strict=True)])


def _sigmoid(f: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Platt's targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), as two weighted copies of every bag."""
    n = int(positive.sum())
    target = np.where(positive, (n + 1) / (n + 2), 1 / (len(f) - n + 2))
    scale = np.abs(f).max() or 1.0  # the solver wants numbers around 1
    side = np.repeat([True, False], len(f))
    model = LogisticRegression(C=1e10, tol=1e-8, max_iter=1000)
    model.fit(np.tile(f / scale, 2)[:, None], side, np.concatenate([target, 1 - target]))
    return float(model.coef_[0, 0] / scale), float(model.intercept_[0])


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

    def _machine(self) -> LatentSVC:
        return LatentSVC()


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

    def _machine(self) -> SmoothLatentSVC:
        return SmoothLatentSVC()
