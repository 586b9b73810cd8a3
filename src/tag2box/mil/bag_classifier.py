"""What the two latent SVMs have in common: one against the rest, the start, linear scores."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.parallel import Parallel, delayed

from tag2box.errors import InputError
from tag2box.mil.bag_estimator import (
    BagEstimator,
    bag_weights,
    check_choice,
    check_positive,
    one_against_rest,
)
from tag2box.mil.bags import Bags, is_sparse
from tag2box.mil.objective import Affine, BagProblem, andrews_start

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BagClassifier(BagEstimator):
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
        bags, labels = self._begin(bags, y)
        self._check_parameters()
        cost = self.C * bag_weights(sample_weight, len(bags))
        if self.class_weight is not None:
            cost *= compute_sample_weight(self.class_weight, labels)
        if (cost == 0).any():
            bags, labels, cost = bags[cost > 0], labels[cost > 0], cost[cost > 0]
        X, columns = _occupied(bags.X)
        A = Affine(X, self.intercept_scaling if self.fit_intercept else 0.0)
        problems = [
            BagProblem(A, bags.offsets, sign, cost) for sign in one_against_rest(labels, self.classes_)
        ]

        def solve(problem: BagProblem, k: int) -> tuple[Floats, list[float], int]:
            return self._solve(problem, self._start(problem, columns, k))

        with A.few_threads():  # kernels and BLAS release the GIL: threads are enough
            if len(problems) == 1:  # joblib takes as long as some iterations
                solutions = [solve(problems[0], 0)]
            else:
                jobs = (delayed(solve)(problem, k) for k, problem in enumerate(problems))
                solutions = Parallel(n_jobs=self.n_jobs, require="sharedmem")(jobs)
        self._keep(solutions, columns)
        return self

    def _instance_scores(self, bags: Bags) -> Floats:
        scores = np.asarray(bags.X @ self.coef_.T + self.intercept_, dtype=np.float64)
        return scores[:, 0] if len(self.coef_) == 1 else scores

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
        check_choice("loss", self.loss, self.losses)
        if isinstance(self.init, str) and self.init not in ("andrews", "zeros"):
            raise InputError(f"init must be andrews, zeros or weights, but it is {self.init!r}")

    def _solve(self, problem: BagProblem, theta: Floats) -> tuple[Floats, list[float], int]:
        """Minimize from `theta`: the solution, the objective's trace, the iterations."""
        raise NotImplementedError


def _occupied(X: Any) -> tuple[Any, Ints | slice]:
    """X without its empty columns, and which are left: an empty one gets weight 0 in any case."""
    if not is_sparse(X):
        return X, slice(None)
    columns = np.unique(X.indices)
    return X[:, columns], columns
