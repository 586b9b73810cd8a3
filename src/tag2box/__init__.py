"""tag2box: image tags in, boxes and an object detector out. Nobody draws a box.

Public names are loaded at their first use, so that `import tag2box` alone is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tag2box.bags import Bags, PerInstance
    from tag2box.boxes import nms, thin
    from tag2box.detections import Detections, detect_windows
    from tag2box.errors import InputError, Tag2BoxError
    from tag2box.evaluation import CorLoc, Scores, corloc, evaluate
    from tag2box.features import Features, FeaturesConfig, find_features, find_projection, window_features
    from tag2box.images import ImageSet, read_images
    from tag2box.latent import LatentSVC, SmoothLatentSVC
    from tag2box.smoothing import simplex_projection, smoothed_max
    from tag2box.windows import Windows, WindowsConfig, find_windows, selective_search

__all__ = [
    "Bags",
    "CorLoc",
    "Detections",
    "Features",
    "FeaturesConfig",
    "ImageSet",
    "InputError",
    "LatentSVC",
    "PerInstance",
    "Scores",
    "SmoothLatentSVC",
    "Tag2BoxError",
    "Windows",
    "WindowsConfig",
    "__version__",
    "corloc",
    "detect_windows",
    "evaluate",
    "find_features",
    "find_projection",
    "find_windows",
    "nms",
    "read_images",
    "selective_search",
    "simplex_projection",
    "smoothed_max",
    "thin",
    "window_features",
]

_HOME = {
    "Bags": "bags",
    "CorLoc": "evaluation",
    "Detections": "detections",
    "Features": "features",
    "FeaturesConfig": "features",
    "ImageSet": "images",
    "InputError": "errors",
    "LatentSVC": "latent",
    "PerInstance": "bags",
    "Scores": "evaluation",
    "SmoothLatentSVC": "latent",
    "Tag2BoxError": "errors",
    "Windows": "windows",
    "WindowsConfig": "windows",
    "corloc": "evaluation",
    "detect_windows": "detections",
    "evaluate": "evaluation",
    "find_features": "features",
    "find_projection": "features",
    "find_windows": "windows",
    "nms": "boxes",
    "read_images": "images",
    "selective_search": "windows",
    "simplex_projection": "smoothing",
    "smoothed_max": "smoothing",
    "thin": "boxes",
    "window_features": "features",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
