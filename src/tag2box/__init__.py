"""tag2box: image tags in, boxes and an object detector out. Nobody draws a box.

Public names are loaded at their first use, so that `import tag2box` alone is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tag2box.bags import Bags
    from tag2box.boxes import nms, thin
    from tag2box.contrast import contrast
    from tag2box.cover import Cover, CoverGraph, cover_graph, greedy_cover
    from tag2box.errors import InputError, Tag2BoxError
    from tag2box.images import ImageSet, read_images
    from tag2box.latent import LatentSVC, SmoothLatentSVC
    from tag2box.mining import negative_mining
    from tag2box.neighbors import Neighbors, group_neighbors, neighbor_blocks
    from tag2box.smoothing import simplex_projection, smoothed_max

__all__ = [
    "Bags",
    "Cover",
    "CoverGraph",
    "ImageSet",
    "InputError",
    "LatentSVC",
    "Neighbors",
    "SmoothLatentSVC",
    "Tag2BoxError",
    "__version__",
    "contrast",
    "cover_graph",
    "greedy_cover",
    "group_neighbors",
    "negative_mining",
    "neighbor_blocks",
    "nms",
    "read_images",
    "simplex_projection",
    "smoothed_max",
    "thin",
]

_HOME = {
    "Bags": "bags",
    "Cover": "cover",
    "CoverGraph": "cover",
    "ImageSet": "images",
    "InputError": "errors",
    "LatentSVC": "latent",
    "Neighbors": "neighbors",
    "SmoothLatentSVC": "latent",
    "Tag2BoxError": "errors",
    "contrast": "contrast",
    "cover_graph": "cover",
    "greedy_cover": "cover",
    "group_neighbors": "neighbors",
    "negative_mining": "mining",
    "neighbor_blocks": "neighbors",
    "nms": "boxes",
    "read_images": "images",
    "simplex_projection": "smoothing",
    "smoothed_max": "smoothing",
    "thin": "boxes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tag2box' has no attribute {name!r}")
    return getattr(import_module(f"tag2box.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
