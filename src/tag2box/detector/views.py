"""`Views`: what the early blocks see in photos, each of them as it is and mirrored, at each level."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import READING_SIDE, Photo
from tag2box.description.photos import PhotoFiles, make_of_each
from tag2box.description.record import Maps
from tag2box.detector.early import views_graph
from tag2box.detector.record import LEVELS
from tag2box.detector.trunk import Sizes
from tag2box.errors import InputError
from tag2box.runtime.packing import stored
from tag2box.runtime.photo_store import PhotoStore
from tag2box.runtime.stages import Later, Run

# The scale of a channel that shows nothing.
SMALLEST = 1e-6


@stored
@dataclass(frozen=True)
class Views:
    """The maps of photos at the cut in 8 bits: of each photo as it is and mirrored, at each level.

    scales: of the channels of each map; (4 n_photos, c).
    """

    maps: Maps
    scales: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.scales) // (2 * LEVELS)

    def of(self, i: int, *, mirrored: bool) -> tuple[NDArray[np.float32], Sizes]:
        """The rows of both levels' maps of photo i, and their sizes."""
        first = 2 * LEVELS * i + LEVELS * mirrored
        maps = [self.maps[j] * self.scales[j] for j in range(first, first + LEVELS)]
        return np.concatenate([x.reshape(-1, x.shape[2]) for x in maps]), [x.shape[:2] for x in maps]

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """The arrays to store."""
        return {"maps": self.maps.X, "shape": self.maps.shape, "scales": self.scales}

    @classmethod
    def of_rows(cls, rows: Mapping[str, Any]) -> "Views":
        """What `to_rows` gave of each of some photos."""
        shape = np.asarray(rows["shape"])
        offsets = np.append(0, np.cumsum(shape.prod(axis=1)))
        return cls(Maps(rows["maps"], offsets, shape), np.asarray(rows["scales"]))


def see_photos(run: Run, photos: PhotoFiles, side: int) -> Later:
    """What the early blocks see in photos whose long side is resized to `side`, and to half of it."""

    def load(store: PhotoStore) -> Views:
        job = partial(_see, side)
        facts = make_of_each(photos.paths, job, store, run, label="views", known={})
        for path, fact, sha256 in zip(photos.paths, facts, photos.hashes, strict=True):
            if fact.sha256 != sha256:
                raise InputError(f"{path} is another photo than the one that was learned from: run again")
        return Views.of_rows(store.load(photos.hashes))

    return run.later_photos("views", [photos, side], load)


def _see(side: int, photo: Photo) -> Views:
    rgb, _ = photo.small(READING_SIDE)
    maps, scales = [], []
    for view in (rgb, rgb[:, ::-1]):
        result = _early(side)(np.ascontiguousarray(view))
        for level in range(LEVELS):
            x = np.asarray(result[level])[0].transpose(1, 2, 0)
            scales.append(np.maximum(np.abs(x).max(axis=(0, 1)), SMALLEST) / 127)
            maps.append(Maps.of_image(np.rint(x / scales[-1]).astype(np.int8)))
    return Views(Maps.concatenate(maps), np.stack(scales).astype(np.float32))


@lru_cache(maxsize=1)
def _early(side: int) -> Any:
    from tag2box.networks.openvino_engine import compiled_graph

    return compiled_graph(views_graph(side))
