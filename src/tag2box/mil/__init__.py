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
    from tag2box.mil.latent import LatentSVC, SmoothLatentSVC
    from tag2box.mil.latent_cv import LatentSVCCV, SmoothLatentSVCCV
    from tag2box.mil.loading import load_mil
    from tag2box.mil.scaling import InstanceScaler, PerInstance
    from tag2box.mil.set_kernel import MILES, SetKernel
    from tag2box.mil.smoothing import simplex_projection, smoothed_max
    from tag2box.mil.stacking import BagStackingCV
    from tag2box.mil.toy import make_bags
    from tag2box.mil.wrapper import BagWrapper

__all__ = ["MILES", "MISVM", "BagStackingCV", "BagStatistics", "BagWrapper", "Bags", "InstanceScaler"]
__all__ += ["LatentSVC", "LatentSVCCV", "MiSVM", "PerInstance", "SetKernel", "SmoothLatentSVC"]
__all__ += ["SmoothLatentSVCCV", "check_bag_estimator", "load_mil", "make_bags", "simplex_projection"]
__all__ += ["smoothed_max"]

_MODULES = {
    "andrews": ("MISVM", "MiSVM"),
    "bag_statistics": ("BagStatistics",),
    "bags": ("Bags",),
    "checks": ("check_bag_estimator",),
    "latent": ("LatentSVC", "SmoothLatentSVC"),
    "latent_cv": ("LatentSVCCV", "SmoothLatentSVCCV"),
    "loading": ("load_mil",),
    "scaling": ("InstanceScaler", "PerInstance"),
    "set_kernel": ("MILES", "SetKernel"),
    "smoothing": ("simplex_projection", "smoothed_max"),
    "stacking": ("BagStackingCV",),
    "toy": ("make_bags",),
    "wrapper": ("BagWrapper",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box.mil' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.mil.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
