"""The features of some boxes of one photo: the code path of every photo, learned from or new.

    X = window_features(photo, boxes, projection, config)

Memory is bounded for any image size: a photo is decoded and resized to at most the largest level, crops are
made 512 at a time; with the network a worker stays below 1 GB.
"""

import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import Source, read_small
from tag2box.errors import InputError
from tag2box.features.automatic import how_of, network_of, resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.crops import pool_map
from tag2box.features.modes import Pool, Shared, Warp, padded
from tag2box.features.networks.content import network_hash
from tag2box.features.projection import Projection

__all__ = ["check_finite", "pooled_features", "projected", "raw_features", "window_features"]

Floats = NDArray[np.float32]


def window_features(
    source: Source,
    boxes: Floats,
    projection: Projection,
    config: FeaturesConfig,
    *,
    flip: bool = False,
    streams: int = 1,
) -> NDArray[np.floating]:
    """Compute the features of some boxes of one photo.

    Parameters
    ----------
    source : str, Path, ndarray or PIL.Image.Image
        The photo.
    boxes : ndarray of float32 of shape (n, 4)
        The boxes in pixels of the photo.
    projection : Projection
        The projection, from `find_projection`.
    config : FeaturesConfig
        The settings.
    flip : bool, default=False
        Whether to see the photo in a mirror; row i still belongs to box i.
    streams : int, default=1
        The number of threads.

    Returns
    -------
    ndarray of shape (n, d)
        One vector per box, bit for bit those of `find_features`.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.features.projection import Projection
    >>> photo = np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)
    >>> config = t2b.FeaturesConfig(levels=(96,), grid=1)
    >>> first_four = Projection(np.zeros(320, np.float32), np.eye(320, 4, dtype=np.float32), "l2", 20.0)
    >>> boxes = np.array([[0, 0, 96, 96], [8, 8, 60, 60]], np.float32)
    >>> t2b.window_features(photo, boxes, first_four, config).shape
    (2, 4)
    """
    return projected(raw_features(source, boxes, config, flip=flip, streams=streams), projection, config)


def projected(raw: Floats, projection: Projection, config: FeaturesConfig) -> NDArray[np.floating]:
    """Raw vectors as they are stored."""
    vectors = projection(raw)
    with np.errstate(over="ignore"):
        stored = vectors.astype(config.dtype)
    if not np.isfinite(stored).all():
        raise InputError(f'features of length {config.length:g} do not fit: set features.dtype to "float32"')
    return stored


def raw_features(
    source: Source, boxes: Floats, config: FeaturesConfig, *, flip: bool = False, streams: int = 1
) -> Floats:
    """Pooled vectors before the projection, (n, grid * grid * c)."""
    boxes = as_boxes(boxes)
    extract = _extractor(resolved(config), streams, network_hash(config.network))
    if len(boxes) == 0:
        return np.empty((0, extract.width), np.float32)
    photo, full_size = read_small(source, extract.reading_side)
    boxes = boxes * np.tile(np.array(photo.shape[1::-1]) / np.array(full_size), 2).astype(np.float32)
    if flip:
        right = np.float32(photo.shape[1])
        photo = np.ascontiguousarray(photo[:, ::-1])
        boxes = np.stack([right - boxes[:, 2], boxes[:, 1], right - boxes[:, 0], boxes[:, 3]], axis=1)
    raw = extract(photo, boxes).reshape(len(boxes), -1)
    check_finite(raw, source, config)
    return raw


def pooled_features(
    map_: NDArray[np.floating], boxes: Floats, size: NDArray[np.int64], config: FeaturesConfig
) -> Floats:
    """The same in the mode "pool", from the photo's last map, which is there already: nothing is run.

    size: the width and height of the photo.
    """
    shares = padded(as_boxes(boxes), config.padding) / np.tile(size, 2).astype(np.float64)
    return pool_map(np.asarray(map_, np.float32), shares, config.grid).reshape(len(boxes), -1)


def check_finite(numbers: NDArray[np.floating], source: Source, config: FeaturesConfig) -> None:
    """Refuse what a network made of a photo where it is no number: nothing behind it could use it."""
    if not np.isfinite(numbers).all():
        photo = source if isinstance(source, str | os.PathLike) else "a photo"
        raise InputError(
            f"{config.network} makes no finite numbers of {photo}: check the mean and std in its TOML, "
            f'or set features.precision to "f32"'
        )


@lru_cache(maxsize=2)
def _extractor(config: FeaturesConfig, streams: int, _content: str) -> Shared | Warp | Pool:
    """The compiled network; made once per process and content, since that takes some tenths of a second."""
    network, how = network_of(config), how_of(config, streams)
    if config.mode == "pool":
        return Pool(network, how, side=max(config.levels), padding=config.padding, grid=config.grid)
    if config.mode == "warp":
        return Warp(network, how, size=config.size, padding=config.padding, grid=config.grid)
    return Shared(
        network, how, crop=config.crop, levels=config.levels, padding=config.padding, grid=config.grid
    )
