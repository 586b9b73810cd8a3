"""Single-instance learning: every instance inherits the label of its bag.

An instance classifier learns s(x) from all (x_ij, y_i). A bag's score pools those of its instances:

    max      max_j s_j
    mean     (1/n) Σ_j s_j
    softmax  Σ_j s_j e^(a s_j) / Σ_j e^(a s_j), from the mean (a = 0) to the maximum (a → ∞)
    noisy_or 1 - Π_j (1 - s_j), for probabilities: that not all instances fail (Maron and Lozano-Pérez 1998)
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from tag2box.errors import InputError
from tag2box.mil.bags import Bags
from tag2box.mil.base import InstanceClassifier, ProbabilityMixin
from tag2box.mil.smoothing import segment_max
from tag2box.mil.validation import check_choice

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POOLINGS = ("max", "mean", "softmax", "noisy_or")


def _softmax(scores: Floats, offsets: Ints, sharpness: float) -> Floats:
    highest = np.repeat(segment_max(scores, offsets)[0], np.diff(offsets))
    weights = np.exp(sharpness * (scores - highest))  # at most 1
    total = np.add.reduceat(weights, offsets[:-1])
    return np.asarray(np.add.reduceat(weights * scores, offsets[:-1]) / total)


def _has_probabilities(wrapper: Any) -> bool:
    return hasattr(wrapper.estimator, "predict_proba")


@dataclass(eq=False, repr=False)
class BagWrapper(InstanceClassifier):
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
    estimator_ : classifier
        The fitted classifier of instances.
    %(classes)s

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

    estimator: Any
    _: KW_ONLY
    pooling: str = "max"
    sharpness: float = 1.0

    predict_proba = available_if(_has_probabilities)(ProbabilityMixin.predict_proba)

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        check_choice("pooling", self.pooling, POOLINGS)
        if self.pooling == "noisy_or" and not _has_probabilities(self):
            raise InputError("noisy_or needs probabilities: take a classifier that has predict_proba")
        weights = {} if weight is None else {"sample_weight": np.repeat(weight, bags.sizes)}
        self.estimator_ = clone(self.estimator).fit(bags.X, np.repeat(labels, bags.sizes), **weights)

    def _instance_scores(self, bags: Bags) -> Floats:
        if not _has_probabilities(self):
            return np.asarray(self.estimator_.decision_function(bags.X), dtype=np.float64)
        scores = np.asarray(self.estimator_.predict_proba(bags.X), dtype=np.float64)
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        if self.pooling == "max":
            return segment_max(scores, offsets)[0]
        if self.pooling == "noisy_or":
            return np.asarray(1 - np.multiply.reduceat(1 - scores, offsets[:-1]))
        return _softmax(scores, offsets, self.sharpness if self.pooling == "softmax" else 0.0)

    def _decide(self, bags: Bags) -> Floats:
        return super()._decide(bags) - (0.5 if _has_probabilities(self) else 0.0)

    def _probabilities(self, decisions: Floats) -> Floats:
        return decisions + 0.5
