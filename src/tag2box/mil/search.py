"""Settings tried by cross-validation, with the decisions about the bags that each fold leaves out.

As `GridSearchCV`, but the steps of a pipeline before the last are fitted once for all settings of the last.

Those decisions give probabilities, P(y = +1 | f) = 1 / (1 + exp(-(a f + b))) (Platt 1999).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline

from tag2box.errors import InputError
from tag2box.mil.bags import Bags

Floats = NDArray[np.float64]
Labels = NDArray[Any]
# (1 or n_classes, 2) a and b: of the second of two classes, or of each against the rest.
Sigmoids = NDArray[np.float64]
Point = dict[str, Any]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


class SearchResult(NamedTuple):
    """scores: (n_folds, n_points). decisions: (n_points, n_bags[, n_classes]), NaN for bags in no fold."""

    scores: Floats
    decisions: Floats

    @property
    def best(self) -> int:
        """The point with the best mean score; the first among equals."""
        return int(self.scores.mean(axis=0).argmax())

    @property
    def best_decisions(self) -> Floats:
        """Its decisions, (n_bags[, n_classes])."""
        return np.asarray(self.decisions[self.best])


def folds_of(cv: Any, y: Labels) -> list[Fold]:
    """The folds that scikit-learn's `cv` means for bags with these labels."""
    return list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))


def fit_all(
    estimator: Any, points: Sequence[Point], train: Bags, y: Labels, test: Bags, weight: Floats | None
) -> Iterator[tuple[Any, Any]]:
    """At each point, the fitted last step of `estimator`, and `test` transformed by the steps before it."""
    front, back, prefix = _split(estimator)
    weights = {} if weight is None else {"sample_weight": weight}
    last = None
    for point in points:
        of_last = {key.removeprefix(prefix): value for key, value in point.items() if key.startswith(prefix)}
        before = {key: value for key, value in point.items() if not key.startswith(prefix)}
        if front is None:
            inside, outside = train, test
        elif before != last:
            transformer = clone(front).set_params(**before)
            inside, outside, last = transformer.fit_transform(train, y), transformer.transform(test), before
        yield clone(back).set_params(**of_last).fit(inside, y, **weights), outside


def cross_validate(
    estimator: Any,
    points: Sequence[Point],
    bags: Bags,
    y: Labels,
    folds: Sequence[Fold],
    weight: Floats | None = None,
    *,
    scoring: Any = None,
) -> SearchResult:
    """Scores and decisions at each point, fold by fold; scoring: as in scikit-learn, None is accuracy."""
    score = get_scorer(scoring or "accuracy")
    if not points:
        raise InputError("no settings to choose from: give at least one")
    classes = np.unique(y)
    columns = (len(classes),) if len(classes) > 2 else ()
    scores = np.empty((len(folds), len(points)))
    decisions = np.full((len(points), len(y), *columns), np.nan)
    for i, (train, test) in enumerate(folds):
        if len(np.unique(y[train])) < len(classes):
            raise InputError("a fold leaves out all bags of a class: take fewer folds")
        inside = None if weight is None else weight[train]
        models = fit_all(estimator, points, bags[train], y[train], bags[test], inside)
        for k, (model, outside) in enumerate(models):
            decisions[k, test] = model.decision_function(outside)
            scores[i, k] = score(model, outside, y[test])
    return SearchResult(scores, decisions)


def _split(estimator: Any) -> tuple[Any, Any, str]:
    """What comes before the last step, the last step, and the prefix of its parameters."""
    if not isinstance(estimator, Pipeline) or len(estimator) == 1:
        return None, estimator, ""
    return estimator[:-1], estimator[-1], f"{estimator.steps[-1][0]}__"


def fit_sigmoids(decisions: Floats, y: Labels, classes: Labels) -> Sigmoids:
    """The sigmoid of each column of `decisions`, (n_bags,) or (n_bags, n_classes); NaN takes no part."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    in_folds = np.isfinite(columns).all(axis=1)
    names = classes if len(classes) > 2 else classes[1:]
    sides = ((y == name)[in_folds] for name in names)
    return np.array([_sigmoid(f, side) for f, side in zip(columns[in_folds].T, sides, strict=True)])


def log_odds(decisions: Floats, sigmoids: Sigmoids) -> Floats:
    """(n_bags, 1 or n_classes) a f + b."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    return np.asarray(columns * sigmoids[:, 0] + sigmoids[:, 1])


def _sigmoid(f: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Platt's targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), as two weighted copies of every bag."""
    n = int(positive.sum())
    target = np.where(positive, (n + 1) / (n + 2), 1 / (len(f) - n + 2))
    scale = np.abs(f).max() or 1.0  # the solver wants numbers around 1
    side = np.repeat([True, False], len(f))
    model = LogisticRegression(C=1e10, tol=1e-8, max_iter=1000)
    model.fit(np.tile(f / scale, 2)[:, None], side, np.concatenate([target, 1 - target]))
    return float(model.coef_[0, 0] / scale), float(model.intercept_[0])
