"""Settings tried by cross-validation, with the decisions about the bags that each fold leaves out.

As `GridSearchCV`, but the steps of a pipeline before the last are fitted once for all settings of the last,
and an estimator that can start warm visits the settings as a path.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline

from tag2box.errors import InputError
from tag2box.mil.bags import Bags

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Point = dict[str, Any]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
Scorer = Callable[[Any, Any, Labels], float]


class SearchResult(NamedTuple):
    """scores: (n_folds, n_points). decisions: (n_points, n_bags[, n_classes]), NaN for bags in no fold."""

    scores: Floats
    decisions: Floats

    @property
    def best(self) -> int:
        """The point with the best mean score; the first among equals."""
        return int(self.scores.mean(axis=0).argmax())

    @property
    def best_score(self) -> float:
        """Its mean score."""
        return float(self.scores.mean(axis=0).max())

    @property
    def best_decisions(self) -> Floats:
        """Its decisions, (n_bags[, n_classes])."""
        return np.asarray(self.decisions[self.best])


def folds_of(cv: Any, y: Labels) -> list[Fold]:
    """The folds that scikit-learn's `cv` means for bags with these labels."""
    return list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))


def accuracy(model: Any, bags: Any, y: Labels) -> float:
    """The share of bags whose label is right."""
    return float(accuracy_score(y, model.predict(bags)))


def fit_path(
    estimator: Any,
    points: Sequence[Point],
    train: Bags,
    y: Labels,
    test: Bags,
    weight: Floats | None = None,
    *,
    warm: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """At each point, the fitted last step of `estimator`, and `test` transformed by the steps before it.

    warm: one object is fitted at all points, and each fit starts from the last.
    """
    front, back, prefix = _split(estimator)
    weights = {} if weight is None else {"sample_weight": weight}
    model, last = clone(back), None
    for point in points:
        of_last = {key.removeprefix(prefix): value for key, value in point.items() if key.startswith(prefix)}
        before = {key: value for key, value in point.items() if not key.startswith(prefix)}
        if front is None:
            inside, outside = train, test
        elif before != last:
            transformer = clone(front).set_params(**before)
            inside, outside, last = transformer.fit_transform(train, y), transformer.transform(test), before
        model = model.set_params(warm_start=True) if warm else clone(back)
        yield model.set_params(**of_last).fit(inside, y, **weights), outside


def cross_validate(
    estimator: Any,
    points: Sequence[Point],
    bags: Bags,
    y: Labels,
    folds: Sequence[Fold],
    weight: Floats | None = None,
    *,
    score: Scorer = accuracy,
    warm: bool = False,
) -> SearchResult:
    """Scores and decisions at each point, fold by fold."""
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
        models = fit_path(estimator, points, bags[train], y[train], bags[test], inside, warm=warm)
        for k, (model, outside) in enumerate(models):
            decisions[k, test] = model.decision_function(outside)
            scores[i, k] = score(model, outside, y[test])
    return SearchResult(scores, decisions)


def _split(estimator: Any) -> tuple[Any, Any, str]:
    """What comes before the last step, the last step, and the prefix of its parameters."""
    if not isinstance(estimator, Pipeline) or len(estimator) == 1:
        return None, estimator, ""
    return estimator[:-1], estimator[-1], f"{estimator.steps[-1][0]}__"
