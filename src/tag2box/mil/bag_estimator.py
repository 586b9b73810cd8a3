"""The contract of every classifier of bags, and the checks that all of them share.

A machine says how bags are scored (`_decide`): `decision_function` and `predict` follow. One that scores
instances says how (`_instance_scores`), and how a bag's score is made of its instances' (`_bag_scores`): then
`instance_scores` and `witness` follow, too.
"""

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tag2box.errors import InputError
from tag2box.mil.bags import Bags, as_bags, is_sparse
from tag2box.mil.smoothing import segment_max

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BagDecider(ClassifierMixin, BaseEstimator):
    """A classifier of bags by a score of each."""

    classes_: NDArray[Any]
    n_features_in_: int

    def decision_function(self, bags: Any) -> Floats:
        """Score every bag.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            The score of each bag.
        """
        return self._decide(self._known(bags))

    def predict(self, bags: Any) -> NDArray[Any]:
        """Predict the label of every bag.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            The labels.
        """
        scores = self.decision_function(bags)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _decide(self, bags: Bags) -> Floats:
        raise NotImplementedError

    def _begin(self, bags: Any, y: ArrayLike) -> tuple[Bags, NDArray[Any]]:
        """What `fit` is given, checked; the classes and the number of features are noted."""
        checked = finite_bags(bags)
        labels = bag_labels(y, len(checked))
        self.classes_ = classes_of(labels)
        self.n_features_in_ = checked.X.shape[1]
        return checked, labels

    def _known(self, bags: Any) -> Bags:
        check_is_fitted(self)
        return known_bags(bags, self.n_features_in_)


class BagEstimator(BagDecider):
    """A classifier of bags by the scores of their instances."""

    def instance_scores(self, bags: Any) -> Floats:
        """Score every instance.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
            The score of each instance.
        """
        return self._instance_scores(self._known(bags))

    def witness(self, bags: Any) -> NDArray[np.intp]:
        """Find the best instance of every bag.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            The rows of `bags.X` with the highest scores.
        """
        bags = self._known(bags)
        return np.asarray(self._per_class(bags, lambda scores: segment_max(scores, bags.offsets)[1]))

    def _instance_scores(self, bags: Bags) -> Floats:
        raise NotImplementedError

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        return segment_max(scores, offsets)[0]

    def _decide(self, bags: Bags) -> Floats:
        return np.asarray(self._per_class(bags, lambda scores: self._bag_scores(scores, bags.offsets)))

    def _per_class(self, bags: Bags, function: Callable[[Floats], Any]) -> Any:
        scores = self._instance_scores(bags)
        if scores.ndim == 1:
            return function(scores)
        return np.stack([function(column) for column in scores.T], axis=1)


def finite_bags(bags: Any) -> Bags:
    """`bags` as `Bags`; one with a NaN or an infinity is refused."""
    checked = as_bags(bags)
    values = checked.X.data if is_sparse(checked.X) else checked.X
    if not np.isfinite(values).all():
        raise InputError("the instances hold a NaN or an infinity: clean or impute them first")
    return checked


def known_bags(bags: Any, n_features: int) -> Bags:
    """`finite_bags` of the number of features that a model knows."""
    checked = finite_bags(bags)
    if (n := checked.X.shape[1]) != n_features:
        raise InputError(f"these bags have {n} features, but the model knows {n_features}")
    return checked


def bag_labels(y: ArrayLike, n: int) -> NDArray[Any]:
    """`y` as an array of one label per bag."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y must have one label per bag, ({n},), but its shape is {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("y holds a NaN or an infinity: leave bags without a label out")
    return labels


def classes_of(labels: NDArray[Any]) -> NDArray[Any]:
    """The classes among the labels, in order; two are the least."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise InputError(f"only one class ({classes[0]}) in y: bags of at least two are needed")
    return np.asarray(classes)


def bag_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """One weight per bag; 1 where none is given."""
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight must have one entry per bag, ({n},), but its shape is {weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("sample_weight must be finite and not negative")
    return weights


def one_against_rest(labels: NDArray[Any], classes: NDArray[Any]) -> list[Floats]:
    """For each class +1 and -1 per bag; of two classes for the second alone. Both signs must occur."""
    names = classes if len(classes) > 2 else classes[1:]
    signs = [np.where(labels == name, 1.0, -1.0) for name in names]
    for name, sign in zip(names, signs, strict=True):
        if abs(sign.sum()) == len(sign):
            raise InputError(f"all bags with a weight are on one side of class {name}: add others")
    return signs


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Refuse a name that is not among those allowed."""
    choices = tuple(allowed)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, but it is {value!r}")


def check_at_least(low: float, **values: float) -> None:
    """Refuse numbers below `low`, and NaN."""
    for name, value in values.items():
        if not value >= low:
            raise InputError(f"{name} must be at least {low}, but it is {value}")


def check_positive(name: str, value: Any) -> None:
    """Refuse a parameter that is not a finite number above 0."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise InputError(f"{name} must be greater than 0, but it is {value}")
