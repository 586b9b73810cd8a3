"""The last map of whole photos, (h, w, c): what `object_maps` looks at.

Photos are resized to whole cells, their long side near `side` pixels, so that the map covers them exactly.
"""

from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import Source, read_small
from tag2box.errors import InputError
from tag2box.features.backbone import load_network
from tag2box.features.extract import FeaturesConfig, check_finite, resolved
from tag2box.features.modes import CELL
from tag2box.features.networks.content import network_hash
from tag2box.features.networks.inference import How, Part
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["check_maps", "find_cells", "map_cells", "photo_map"]

LARGEST = float(np.finfo(np.float16).max)


def photo_map(source: Source, side: int, config: FeaturesConfig, *, streams: int = 1) -> NDArray[np.float16]:
    """The map of one photo, file or array, by the network of `config`: (h, w, c)."""
    photo, (width, height) = read_small(source, side)
    rows, columns = _blocks(np.array([height, width]), side)
    resized = Image.fromarray(photo).resize((columns * CELL, rows * CELL), Image.Resampling.BILINEAR)
    map_ = _network(config, streams)(np.asarray(resized)[None])[0]
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
    shape = _blocks(windows.sizes[:, ::-1], side) * _cells_of_a_block(network)
    return shape, np.append(0, np.cumsum(shape.prod(axis=1))), network.channels


def check_maps(config: FeaturesConfig) -> None:
    """Refuse a network that gives no map of a photo, with the settings that do without."""
    _network(config, 1)


def find_cells(
    images: ImageSet,
    side: int,
    config: FeaturesConfig,
    *,
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


def _blocks(size: NDArray[np.int64], side: int) -> NDArray[np.int64]:
    """Sizes, (..., 2) in pixels, as multiples of CELL, the long side near `side`."""
    scale = side / size.max(axis=-1, keepdims=True)
    return np.asarray(np.maximum(np.rint(size * scale / CELL), 1), np.int64)


def _network(config: FeaturesConfig, streams: int) -> Part:
    return _compiled(resolved(config), streams, network_hash(config.network))


@lru_cache(maxsize=2)
def _compiled(config: FeaturesConfig, streams: int, _content: str) -> Part:
    """The whole network, for photos of any size; compiled once per process and content."""
    network = load_network(config.network)
    try:
        part = Part(network, (1, -1, -1), How(config.precision, streams, config.device))
    except RuntimeError as error:
        reason = f"does not take photos of any size ({str(error).splitlines()[-1]})"
        raise InputError(_without(network.path.name, reason)) from error
    if not part.gives_map:
        raise InputError(_without(network.path.name, "gives no map (n, c, h, w) of a photo"))
    if _cells_of_a_block(part) < 1:
        raise InputError(_without(network.path.name, f"has no whole cell for every {CELL} pixels of a photo"))
    return part


def _cells_of_a_block(network: Part) -> int:
    """The map's cells along CELL pixels; 0 where its size is not as many times that of the photo."""
    h, w = network(np.zeros((1, 3 * CELL, 4 * CELL, 3), np.uint8)).shape[1:3]
    return h // 3 if h % 3 == 0 and w * 3 == h * 4 else 0


def _without(name: str, reason: str) -> str:
    settings = (
        'maps.context = 0, cover.snap = "contrast", refine.prior = 0, refine.objectness = 0 and '
        'retrain.method = "none"'
    )
    return f"{name} {reason}: set {settings} to do without maps"
