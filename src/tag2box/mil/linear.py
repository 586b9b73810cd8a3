"""`LinearClassifier`: what the two latent SVMs have in common."""

from dataclasses import KW_ONLY, dataclass
from inspect import cleandoc
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from tag2box.errors import InputError
from tag2box.mil.bags import Bags
from tag2box.mil.base import BagBase, InstanceClassifier
from tag2box.mil.objective import Affine, BagProblem, andrews_start
from tag2box.mil.validation import check_at_least, check_choice, check_positive, one_against_rest

Floats = NDArray[np.float64]
# θ, the trace of the objective, and the number of iterations
Solution = tuple[Floats, list[float], int]


@dataclass(eq=False, repr=False)
class LinearClassifier(InstanceClassifier):
    """A linear score of instances, one class against the rest; a subclass defines `_solve`."""

    C: float = 1.0
    _: KW_ONLY
    loss: str = "squared_hinge"
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    class_weight: Any = None
    init: Any = "andrews"
    warm_start: bool = False
    n_jobs: int | None = None
    max_iter: int = 1000
    tol: float = 1e-4

    losses: ClassVar[tuple[str, ...]]
    shared_docs = BagBase.shared_docs | {
        "C": cleandoc("""
            C : float, default=1.0
                The weight of the loss against the regularization ½‖w‖².
        """),
        "shared": cleandoc("""
            fit_intercept : bool, default=True
                Whether to fit an intercept.
            intercept_scaling : float, default=1.0
                The value of the constant feature that stands for the intercept. Its weight is regularized
                like the others, as in `sklearn.svm.LinearSVC`.
            class_weight : dict or "balanced", default=None
                The weight of each class, as in scikit-learn.
            init : {"andrews", "zeros"}, ndarray or tuple, default="andrews"
                The start: the weights of Andrews et al. (2003), zeros, `coef` or `(coef, intercept)`.
            warm_start : bool, default=False
                Whether to start from the solution of the last fit.
            n_jobs : int, default=None
                The number of threads for more than two classes. None means 1, -1 means one per core.
        """),
        "solution": cleandoc("""
            objective_ : float or ndarray of shape (n_classes,)
                The value of the objective at the solution.
            objective_trace_ : list of float, or list of such lists
                The objective at the start and after every iteration.
            n_iter_ : int or ndarray of shape (n_classes,)
                The number of iterations.
        """),
    }

    def _fit(self, bags: Bags, labels: NDArray[Any], weight: Floats | None) -> None:
        self._check_parameters()
        cost = self.C * (np.ones(len(bags)) if weight is None else weight)
        if self.class_weight is not None:
            cost *= compute_sample_weight(self.class_weight, labels)
        if (cost == 0).any():
            bags, labels, cost = bags[cost > 0], labels[cost > 0], cost[cost > 0]
        A = Affine(bags.X, self.intercept_scaling if self.fit_intercept else 0.0)
        signs = one_against_rest(labels, self.classes_)

        def solve(k: int) -> Solution:
            problem = BagProblem(A, bags.offsets, signs[k], cost)
            return self._solve(problem, self._start(problem, k))

        with A.few_threads():  # kernels and BLAS release the GIL: threads are enough
            jobs = Parallel(n_jobs=self.n_jobs, require="sharedmem")
            single = len(signs) == 1  # joblib takes as long as some iterations
            solutions = [solve(0)] if single else jobs(delayed(solve)(k) for k in range(len(signs)))
        self._set_solutions(solutions)

    def _instance_scores(self, bags: Bags) -> Floats:
        scores = np.asarray(bags.X @ self.coef_.T + self.intercept_, dtype=np.float64)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def _start(self, problem: BagProblem, k: int) -> Floats:
        if self.warm_start and hasattr(self, "coef_"):
            coef, intercept = self.coef_, self.intercept_
        elif isinstance(self.init, str):
            return np.zeros(problem.A.n_weights) if self.init == "zeros" else andrews_start(problem)
        else:
            coef, intercept = self.init if isinstance(self.init, tuple) else (self.init, 0.0)
        coef, bias = np.atleast_2d(coef), problem.A.bias
        if coef.ndim != 2 or k >= len(coef) or coef.shape[1] != self.n_features_in_:
            raise InputError(
                f"init must be coef or (coef, intercept) with {self.n_features_in_} weights for each class, "
                f"but coef has the shape {coef.shape}"
            )
        last = [np.resize(intercept, len(coef))[k] / bias] if bias > 0 else []
        return np.concatenate([coef[k], last]).astype(np.float64)

    def _set_solutions(self, solutions: list[Solution]) -> None:
        thetas, traces, n_iter = zip(*solutions, strict=True)
        theta = np.array(thetas)
        self.coef_ = theta[:, :-1] if self.fit_intercept else theta
        bias = theta[:, -1] if self.fit_intercept else np.zeros(len(theta))
        self.intercept_ = self.intercept_scaling * bias
        single = len(theta) == 1
        self.objective_trace_ = traces[0] if single else list(traces)
        self.objective_ = traces[0][-1] if single else np.array([trace[-1] for trace in traces])
        self.n_iter_ = n_iter[0] if single else np.array(n_iter)

    def _check_parameters(self) -> None:
        for name in ("C", "tol", "intercept_scaling"):
            check_positive(name, getattr(self, name))
        check_at_least(1, max_iter=self.max_iter)
        check_choice("loss", self.loss, self.losses)
        if isinstance(self.init, str) and self.init not in ("andrews", "zeros"):
            raise InputError(f"init must be andrews, zeros or weights, but it is {self.init!r}")

    def _solve(self, problem: BagProblem, theta: Floats) -> Solution:
        """Minimize the objective from `theta`."""
        raise NotImplementedError
