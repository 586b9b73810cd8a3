"""The last map of whole photos, (h, w, c), by the network of the settings: what `object_maps` looks at."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.features.automatic import resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.one_photo import photo_map, whole_network
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["check_maps", "find_cells", "map_cells"]

WITHOUT = (
    'do without maps: maps.context = 0, cover.snap = "contrast", refine.prior = 0, '
    'refine.objectness_weight = 0 and retrain.method = "none"'
)


def map_cells(
    windows: Windows, side: int, config: FeaturesConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """What is known before any photo is read: the map's (h, w) of each image, where its cells start among all
    (n_images + 1,), and the channels.
    """
    network = whole_network(config, 1)
    shape = network.shapes(windows.sizes[:, ::-1], side)
    return shape, np.append(0, np.cumsum(shape.prod(axis=1))), network.channels


def check_maps(config: FeaturesConfig) -> None:
    """Refuse a network that gives no map of a photo, with the settings that do without."""
    try:
        whole_network(config, 1).check()
    except InputError as error:
        raise InputError(f"{error}; or {WITHOUT}") from error


def find_cells(
    images: ImageSet,
    side: int,
    config: FeaturesConfig,
    workers: int | None = 1,
    progress: Progress = silent,
) -> NDArray[np.float16]:
    """The cells of the maps of all images, (n_cells, c), image by image and row by row."""
    job = partial(_cells, side, resolved(config))
    return np.concatenate(
        list(map_ordered(job, images.paths, workers=workers, progress=progress, label="maps"))
    )


def _cells(side: int, config: FeaturesConfig, path: Path) -> NDArray[np.float16]:
    map_ = photo_map(path, side, config)
    return map_.reshape(-1, map_.shape[-1])
