"""The machines of Table 1: the paper's four columns, and for `--all` the classics and ours, with their grids.

A machine is a pipeline of bags and the settings to choose from, as for `GridSearchCV`. Linear machines and
statistics get instances that are centered and of length 1, as in the paper; Gaussian kernels and
`z statistics` get z-scores, clipped, or text rows of length 1 (`InstanceScaler`).
"""

from typing import Any

from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from tag2box.mil.andrews import MISVM, MiSVM
from tag2box.mil.latent import LatentSVC, SmoothLatentSVC
from tag2box.mil.scaling import InstanceScaler, PerInstance
from tag2box.mil.set_kernel import MILES
from tag2box.mil.stacking import Choice, statistics, usual_machines
from tag2box.mil.wrapper import BagWrapper

# The paper's settings; see its Table 1.
C_GRID = [0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0]
MU_GRID = [0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0]
TOL = 1e-3
COLUMNS = ("LSVM w/o bias", "SLSVM w/o bias", "LSVM w/ bias", "SLSVM w/ bias")
ALL = (
    *("SIL", "mi-SVM", "MI-SVM", "LSVM", "SLSVM", "Nyström SLSVM", "NSK", "MILES"),
    *("statistics", "z statistics"),
)
# What `BagStackingCV` makes of these, from their cells.
STACKED = {"stacked": tuple(usual_machines(text=False))}


def _linear(machine: Any, **grid: Any) -> Choice:
    """A linear machine of centered rows of length 1, and the grid of its own parameters."""
    pipeline = make_pipeline(PerInstance(InstanceScaler("normalize")), machine)
    return pipeline, {f"{pipeline.steps[-1][0]}__{name}": values for name, values in grid.items()}


def _paper(column: str) -> Choice:
    bias = column.endswith("w/ bias")
    if column.startswith("SLSVM"):
        return _linear(SmoothLatentSVC(fit_intercept=bias, tol=TOL), C=C_GRID, mu=MU_GRID)
    return _linear(LatentSVC(fit_intercept=bias, tol=TOL), C=C_GRID)


def _nystroem() -> Choice:
    lift = PerInstance(Nystroem(gamma=0.5, n_components=300, random_state=0))
    pipeline = make_pipeline(PerInstance(InstanceScaler()), lift, SmoothLatentSVC(tol=TOL))
    return pipeline, {"smoothlatentsvc__mu": [3.0, 1.0, 0.3], "smoothlatentsvc__C": [1.0, 10.0]}


def _miles() -> Choice:
    # On text liblinear is not done after 1000 passes either, and takes four times as long.
    svm = LinearSVC(penalty="l1", dual=False, max_iter=200, random_state=0)
    return make_pipeline(PerInstance(InstanceScaler()), MILES(gamma=0.5), svm), {"linearsvc__C": [1.0, 10.0]}


def machines(*, text: bool) -> dict[str, Choice]:
    """Each column of the table; text: whether the instances are mostly zeros."""
    svm, Cs = LinearSVC(random_state=0), [1.0, 10.0]
    return {column: _paper(column) for column in COLUMNS} | {
        "SIL": _linear(BagWrapper(svm), estimator__C=Cs),
        "mi-SVM": _linear(MiSVM(svm), estimator__C=Cs),
        "MI-SVM": _linear(MISVM(svm), estimator__C=Cs),
        "LSVM": _linear(LatentSVC(tol=TOL), C=[0.3, 1.0, 3.0, 10.0]),
        "Nyström SLSVM": _nystroem(),
        "MILES": _miles(),
        "z statistics": statistics("standardize"),
        **usual_machines(text=text),
    }
