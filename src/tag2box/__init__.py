"""tag2box: image tags in, boxes and an object detector out. Nobody draws a box.

Public names are loaded at their first use, so that `import tag2box` alone is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tag2box.bags import Bags, PerInstance
    from tag2box.boxes import nms, thin
    from tag2box.contrast import contrast
    from tag2box.cover import Cover, CoverGraph, cover_graph, greedy_cover
    from tag2box.detections import Detections, detect_windows
    from tag2box.detector import Detector
    from tag2box.errors import InputError, Tag2BoxError
    from tag2box.evaluation import CorLoc, Scores, corloc, evaluate
    from tag2box.features import Features, FeaturesConfig, find_features, find_projection, window_features
    from tag2box.formats.results import read_detections
    from tag2box.formats.writing import write_detections
    from tag2box.images import ImageSet, read_images
    from tag2box.latent import LatentSVC, SmoothLatentSVC
    from tag2box.mining import negative_mining
    from tag2box.neighbors import Neighbors, group_neighbors, neighbor_blocks
    from tag2box.pipeline import Config, Tag2Box
    from tag2box.smoothing import simplex_projection, smoothed_max
    from tag2box.windows import Windows, WindowsConfig, find_windows, selective_search

__all__ = [
    "Bags",
    "Config",
    "CorLoc",
    "Cover",
    "CoverGraph",
    "Detections",
    "Detector",
    "Features",
    "FeaturesConfig",
    "ImageSet",
    "InputError",
    "LatentSVC",
    "Neighbors",
    "PerInstance",
    "Scores",
    "SmoothLatentSVC",
    "Tag2Box",
    "Tag2BoxError",
    "Windows",
    "WindowsConfig",
    "__version__",
    "contrast",
    "corloc",
    "cover_graph",
    "detect_windows",
    "evaluate",
    "find_features",
    "find_projection",
    "find_windows",
    "greedy_cover",
    "group_neighbors",
    "negative_mining",
    "neighbor_blocks",
    "nms",
    "read_detections",
    "read_images",
    "selective_search",
    "simplex_projection",
    "smoothed_max",
    "thin",
    "window_features",
    "write_detections",
]

_HOME = {
    "Bags": "bags",
    "Config": "pipeline",
    "CorLoc": "evaluation",
    "Cover": "cover",
    "CoverGraph": "cover",
    "Detections": "detections",
    "Detector": "detector",
    "Features": "features",
    "FeaturesConfig": "features",
    "ImageSet": "images",
    "InputError": "errors",
    "LatentSVC": "latent",
    "Neighbors": "neighbors",
    "PerInstance": "bags",
    "Scores": "evaluation",
    "SmoothLatentSVC": "latent",
    "Tag2Box": "pipeline",
    "Tag2BoxError": "errors",
    "Windows": "windows",
    "WindowsConfig": "windows",
    "contrast": "contrast",
    "corloc": "evaluation",
    "cover_graph": "cover",
    "detect_windows": "detections",
    "evaluate": "evaluation",
    "find_features": "features",
    "find_projection": "features",
    "find_windows": "windows",
    "greedy_cover": "cover",
    "group_neighbors": "neighbors",
    "negative_mining": "mining",
    "neighbor_blocks": "neighbors",
    "nms": "boxes",
    "read_detections": "formats.results",
    "read_images": "images",
    "selective_search": "windows",
    "simplex_projection": "smoothing",
    "smoothed_max": "smoothing",
    "thin": "boxes",
    "window_features": "features",
    "write_detections": "formats.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
