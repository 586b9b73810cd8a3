"""How long a photo takes in the network of a run, measured: for `network check` and the estimate of a run.

taken = time_photo(FeaturesConfig(), MapsConfig())
taken.map_seconds, taken.windows_seconds        # of one thread; two passes, as a run makes them
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import Source, read_small
from tag2box.features.automatic import network_of, resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.one_photo import photo_map
from tag2box.features.projection import Projection
from tag2box.maps.context import Context, Photo, finer_side, photo_vectors
from tag2box.maps.object_maps import MapsConfig

__all__ = ["PhotoTime", "time_photo"]

# Rounds that are measured, after one that compiles; the best counts.
ROUNDS = 2


@dataclass(frozen=True)
class PhotoTime:
    """Seconds of one thread for a photo's map, and for the vectors of its windows; the map's size."""

    map_seconds: float
    windows_seconds: float
    map_shape: tuple[int, int, int]


def time_photo(
    config: FeaturesConfig, maps: MapsConfig, *, windows: int = 300, source: Source | None = None
) -> PhotoTime:
    """Take the time of a photo, of VOC's size where none is given, and of random windows in it."""
    config, source = resolved(config), _noise() if source is None else source
    size = np.array(read_small(source, 64)[1])
    boxes = _boxes(windows, size)
    map_ = photo_map(source, maps.side, config)
    projection, context = _like_learned(config, maps, map_.shape[2])
    photo = Photo(source, map_, size, boxes)
    return PhotoTime(
        _best(lambda: photo_map(source, maps.side, config)),
        _best(lambda: photo_vectors(projection, context, config, photo)),
        (map_.shape[0], map_.shape[1], map_.shape[2]),
    )


def _like_learned(
    config: FeaturesConfig, maps: MapsConfig, channels: int
) -> tuple[Projection, Context | None]:
    """A projection and a context of the sizes that a run will learn, of zeros."""
    raw = channels * config.grid**2
    A = np.zeros((raw, min(config.dimensions or raw, raw)), np.float32)
    projection = Projection(np.zeros(raw, np.float32), A, "none", 1.0)
    if not maps.context:
        return projection, None
    U = np.zeros((channels, min(maps.context, channels)), np.float32)
    fine_side = finer_side(maps, network_of(config))
    mean = np.zeros(channels, np.float32)
    return projection, Context(mean, U, maps.context_ring, maps.context_length, fine_side)


def _best(job: Callable[[], object]) -> float:
    seconds = []
    for _ in range(1 + ROUNDS):
        start = perf_counter()
        job()
        seconds.append(perf_counter() - start)
    return min(seconds[1:])


def _noise() -> NDArray[np.uint8]:
    """A photo of nothing, of the size that VOC's have."""
    coarse = np.random.default_rng(0).integers(0, 256, (19, 25, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((500, 375)))


def _boxes(n: int, size: NDArray[np.int64]) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    corner, side = rng.uniform(0, 0.6, (n, 2)), rng.uniform(0.1, 0.4, (n, 2))
    return (np.hstack([corner, corner + side]) * np.tile(size, 2)).astype(np.float32)
