"""What the estimators over bags have in common: checking, one against the rest, the start, and scoring."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from tag2box.errors import InputError
from tag2box.mil.affine import Affine, is_sparse
from tag2box.mil.bags import Bags, as_bags
from tag2box.mil.losses import loss_named
from tag2box.mil.objective import BagProblem, andrews_start
from tag2box.mil.smoothing import segment_max

__all__ = ["BagClassifier", "check_positive"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BagClassifier(ClassifierMixin, BaseEstimator):
    """A linear score of instances, the best of them the bag's; who inherits says how it is learned."""

    losses: tuple[str, ...]
    C: float
    loss: str
    fit_intercept: bool
    intercept_scaling: float
    class_weight: Any
    init: Any
    warm_start: bool
    max_iter: int
    tol: float
    n_jobs: int | None

    def fit(self, bags: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
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
        bags = _finite(as_bags(bags))
        labels = _labels(y, len(bags))
        self.n_features_in_ = bags.X.shape[1]
        self._check_parameters()
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError(f"only one class ({self.classes_[0]}) in y: bags of at least two are needed")
        cost = self.C * _weights(sample_weight, len(bags)) * compute_sample_weight(self.class_weight, labels)
        if (cost == 0).any():
            bags, labels, cost = bags[cost > 0], labels[cost > 0], cost[cost > 0]
        X, columns = _occupied(bags.X)
        A = Affine(X, self.intercept_scaling if self.fit_intercept else 0.0)
        problems = [
            BagProblem(A, bags.offsets, _one_against_rest(labels, name), cost)
            for name in (self.classes_ if len(self.classes_) > 2 else self.classes_[1:])
        ]

        def solve(problem: BagProblem, k: int) -> tuple[Floats, list[float], int]:
            return self._solve(problem, self._start(problem, columns, k))

        with A.few_threads():  # kernels and BLAS release the GIL: threads are enough
            jobs = (delayed(solve)(problem, k) for k, problem in enumerate(problems))
            solutions = Parallel(n_jobs=self.n_jobs, require="sharedmem")(jobs)
        self._keep(solutions, columns)
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
        bags = self._known(bags)
        scores = np.asarray(bags.X @ self.coef_.T + self.intercept_, dtype=np.float64)
        return scores[:, 0] if len(self.coef_) == 1 else scores

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
        bags = self._known(bags)
        return np.asarray(self._per_class(bags, lambda scores: self._bag_scores(scores, bags.offsets)))

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

    def _bag_scores(self, scores: Floats, offsets: Ints) -> Floats:
        return segment_max(scores, offsets)[0]

    def _per_class(self, bags: Bags, function: Callable[[Floats], Any]) -> Any:
        scores = self.instance_scores(bags)
        if scores.ndim == 1:
            return function(scores)
        return np.stack([function(column) for column in scores.T], axis=1)

    def _known(self, given: Any) -> Bags:
        check_is_fitted(self)
        bags = _finite(as_bags(given))
        if bags.X.shape[1] != self.n_features_in_:
            raise InputError(
                f"these bags have {bags.X.shape[1]} features, but the model knows {self.n_features_in_}"
            )
        return bags

    def _start(self, problem: BagProblem, columns: Ints | slice, k: int) -> Floats:
        if self.warm_start and hasattr(self, "coef_"):
            return self._given(problem.A, self.coef_, self.intercept_, columns, k)
        if not isinstance(self.init, str):
            coef, intercept = self.init if isinstance(self.init, tuple) else (self.init, 0.0)
            return self._given(problem.A, coef, intercept, columns, k)
        return np.zeros(problem.A.n_weights) if self.init == "zeros" else andrews_start(problem)

    def _given(self, A: Affine, coef: Any, intercept: Any, columns: Ints | slice, k: int) -> Floats:
        coef = np.atleast_2d(coef)
        if coef.ndim != 2 or k >= len(coef) or coef.shape[1] != self.n_features_in_:
            raise InputError(
                f"init must be coef or (coef, intercept) with {self.n_features_in_} weights for each class, "
                f"but coef has the shape {coef.shape}"
            )
        bias = [np.resize(intercept, len(coef))[k] / A.bias] if A.bias > 0 else []
        return np.concatenate([coef[k, columns], bias]).astype(np.float64)

    def _keep(self, solutions: list[Any], columns: Ints | slice) -> None:
        theta = np.array([solution[0] for solution in solutions])
        traces = [solution[1] for solution in solutions]
        bias = self.intercept_scaling * theta[:, -1] if self.fit_intercept else np.zeros(len(theta))
        self.coef_ = np.zeros((len(theta), self.n_features_in_))
        self.coef_[:, columns] = theta[:, :-1] if self.fit_intercept else theta
        self.intercept_ = bias
        single = len(theta) == 1
        self.objective_trace_ = traces[0] if single else traces
        self.objective_ = traces[0][-1] if single else np.array([trace[-1] for trace in traces])
        self.n_iter_ = solutions[0][2] if single else np.array([solution[2] for solution in solutions])

    def _check_parameters(self) -> None:
        for name in ("C", "tol", "intercept_scaling"):
            check_positive(name, getattr(self, name))
        if self.max_iter < 1:
            raise InputError(f"max_iter must be at least 1, but it is {self.max_iter}")
        loss_named(self.loss, self.losses)
        if isinstance(self.init, str) and self.init not in ("andrews", "zeros"):
            raise InputError(f"init must be andrews, zeros or weights, but it is {self.init!r}")

    def _solve(self, problem: BagProblem, theta: Floats) -> tuple[Floats, list[float], int]:
        """Minimize from `theta`: the solution, the objective's trace, the iterations."""
        raise NotImplementedError


def _one_against_rest(labels: NDArray[Any], name: Any) -> Floats:
    """+1 for the bags of class `name` and -1 for all others; both must occur."""
    sign = np.where(labels == name, 1.0, -1.0)
    if abs(sign.sum()) == len(sign):
        raise InputError(f"all bags with a weight are on one side of class {name}: add others")
    return sign


def _occupied(X: Any) -> tuple[Any, Ints | slice]:
    """X without its empty columns, and which are left: an empty one gets weight 0 in any case."""
    if not is_sparse(X):
        return X, slice(None)
    columns = np.unique(X.indices)
    return X[:, columns], columns


def _finite(bags: Bags) -> Bags:
    values = bags.X.data if is_sparse(bags.X) else bags.X
    if not np.isfinite(values).all():
        raise InputError("the instances hold a NaN or an infinity: clean or impute them first")
    return bags


def _labels(y: ArrayLike, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y must have one label per bag, ({n},), but its shape is {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("y holds a NaN or an infinity: leave bags without a label out")
    return labels


def _weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight must have one entry per bag, ({n},), but its shape is {weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("sample_weight must be finite and not negative")
    return weights


def check_positive(name: str, value: Any) -> None:
    """Refuse a parameter that is not a finite number above 0."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise InputError(f"{name} must be greater than 0, but it is {value}")
