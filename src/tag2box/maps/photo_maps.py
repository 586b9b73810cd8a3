"""The last map of whole photos, (h, w, c), by the network of the settings: what `object_maps` looks at."""

from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Source, read_small
from tag2box.errors import InputError
from tag2box.features.automatic import how_of, resolved
from tag2box.features.backbone import load_network
from tag2box.features.config import FeaturesConfig
from tag2box.features.networks.content import network_hash
from tag2box.features.one_photo import check_finite
from tag2box.features.whole_photo import WholePhoto
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["check_maps", "find_cells", "map_cells", "photo_map"]

LARGEST = float(np.finfo(np.float16).max)
WITHOUT = (
    'do without maps: maps.context = 0, cover.snap = "contrast", refine.prior = 0, '
    'refine.objectness_weight = 0 and retrain.method = "none"'
)


def photo_map(source: Source, side: int, config: FeaturesConfig, *, threads: int = 1) -> NDArray[np.float16]:
    """The map of one photo, file or array, by the network of `config`: (h, w, c)."""
    network = _network(config, threads)
    photo, (width, height) = read_small(source, network.reading_side(side))
    map_ = network(photo, (height, width), side)
    clipped = np.clip(map_, -LARGEST, LARGEST)
    check_finite(clipped, source, config)
    return np.asarray(clipped, np.float16)


def map_cells(
    windows: Windows, side: int, config: FeaturesConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """What is known before any photo is read: the map's (h, w) of each image, where its cells start among all
    (n_images + 1,), and the channels.
    """
    network = _network(config, 1)
    shape = network.shapes(windows.sizes[:, ::-1], side)
    return shape, np.append(0, np.cumsum(shape.prod(axis=1))), network.channels


def check_maps(config: FeaturesConfig) -> None:
    """Refuse a network that gives no map of a photo, with the settings that do without."""
    try:
        _network(config, 1)
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


def _network(config: FeaturesConfig, threads: int) -> WholePhoto:
    return _compiled(resolved(config), threads, network_hash(config.network))


@lru_cache(maxsize=2)
def _compiled(config: FeaturesConfig, threads: int, _content: str) -> WholePhoto:
    """The whole network; compiled once per process and content."""
    network = WholePhoto(load_network(config.network), how_of(config, threads))
    if network.network.size is None:
        network.cells  # noqa: B018  refuses a map that does not grow with the photo
    return network
