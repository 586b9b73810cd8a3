"""Single-instance learning: every instance inherits the label of its bag.

An instance classifier learns s(x) from all (x_ij, y_i). A bag's score pools those of its instances:

    max      max_j s_j
    mean     (1/n) Σ_j s_j
    softmax  Σ_j s_j e^(a s_j) / Σ_j e^(a s_j), from the mean (a = 0) to the maximum (a → ∞)
    noisy_or 1 - Π_j (1 - s_j), for probabilities: that not all instances fail (Maron and Lozano-Pérez 1998)
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from tag2box.errors import InputError
from tag2box.mil.bag_estimator import BagEstimator, bag_weights, check_choice
from tag2box.mil.bags import Bags
from tag2box.mil.smoothing import segment_max

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _mean(scores: Floats, offsets: Ints, sharpness: float) -> Floats:
    return _softmax(scores, offsets, 0 * sharpness)


def _max(scores: Floats, offsets: Ints, sharpness: float) -> Floats:  # noqa: ARG001
    return segment_max(scores, offsets)[0]


def _softmax(scores: Floats, offsets: Ints, sharpness: float) -> Floats:
    best = np.repeat(segment_max(scores, offsets)[0], np.diff(offsets))
    weights = np.exp(sharpness * (scores - best))  # at most 1
    total = np.add.reduceat(weights, offsets[:-1])
    return np.asarray(np.add.reduceat(weights * scores, offsets[:-1]) / total)


def _noisy_or(scores: Floats, offsets: Ints, sharpness: float) -> Floats:  # noqa: ARG001
    return np.asarray(1 - np.multiply.reduceat(1 - scores, offsets[:-1]))


POOLINGS: dict[str, Callable[[Floats, Ints, float], Floats]] = {
    "max": _max,
    "mean": _mean,
    "softmax": _softmax,
    "noisy_or": _noisy_or,
}


def _gives_probabilities(wrapper: Any) -> bool:
    return hasattr(wrapper.estimator, "predict_proba")


class BagWrapper(BagEstimator):
    """Make a classifier of bags from any classifier of instances (single-instance learning, SIL).

    The classifier learns from all instances, each with the label of its bag. The score of a bag pools the
    scores of its instances: their probabilities if the classifier has `predict_proba`, else its
    `decision_function`. `decision_function` of bags is the pooled probability less one half, so that 0
    divides two classes.

    Parameters
    ----------
    estimator : classifier
        A scikit-learn classifier of rows, such as `LogisticRegression()`.
    pooling : {"max", "mean", "softmax", "noisy_or"}, default="max"
        The score of a bag. "noisy_or" needs probabilities.
    sharpness : float, default=1.0
        With "softmax", 0 is the mean and a large number the maximum.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; of two classes, the second is the positive one.
    estimator_ : classifier
        The fitted classifier of instances.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    MiSVM : Lets the labels of instances in positive bags change.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from tag2box.mil import BagWrapper, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> model = BagWrapper(LogisticRegression(), pooling="mean").fit(bags, y)
    >>> bool(model.score(bags, y) > 0.8)
    True
    >>> model.predict_proba(bags).shape
    (60, 2)
    """

    def __init__(self, estimator: Any, *, pooling: str = "max", sharpness: float = 1.0) -> None:
        self.estimator = estimator
        self.pooling = pooling
        self.sharpness = sharpness

    def fit(self, bags: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "BagWrapper":
        """Learn from bags and one label per bag.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : array-like of shape (n_bags,)
            The label of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            The weight of each bag's instances, for classifiers that take weights.

        Returns
        -------
        BagWrapper
            The fitted estimator.
        """
        bags, labels = self._begin(bags, y)
        check_choice("pooling", self.pooling, tuple(POOLINGS))
        if self.pooling == "noisy_or" and not _gives_probabilities(self):
            raise InputError("noisy_or needs probabilities: take a classifier that has predict_proba")
        weights = {}
        if sample_weight is not None:
            weights["sample_weight"] = np.repeat(bag_weights(sample_weight, len(bags)), bags.sizes)
        self.estimator_ = clone(self.estimator).fit(bags.X, np.repeat(labels, bags.sizes), **weights)
        return self

    def _instance_scores(self, bags: Bags) -> Floats:
        if not _gives_probabilities(self):
            return np.asarray(self.estimator_.decision_function(bags.X), dtype=np.float64)
        scores = np.asarray(self.estimator_.predict_proba(bags.X), dtype=np.float64)
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def _decide(self, bags: Bags) -> Floats:
        """The pooled scores; of probabilities less one half, so that 0 divides two classes."""
        return super()._decide(bags) - (0.5 if _gives_probabilities(self) else 0.0)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, bags: Any) -> Floats:
        """Pool the probabilities of the instances.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            The pooled probability of each class; as calibrated as the classifier and the pooling are.
        """
        pooled = self.decision_function(bags) + 0.5
        if pooled.ndim == 1:
            return np.stack([1 - pooled, pooled], axis=1)
        return np.asarray(pooled / pooled.sum(axis=1, keepdims=True))

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        return POOLINGS[self.pooling](scores, offsets, self.sharpness)
