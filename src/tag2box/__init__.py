"""tag2box: image tags in, boxes and an object detector out. Nobody draws a box.

Public names are loaded at their first use, so that `import tag2box` alone is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tag2box._version import __version__

if TYPE_CHECKING:
    from tag2box.boxes import nms
    from tag2box.config import Config
    from tag2box.cover.config import CoverConfig
    from tag2box.cover.graph import cover_graph
    from tag2box.cover.greedy import Cover, greedy_cover
    from tag2box.cover.mining import negative_mining
    from tag2box.data.formats.fiftyone_samples import read_fiftyone
    from tag2box.data.reading import read_images
    from tag2box.description.config import FeaturesConfig, MapsConfig
    from tag2box.description.describe import describe
    from tag2box.description.description import Description
    from tag2box.description.record import Described
    from tag2box.detection.config import DetectConfig
    from tag2box.detection.detections import Detections
    from tag2box.detection.detector import Detector
    from tag2box.detection.reading import read_detections
    from tag2box.detection.suppression import detect_windows
    from tag2box.detector.config import DetectorConfig
    from tag2box.errors import InputError, Tag2BoxError
    from tag2box.evaluation.record import CorLoc, Scores
    from tag2box.evaluation.scores import corloc, evaluate
    from tag2box.exports.writing import write_detections
    from tag2box.images import ImageSet, Truth
    from tag2box.mil.bags import Bags
    from tag2box.mil.latent import LatentSVC, SmoothLatentSVC
    from tag2box.mil.scaling import PerInstance
    from tag2box.mil.smoothing import simplex_projection, smoothed_max
    from tag2box.neighbors.search import Neighbors, group_neighbors
    from tag2box.run.estimator import Tag2Box
    from tag2box.training.initial import InitialConfig
    from tag2box.training.refinement import RefineConfig
    from tag2box.training.retraining import RetrainConfig
    from tag2box.training.two_stream import TwoStreamConfig
    from tag2box.windows.record import Windows
    from tag2box.windows.search import WindowsConfig, find_windows, selective_search

__all__ = [
    "Bags",
    "Config",
    "CorLoc",
    "Cover",
    "CoverConfig",
    "Described",
    "Description",
    "DetectConfig",
    "Detections",
    "Detector",
    "DetectorConfig",
    "FeaturesConfig",
    "ImageSet",
    "InitialConfig",
    "InputError",
    "LatentSVC",
    "MapsConfig",
    "Neighbors",
    "PerInstance",
    "RefineConfig",
    "RetrainConfig",
    "Scores",
    "SmoothLatentSVC",
    "Tag2Box",
    "Tag2BoxError",
    "Truth",
    "TwoStreamConfig",
    "Windows",
    "WindowsConfig",
    "__version__",
    "corloc",
    "cover_graph",
    "describe",
    "detect_windows",
    "evaluate",
    "find_windows",
    "greedy_cover",
    "group_neighbors",
    "negative_mining",
    "nms",
    "read_detections",
    "read_fiftyone",
    "read_images",
    "selective_search",
    "simplex_projection",
    "smoothed_max",
    "write_detections",
]

_HOME = {
    "Bags": "mil.bags",
    "Config": "config",
    "CorLoc": "evaluation.record",
    "Cover": "cover.greedy",
    "CoverConfig": "cover.config",
    "DetectConfig": "detection.config",
    "Detections": "detection.detections",
    "Detector": "detection.detector",
    "DetectorConfig": "detector.config",
    "Described": "description.record",
    "Description": "description.description",
    "FeaturesConfig": "description.config",
    "ImageSet": "images",
    "InitialConfig": "training.initial",
    "InputError": "errors",
    "LatentSVC": "mil.latent",
    "MapsConfig": "description.config",
    "Neighbors": "neighbors.search",
    "PerInstance": "mil.scaling",
    "RefineConfig": "training.refinement",
    "RetrainConfig": "training.retraining",
    "Scores": "evaluation.record",
    "SmoothLatentSVC": "mil.latent",
    "Tag2Box": "run.estimator",
    "Tag2BoxError": "errors",
    "Truth": "images",
    "TwoStreamConfig": "training.two_stream",
    "Windows": "windows.record",
    "WindowsConfig": "windows.search",
    "corloc": "evaluation.scores",
    "cover_graph": "cover.graph",
    "describe": "description.describe",
    "detect_windows": "detection.suppression",
    "evaluate": "evaluation.scores",
    "find_windows": "windows.search",
    "greedy_cover": "cover.greedy",
    "group_neighbors": "neighbors.search",
    "negative_mining": "cover.mining",
    "nms": "boxes",
    "read_detections": "detection.reading",
    "read_fiftyone": "data.formats.fiftyone_samples",
    "read_images": "data.reading",
    "selective_search": "windows.search",
    "simplex_projection": "mil.smoothing",
    "smoothed_max": "mil.smoothing",
    "write_detections": "exports.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
