"""How long a photo takes to be described, measured: for `network check` and the estimate of a run.

taken = time_photo(settings)
taken.seconds, taken.map_shape        # of one thread
"""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import Source
from tag2box.description.context import Context
from tag2box.description.describe import describe, raw_widths
from tag2box.description.description import Description
from tag2box.description.projection import Projection
from tag2box.description.resolving import DescriptionConfig

# Rounds that are measured, after one that compiles; the best counts.
ROUNDS = 2


@dataclass(frozen=True)
class PhotoTime:
    """Seconds of one thread for a photo; the shape of its map, (0, 0, 0) where none is kept; its windows."""

    seconds: float
    map_shape: tuple[int, ...]
    n_windows: int


def time_photo(settings: DescriptionConfig, source: Source | None = None) -> PhotoTime:
    """Take the time of a photo, one of VOC's size and of nothing where none is given."""
    photo = _noise() if source is None else source
    description = _like_learned(settings, photo)
    seconds = []
    for _ in range(ROUNDS):
        start = perf_counter()
        described = describe(photo, description)
        seconds.append(perf_counter() - start)
    map_ = described.map_of(0)
    return PhotoTime(min(seconds), (0, 0, 0) if map_ is None else map_.shape, len(described.X))


def _like_learned(settings: DescriptionConfig, photo: Source) -> Description:
    """A description of the sizes that a run will learn, of zeros."""
    features, maps = settings.features, settings.maps
    raw = sum(raw_widths(settings))
    A = np.zeros((raw, min(features.dimensions or raw, raw)), np.float32)
    bare = Description(settings, Projection(np.zeros(raw, np.float32), A, "none", 1.0))
    seen = describe(photo, bare)  # compiles, too
    if seen.maps is None or maps is None or not maps.context:
        return bare
    channels = seen.maps.X.shape[1]
    U = np.zeros((channels, min(maps.context, channels)), np.float32)
    mean = np.zeros(channels, np.float32)
    return replace(
        bare, context=Context(mean, U, maps.context_ring, maps.context_length, maps.fine_side or 0)
    )


def _noise() -> NDArray[np.uint8]:
    """A photo of nothing, of the size that VOC's have."""
    coarse = np.random.default_rng(0).integers(0, 256, (19, 25, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((500, 375)))
