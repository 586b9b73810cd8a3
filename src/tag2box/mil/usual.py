"""The machines that `BagStackingCV` stacks by default, with their grids: pipelines of parts from here."""

from typing import Any

from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tag2box.mil.bag_statistics import BagStatistics
from tag2box.mil.gaussian import Distances, GaussianSVC
from tag2box.mil.per_instance import PerInstance
from tag2box.mil.scaling import InstanceScaler
from tag2box.mil.set_kernel import SetKernel
from tag2box.mil.smooth_latent import SmoothLatentSVC

# A machine, and the settings to choose from, as for `GridSearchCV`.
Choice = tuple[Any, dict[str, Any]]
SVM_CS = [1.0, 10.0, 100.0]


def usual_machines(*, text: bool) -> dict[str, Choice]:
    """By name; text: whether instances are mostly zeros."""
    return {"statistics": statistics("normalize"), "NSK": _set_kernel(text), "SLSVM": _smooth()}


def statistics(method: str) -> Choice:
    """Statistics of each bag, and an SVM with a Gaussian kernel; method: how instances are scaled."""
    machine = make_pipeline(
        PerInstance(InstanceScaler(method)),
        BagStatistics(),
        InstanceScaler(),
        Distances(),
        GaussianSVC(),
    )
    sets = [("mean",), ("min", "max"), ("mean", "min", "max", "std")]
    grid = {"bagstatistics__statistics": sets, "gaussiansvc__gamma": [0.125, 0.5, 2.0]}
    return machine, grid | {"gaussiansvc__C": SVM_CS}


def _set_kernel(text: bool) -> Choice:
    """The normalised set kernel and an SVM; on text no Gaussian was better than a linear kernel."""
    kernel = SetKernel("linear" if text else "rbf")
    machine = make_pipeline(PerInstance(InstanceScaler()), kernel, SVC(kernel="precomputed"))
    return machine, {"setkernel__gamma": [1.0] if text else [0.25, 1.0], "svc__C": SVM_CS}


def _smooth() -> Choice:
    """The smoothed latent SVM with a bias."""
    machine = make_pipeline(PerInstance(InstanceScaler("normalize")), SmoothLatentSVC(tol=1e-3))
    return machine, {"smoothlatentsvc__mu": [3.0, 1.0, 0.3], "smoothlatentsvc__C": [0.5, 2.0, 10.0]}
