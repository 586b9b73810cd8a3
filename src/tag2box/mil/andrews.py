"""mi-SVM and MI-SVM (Andrews, Tsochantaridis and Hofmann 2003) by their alternation, with any kernel.

Both look for labels of the instances in positive bags and a separation at once,

    min over labels  min over w  ½‖w‖² + C Σ ℓ(y_ij s(x_ij)),

and alternate: fit an SVM to the labels, then relabel by its scores, until the labels repeat. `MiSVM` labels
every instance, with at least one positive in each positive bag. `MISVM` keeps one instance of each positive
bag, its best; at first the mean. Every negative instance has a slack of its own; `LatentSVC` is MI-SVM with
one slack per negative bag, linear and without alternation on an SVM.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from inspect import cleandoc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from tag2box.mil.bag_statistics import segment_mean
from tag2box.mil.bags import Bags, as_csr, is_sparse
from tag2box.mil.base import BagBase, InstanceClassifier
from tag2box.mil.smoothing import segment_max
from tag2box.mil.validation import check_at_least, one_against_rest

Floats = NDArray[np.float64]
# What an SVM is fitted to: instances, their signs, and the bag of each.
TrainingSet = tuple[Any, Floats, NDArray[np.intp]]


@dataclass(eq=False, repr=False)
class Alternation(InstanceClassifier):
    """The alternation; a subclass says what the SVM is fitted to."""

    shared_docs = BagBase.shared_docs | {
        "parameters": cleandoc("""
            estimator : classifier, default=None
                The SVM, any classifier of rows with `decision_function`. None is `SVC(kernel="linear")`.
            max_iter : int, default=50
                The greatest number of rounds.

            Attributes
            ----------
            estimators_ : list of classifiers
                The fitted SVM, or one per class against the rest.
        """)
    }

    estimator: Any = None
    _: KW_ONLY
    max_iter: int = 50

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        check_at_least(1, max_iter=self.max_iter)
        signs = one_against_rest(labels, self.classes_)
        self.estimators_ = [self._alternate(bags, sign, weight) for sign in signs]

    def _instance_scores(self, bags: Bags) -> Floats:
        scores = np.stack([svm.decision_function(bags.X) for svm in self.estimators_], axis=1)
        return scores[:, 0] if len(self.estimators_) == 1 else scores

    def _alternate(self, bags: Bags, sign: Floats, weight: Floats | None) -> Any:
        states: list[bytes] = []
        scores = None
        for _ in range(self.max_iter):
            X, target, bag = self._training_set(bags, sign, scores)
            weights = {} if weight is None else {"sample_weight": weight[bag]}
            svm = clone(SVC(kernel="linear") if self.estimator is None else self.estimator)
            svm.fit(X, target, **weights)
            scores = np.asarray(svm.decision_function(bags.X), dtype=np.float64)
            state = self._state(bags, sign, scores)
            if state in states:  # the same labels as before, or a cycle of them
                return svm
            states.append(state)
        warnings.warn(
            f"labels still changed after {self.max_iter} rounds: raise max_iter",
            ConvergenceWarning,
            stacklevel=4,
        )
        return svm

    def _training_set(self, bags: Bags, sign: Floats, scores: Floats | None) -> TrainingSet:
        raise NotImplementedError

    def _state(self, bags: Bags, sign: Floats, scores: Floats) -> bytes:
        """What the next round will be fitted to."""
        raise NotImplementedError


class MiSVM(Alternation):
    """The mi-SVM of Andrews et al. (2003): every instance of a positive bag gets a label.

    Parameters
    ----------
    %(parameters)s
    %(classes)s

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from tag2box.mil import MiSVM, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> bool(MiSVM(SVC(C=10)).fit(bags, y).score(bags, y) > 0.9)
    True
    """

    def _training_set(self, bags: Bags, sign: Floats, scores: Floats | None) -> TrainingSet:
        bag = np.repeat(np.arange(len(bags)), bags.sizes)
        return bags.X, sign[bag] if scores is None else _imputed(bags, sign, scores), bag

    def _state(self, bags: Bags, sign: Floats, scores: Floats) -> bytes:
        return _imputed(bags, sign, scores).tobytes()


class MISVM(Alternation):
    """The MI-SVM of Andrews et al. (2003): one instance stands for each positive bag.

    Parameters
    ----------
    %(parameters)s
    %(classes)s

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from tag2box.mil import MISVM, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> bool(MISVM(SVC(C=10)).fit(bags, y).score(bags, y) > 0.9)
    True
    """

    def _training_set(self, bags: Bags, sign: Floats, scores: Floats | None) -> TrainingSet:
        positive = np.flatnonzero(sign > 0)
        negative = bags[sign < 0]
        chosen = segment_mean(bags[positive]) if scores is None else bags.X[_witness(bags, sign, scores)]
        stack: Any = sparse.vstack if is_sparse(bags.X) else np.vstack
        X = stack([chosen, negative.X])
        target = np.repeat([1.0, -1.0], [len(positive), negative.n_instances])
        bag = np.concatenate([positive, np.repeat(np.flatnonzero(sign < 0), negative.sizes)])
        return as_csr(X) if is_sparse(X) else X, target, bag

    def _state(self, bags: Bags, sign: Floats, scores: Floats) -> bytes:
        return _witness(bags, sign, scores).tobytes()


def _witness(bags: Bags, sign: Floats, scores: Floats) -> NDArray[np.intp]:
    return segment_max(scores, bags.offsets)[1][sign > 0]


def _imputed(bags: Bags, sign: Floats, scores: Floats) -> Floats:
    """The signs of the scores in positive bags, where the best instance is positive in any case; else -1."""
    target = np.where((scores > 0) & np.repeat(sign > 0, bags.sizes), 1.0, -1.0)
    target[_witness(bags, sign, scores)] = 1.0
    return target
