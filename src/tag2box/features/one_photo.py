"""One photo through the network: the code path of every photo, learned from or new.

    X = window_features(photo, boxes, projection, config)
    map_ = photo_map(photo, 512, config)

Each of them takes the photo, or what `see` made of it: then it is decoded once, and run at each size once.

    seen = see(photo, config)
    map_, X = photo_map(seen, 1024, config), window_features(seen, boxes, projection, config)

Memory is bounded for any image size: a photo is decoded and resized to at most the largest level, crops are
made 512 at a time; with the network a worker stays below 1 GB.
"""

import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import READING_SIDE, Source, read_small
from tag2box.errors import InputError
from tag2box.features.automatic import cut_of, how_of, network_of, resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.modes import Mode, Pool, Shared, Warp, pooled
from tag2box.features.networks.content import network_hash
from tag2box.features.projection import Projection
from tag2box.features.whole_photo import Seen, WholePhoto

__all__ = [
    "check_finite",
    "photo_map",
    "pooled_features",
    "projected",
    "raw_features",
    "see",
    "whole_network",
    "window_features",
]

Floats = NDArray[np.float32]

LARGEST = float(np.finfo(np.float16).max)


def see(source: Source, config: FeaturesConfig, *, side: int = 0, threads: int = 1) -> Seen:
    """Decode the photo for the network of `config`, large enough for maps of `side` pixels too.

    Nothing is run yet: what is asked of it is run once.
    """
    net = whole_network(config, threads)
    reading_side = max(READING_SIDE, _mode(config, threads).reading_side, net.reading_side(side))
    photo, (width, height) = read_small(source, reading_side)
    return Seen(photo, (height, width), net)


def photo_map(
    source: Source | Seen, side: int, config: FeaturesConfig, *, threads: int = 1
) -> NDArray[np.float16]:
    """The network's last map of one photo, its long side near `side` pixels: (h, w, c)."""
    seen = source if isinstance(source, Seen) else see(source, config, side=side, threads=threads)
    clipped = np.clip(seen.last(side), -LARGEST, LARGEST)
    check_finite(clipped, source, config)
    return np.asarray(clipped, np.float16)


def window_features(
    source: Source | Seen,
    boxes: Floats,
    projection: Projection,
    config: FeaturesConfig,
    *,
    flip: bool = False,
    threads: int = 1,
) -> NDArray[np.floating]:
    """Compute the features of some boxes of one photo.

    Parameters
    ----------
    source : str, Path, ndarray, PIL.Image.Image or Seen
        The photo, or what `see` made of it.
    boxes : ndarray of float32 of shape (n, 4)
        The boxes in pixels of the photo.
    projection : Projection
        The projection, from `find_projection`.
    config : FeaturesConfig
        The settings.
    flip : bool, default=False
        Whether to see the photo in a mirror; row i still belongs to box i.
    threads : int, default=1
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
    return projected(raw_features(source, boxes, config, flip=flip, threads=threads), projection, config)


def projected(raw: Floats, projection: Projection, config: FeaturesConfig) -> NDArray[np.floating]:
    """Raw vectors as they are stored."""
    vectors = projection(raw)
    with np.errstate(over="ignore"):
        stored = vectors.astype(config.dtype)
    if not np.isfinite(stored).all():
        raise InputError(f'features of length {config.length:g} do not fit: set features.dtype to "float32"')
    return stored


def raw_features(
    source: Source | Seen, boxes: Floats, config: FeaturesConfig, *, flip: bool = False, threads: int = 1
) -> Floats:
    """Pooled vectors before the projection, (n, grid * grid * c)."""
    boxes = as_boxes(boxes)
    mode = _mode(config, threads)
    if len(boxes) == 0:
        return np.empty((0, mode.width), np.float32)
    seen = source if isinstance(source, Seen) else see(source, config, threads=threads)
    h, w = seen.photo.shape[:2]
    boxes = boxes * np.tile(np.array((w, h)) / np.array(seen.size[::-1]), 2).astype(np.float32)
    if flip:
        seen = Seen(np.ascontiguousarray(seen.photo[:, ::-1]), seen.size, seen.net)
        right = np.float32(w)
        boxes = np.stack([right - boxes[:, 2], boxes[:, 1], right - boxes[:, 0], boxes[:, 3]], axis=1)
    raw = mode(seen, boxes).reshape(len(boxes), -1)
    check_finite(raw, source, config)
    return raw


def pooled_features(
    map_: NDArray[np.floating], boxes: Floats, size: NDArray[np.int64], config: FeaturesConfig
) -> Floats:
    """The same in the mode "pool", from the photo's last map, which is there already: nothing is run.

    size: the width and height of the photo.
    """
    return pooled(map_, as_boxes(boxes), size, config.padding, config.grid).reshape(len(boxes), -1)


def check_finite(numbers: NDArray[np.floating], source: Source | Seen, config: FeaturesConfig) -> None:
    """Refuse what a network made of a photo where it is no number: nothing behind it could use it."""
    if not np.isfinite(numbers).all():
        photo = source if isinstance(source, str | os.PathLike) else "a photo"
        raise InputError(
            f"{config.network} makes no finite numbers of {photo}: check the mean and std in its TOML, "
            f'or set features.precision to "f32"'
        )


def whole_network(config: FeaturesConfig, threads: int) -> WholePhoto:
    """The network of `config` for whole photos."""
    return _whole(resolved(config), threads, network_hash(config.network))


def _mode(config: FeaturesConfig, threads: int) -> Mode:
    return _describing(resolved(config), threads, network_hash(config.network))


@lru_cache(maxsize=2)
def _whole(config: FeaturesConfig, threads: int, _content: str) -> WholePhoto:
    """Compiled once per process and content, since that takes some tenths of a second."""
    network = network_of(config)
    if config.mode == "shared" and network.cut is None:
        raise InputError(
            f'{network.path.name} names no cut: set cut in its TOML, or features.mode to "pool" or "warp"'
        )
    return WholePhoto(network, how_of(config, threads), cut=cut_of(config))


@lru_cache(maxsize=2)
def _describing(config: FeaturesConfig, threads: int, content: str) -> Mode:
    """How windows are described; compiled once, as above."""
    network, how = network_of(config), how_of(config, threads)
    whole = _whole(config, threads, content)
    if config.mode == "pool":
        side = max(config.levels)
        return Pool(
            whole.channels,
            side=side,
            reading_side=whole.reading_side(side),
            padding=config.padding,
            grid=config.grid,
        )
    if config.mode == "warp":
        return Warp(network, how, size=config.size, padding=config.padding, grid=config.grid)
    return Shared(
        network, how, crop=config.crop, levels=config.levels, padding=config.padding, grid=config.grid
    )
