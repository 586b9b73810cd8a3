"""Base classes of the estimators of bags, with the docstrings that they share.

A classifier of bags says how bags are scored (`_decide`); `decision_function` and `predict` follow. One that
scores instances says how (`_instance_scores`), and how the score of a bag follows from those of its instances
(`_bag_scores`); `instance_scores` and `witness` follow, too.
"""

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tag2box.errors import InputError
from tag2box.mil.bags import Bags
from tag2box.mil.smoothing import segment_max
from tag2box.mil.validation import bag_labels, bag_weights, finite_bags

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])


def takes_bags(returns: str, what: str) -> Callable[[F], F]:
    """Add the sections of numpydoc to a method that takes bags alone."""
    sections = f"""

Parameters
----------
bags : Bags or list of matrices
    The bags.

Returns
-------
{returns}
    {what}
"""

    def document(method: F) -> F:
        method.__doc__ = f"{method.__doc__}{sections}"
        return method

    return document


class BagBase(BaseEstimator):
    """An estimator whose docstring may name lines of `shared_docs`, as "%(classes)s"."""

    n_features_in_: int
    shared_docs: ClassVar[dict[str, str]] = {
        "classes": cleandoc("""
            classes_ : ndarray of shape (n_classes,)
                The labels; of two classes, the second is the positive one.
            n_features_in_ : int
                The number of features.
        """),
        "linear": cleandoc("""
            coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
                The weights.
            intercept_ : ndarray of shape (1,) or (n_classes,)
                The intercept of each row of `coef_`.
        """),
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            cls.__doc__ = cleandoc(cls.__doc__)
            for name, lines in cls.shared_docs.items():
                cls.__doc__ = cls.__doc__.replace(f"%({name})s", lines)

    def _check_bags(self, bags: Any) -> Bags:
        """`bags` as `Bags` of the features that the fitted estimator knows."""
        check_is_fitted(self)
        checked = finite_bags(bags)
        if (n := checked.X.shape[1]) != self.n_features_in_:
            raise InputError(f"these bags have {n} features, but the model knows {self.n_features_in_}")
        return checked


class BagTransformer(TransformerMixin, BagBase):
    """A transformer of bags; a subclass defines `_fit` and `_transform`."""

    def fit(self, bags: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn from bags without labels.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : None
            Ignored, as in scikit-learn.

        Returns
        -------
        self : transformer
            The fitted transformer.
        """
        checked = self._check_first(bags)
        self.n_features_in_ = checked.X.shape[1]
        self._fit(checked)
        return self

    @takes_bags("ndarray or CSR array of shape (n_bags, n_features_out), or Bags", "The transformed bags.")
    def transform(self, bags: Any) -> Any:
        """Transform bags."""
        return self._transform(self._check_bags(bags))

    def _check_first(self, bags: Any) -> Bags:
        return finite_bags(bags)

    def _fit(self, bags: Bags) -> None:
        raise NotImplementedError

    def _transform(self, bags: Bags) -> Any:
        raise NotImplementedError


class BagClassifier(ClassifierMixin, BagBase):
    """A classifier of bags by a score of each; a subclass defines `_decide`."""

    classes_: NDArray[Any]

    @takes_bags("ndarray of shape (n_bags,) or (n_bags, n_classes)", "The score of each bag.")
    def decision_function(self, bags: Any) -> Floats:
        """Score every bag."""
        return self._decide(self._check_bags(bags))

    @takes_bags("ndarray of shape (n_bags,)", "The labels.")
    def predict(self, bags: Any) -> NDArray[Any]:
        """Predict the label of every bag."""
        scores = self.decision_function(bags)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _decide(self, bags: Bags) -> Floats:
        raise NotImplementedError

    def _check_training(self, bags: Any, y: ArrayLike) -> tuple[Bags, NDArray[Any]]:
        """The bags and labels of a fit; sets the classes and the number of features."""
        checked = finite_bags(bags)
        labels = bag_labels(y, len(checked))
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError(f"only one class ({self.classes_[0]}) in y: bags of at least two are needed")
        self.n_features_in_ = checked.X.shape[1]
        return checked, labels


class InstanceClassifier(BagClassifier):
    """A classifier of bags by the scores of their instances; a subclass defines `_fit`."""

    def fit(self, bags: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from bags and one label per bag.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : array-like of shape (n_bags,)
            The label of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            The weight of each bag; a weight of 2 is the bag twice.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        checked, labels = self._check_training(bags, y)
        weight = None if sample_weight is None else bag_weights(sample_weight, len(checked))
        self._fit(checked, labels, weight)
        return self

    @takes_bags("ndarray of shape (n_instances,) or (n_instances, n_classes)", "The score of each instance.")
    def instance_scores(self, bags: Any) -> Floats:
        """Score every instance."""
        return self._instance_scores(self._check_bags(bags))

    @takes_bags(
        "ndarray of shape (n_bags,) or (n_bags, n_classes)", "The rows of `bags.X` with the best scores."
    )
    def witness(self, bags: Any) -> NDArray[np.intp]:
        """Find the best instance of every bag."""
        bags = self._check_bags(bags)
        return np.asarray(self._per_class(bags, lambda scores: segment_max(scores, bags.offsets)[1]))

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        raise NotImplementedError

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


class ProbabilityMixin:
    """`predict_proba` of a classifier of bags by its `_probabilities`, of the last class or of each."""

    @takes_bags("ndarray of shape (n_bags, n_classes)", "The probabilities.")
    def predict_proba(self: Any, bags: Any) -> Floats:
        """Predict the probability of every class."""
        likely = self._probabilities(self.decision_function(bags))
        if likely.ndim == 1:
            return np.stack([1 - likely, likely], axis=1)
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))
