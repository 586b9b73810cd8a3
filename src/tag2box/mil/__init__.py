"""Multiple-instance learning: bags, and scikit-learn estimators that learn from them. Stands alone.

Names are loaded at their first use, so that `import tag2box.mil` alone is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tag2box.mil.andrews import MISVM, MiSVM
    from tag2box.mil.bag_statistics import BagStatistics
    from tag2box.mil.bags import Bags
    from tag2box.mil.checks import check_bag_estimator
    from tag2box.mil.latent import LatentSVC
    from tag2box.mil.latent_cv import LatentSVCCV, SmoothLatentSVCCV
    from tag2box.mil.loading import load_mil
    from tag2box.mil.per_instance import PerInstance
    from tag2box.mil.scaling import InstanceScaler
    from tag2box.mil.set_kernel import MILES, SetKernel
    from tag2box.mil.smooth_latent import SmoothLatentSVC
    from tag2box.mil.smoothing import simplex_projection, smoothed_max
    from tag2box.mil.stacking import BagStackingCV
    from tag2box.mil.toy import make_bags
    from tag2box.mil.wrapper import BagWrapper

__all__ = [
    "MILES",
    "MISVM",
    "BagStackingCV",
    "BagStatistics",
    "BagWrapper",
    "Bags",
    "InstanceScaler",
    "LatentSVC",
    "LatentSVCCV",
    "MiSVM",
    "PerInstance",
    "SetKernel",
    "SmoothLatentSVC",
    "SmoothLatentSVCCV",
    "check_bag_estimator",
    "load_mil",
    "make_bags",
    "simplex_projection",
    "smoothed_max",
]

_HOME = {
    "BagStackingCV": "stacking",
    "BagStatistics": "bag_statistics",
    "BagWrapper": "wrapper",
    "Bags": "bags",
    "InstanceScaler": "scaling",
    "LatentSVC": "latent",
    "LatentSVCCV": "latent_cv",
    "MILES": "set_kernel",
    "MISVM": "andrews",
    "MiSVM": "andrews",
    "PerInstance": "per_instance",
    "SetKernel": "set_kernel",
    "SmoothLatentSVC": "smooth_latent",
    "SmoothLatentSVCCV": "latent_cv",
    "check_bag_estimator": "checks",
    "load_mil": "loading",
    "make_bags": "toy",
    "simplex_projection": "smoothing",
    "smoothed_max": "smoothing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box.mil' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.mil.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
