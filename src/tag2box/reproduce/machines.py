"""The machines of Table 1: the paper's four columns, and for `--all` the classics and ours, with their grids.

A machine is a front (transformers of bags, each fitted once for all that comes behind it) and a back (an
estimator at each point of a small grid). Linear machines and statistics get instances that are centered and
of length 1, as in the paper; Gaussian kernels get z-scores, clipped, or text rows of length 1.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from tag2box.mil.affine import is_sparse
from tag2box.mil.andrews import MISVM, MiSVM
from tag2box.mil.bag_statistics import BagStatistics
from tag2box.mil.bags import Bags, PerInstance
from tag2box.mil.latent import LatentSVC
from tag2box.mil.latent_cv import path
from tag2box.mil.miles import MILES
from tag2box.mil.set_kernel import SetKernel, resolve_gamma
from tag2box.mil.smooth_latent import SmoothLatentSVC
from tag2box.mil.wrapper import BagWrapper
from tag2box.reproduce.mil_sets import CenterAndNormalize

__all__ = ["ALL", "COLUMNS", "MACHINES", "Machine"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
Point = dict[str, Any]

# The paper's settings; see its Table 1.
C_GRID = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
MU_GRID = (0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
TOL = 1e-3
# Widths of Gaussians, in units of scikit-learn's gamma="scale".
GAMMAS = (0.125, 0.5, 2.0)
SVM_CS = (1.0, 10.0, 100.0)
LINEAR_CS = (1.0, 10.0)
# z-scores are clipped here.
FAR = 3.0


@dataclass(frozen=True)
class Machine:
    """`front(train, **point)` is an unfitted transformer of bags, `back(**point)` what learns behind it.

    With `warm`, a back starts from its neighbor on the path, as `SmoothLatentSVCCV` does.
    """

    front: Callable[..., Any]
    back: Callable[..., Any]
    fronts: tuple[Point, ...] = ({},)
    backs: tuple[Point, ...] = ({},)
    warm: bool = False

    @property
    def grid(self) -> list[Point]:
        """All settings, in the order of `accuracies`."""
        return [before | behind for before in self.fronts for behind in self.backs]

    def accuracies(self, train: Bags, y: Labels, test: Bags, y_test: Labels) -> list[float]:
        """Accuracy on `test` at each point of the grid."""
        found: list[float] = []
        with warnings.catch_warnings():
            # A grid's corner that does not converge is one that does not get chosen.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for point in self.fronts:
                transformer = self.front(train, **point)
                inside = transformer.fit_transform(train)
                found += self._behind(inside, y, transformer.transform(test), y_test)
        return found

    def _behind(self, train: Any, y: Labels, test: Any, y_test: Labels) -> list[float]:
        model = None
        found = []
        for point in self.backs:
            if model is None or not self.warm:
                model = self.back(**point)
            model.set_params(**point if self.warm else {}).fit(train, y)
            found.append(float(np.mean(model.predict(test) == y_test)))
        return found


class Distances(TransformerMixin, BaseEstimator):
    """Rows to squared distances from the rows of the fit, in units of gamma="scale"."""

    def fit(self, X: Any, y: object = None) -> "Distances":  # noqa: ARG002
        """Keep the rows."""
        self.rows_, self.scale_ = X, resolve_gamma("scale", X)
        return self

    def transform(self, X: Any) -> Floats:
        """(n, n_fitted) distances."""
        return np.asarray(self.scale_ * euclidean_distances(X, self.rows_, squared=True))


class GaussianSVC(SVC):
    """`SVC` with a Gaussian kernel, on squared distances: many widths for one matrix."""

    def __init__(self, gamma: float = 1.0, C: float = 1.0) -> None:
        super().__init__(C=C, kernel="precomputed", gamma=gamma)

    def fit(self, D: Floats, y: Labels) -> "GaussianSVC":
        """Learn from (n, n) distances."""
        super().fit(np.exp(-self.gamma * D), y)
        return self

    def predict(self, D: Floats) -> Any:
        """Labels from (n, n_fitted) distances."""
        return super().predict(np.exp(-self.gamma * D))


def _centered(train: Bags) -> Any:  # noqa: ARG001
    return CenterAndNormalize()


def _scaler(train: Bags) -> Any:
    if is_sparse(train.X):
        return Normalizer()
    # A feature that hardly varies in the training part may stand far out elsewhere, and with it its bag.
    return make_pipeline(
        StandardScaler(), FunctionTransformer(np.clip, kw_args={"a_min": -FAR, "a_max": FAR})
    )


def _scaled_gamma(train: Bags, gamma: float) -> float:
    return gamma * resolve_gamma("scale", PerInstance(_scaler(train)).fit_transform(train).X)


def _set_kernel(train: Bags, gamma: float) -> Any:
    if is_sparse(train.X):  # text: no width was better than none
        return make_pipeline(PerInstance(Normalizer()), SetKernel("linear"))
    return make_pipeline(PerInstance(_scaler(train)), SetKernel(gamma=_scaled_gamma(train, gamma)))


def _miles(train: Bags, gamma: float) -> Any:
    return make_pipeline(PerInstance(_scaler(train)), MILES(gamma=_scaled_gamma(train, gamma)))


def _statistics(train: Bags, statistics: str) -> Any:
    rows = BagStatistics(tuple(statistics.split("+")))
    return make_pipeline(CenterAndNormalize(), rows, _scaler(train), Distances())


def _nystroem(train: Bags, gamma: float) -> Any:
    landmarks = min(300, train.n_instances)
    lift = Nystroem(gamma=_scaled_gamma(train, gamma), n_components=landmarks, random_state=0)
    return make_pipeline(PerInstance(_scaler(train)), PerInstance(lift))


def _linear(C: float) -> LinearSVC:
    return LinearSVC(C=C, random_state=0)


def _precomputed(C: float) -> SVC:
    return SVC(C=C, kernel="precomputed")


def _latent(bias: bool) -> Callable[..., Any]:
    return lambda **point: LatentSVC(**point, fit_intercept=bias, tol=TOL)


def _smooth(bias: bool, *, warm: bool = False) -> Callable[..., Any]:
    return lambda **point: SmoothLatentSVC(**point, fit_intercept=bias, tol=TOL, warm_start=warm)


def _points(**values: Sequence[Any]) -> tuple[Point, ...]:
    points: list[Point] = [{}]
    for name, column in values.items():
        points = [point | {name: value} for point in points for value in column]
    return tuple(points)


COLUMNS = ("LSVM w/o bias", "SLSVM w/o bias", "LSVM w/ bias", "SLSVM w/ bias")
STATISTICS = ("mean", "min+max", "mean+min+max+std")


def paper_machine(column: str) -> Machine:
    """One of the paper's four columns, each fit from Andrews' start."""
    bias = column.endswith("w/ bias")
    if column.startswith("SLSVM"):
        return Machine(_centered, _smooth(bias), backs=_points(C=C_GRID, mu=MU_GRID))
    return Machine(_centered, _latent(bias), backs=_points(C=C_GRID))


MACHINES = {column: paper_machine(column) for column in COLUMNS} | {
    "SIL": Machine(_centered, lambda C: BagWrapper(_linear(C)), backs=_points(C=LINEAR_CS)),
    "mi-SVM": Machine(_centered, lambda C: MiSVM(_linear(C)), backs=_points(C=LINEAR_CS)),
    "MI-SVM": Machine(_centered, lambda C: MISVM(_linear(C)), backs=_points(C=LINEAR_CS)),
    "NSK": Machine(_set_kernel, _precomputed, _points(gamma=(0.25, 1.0)), _points(C=SVM_CS)),
    "MILES": Machine(
        _miles,
        lambda C: LinearSVC(C=C, penalty="l1", dual=False, random_state=0),
        _points(gamma=(0.5,)),
        _points(C=LINEAR_CS),
    ),
    "statistics": Machine(
        _statistics, GaussianSVC, _points(statistics=STATISTICS), _points(gamma=GAMMAS, C=SVM_CS)
    ),
    "LSVM": Machine(_centered, _latent(True), backs=_points(C=(0.3, 1.0, 3.0, 10.0))),
    "SLSVM": Machine(
        _centered,
        _smooth(True, warm=True),
        backs=tuple(path((0.5, 2.0, 10.0), (0.3, 1.0, 3.0))),
        warm=True,
    ),
    "Nyström SLSVM": Machine(
        _nystroem,
        _smooth(True, warm=True),
        _points(gamma=(0.5,)),
        tuple(path((1.0, 10.0), (0.3, 1.0, 3.0))),
        warm=True,
    ),
}
ALL = tuple(name for name in MACHINES if name not in COLUMNS)
