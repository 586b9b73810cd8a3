"""`Views`: what the early blocks see in photos, each of them as it is and mirrored, at each level."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import READING_SIDE, read_photo, read_small
from tag2box.description.photos import Photos
from tag2box.description.record import Maps
from tag2box.detector.early import views_graph
from tag2box.detector.record import LEVELS
from tag2box.detector.trunk import Sizes
from tag2box.errors import InputError
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage

# The scale of a channel that shows nothing.
SMALLEST = 1e-6


@stored
@dataclass(frozen=True)
class Views:
    """The maps of photos at the cut in 8 bits: of each photo as it is and mirrored, at each level.

    scales: of the channels of each map; (4 n_photos, c).
    """

    ROWS: ClassVar[tuple[str, ...]] = ("maps.X", "scales")

    maps: Maps
    scales: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.scales) // (2 * LEVELS)

    def of(self, i: int, *, mirrored: bool) -> tuple[NDArray[np.float32], Sizes]:
        """The rows of both levels' maps of photo i, and their sizes."""
        first = 2 * LEVELS * i + LEVELS * mirrored
        maps = [self.maps[j] * self.scales[j] for j in range(first, first + LEVELS)]
        return np.concatenate([x.reshape(-1, x.shape[2]) for x in maps]), [x.shape[:2] for x in maps]

    @classmethod
    def concatenate(cls, parts: "Sequence[Views]") -> "Views":
        """The maps of several sets of photos."""
        scales = np.concatenate([part.scales for part in parts])
        return cls(Maps.concatenate([part.maps for part in parts]), scales)


@stage("views", version=1)
def see_photos(photos: Photos, side: int, *, workers: int | None = 1, progress: Progress = silent) -> Views:
    """What the early blocks see in photos whose long side is resized to `side`, and to half of it."""
    items = list(zip(photos.paths, photos.hashes, strict=True))
    seen = map_ordered(partial(_see, side), items, workers=workers, progress=progress, label="views")
    return Views.concatenate(list(seen))


def _see(side: int, item: tuple[Path, str]) -> Views:
    path, name = item
    file = read_photo(path)
    if file.sha256 != name:  # its boxes are of another photo
        raise InputError(f"{path} was replaced since its boxes were found: run again")
    photo, _ = read_small(file, READING_SIDE)
    maps, scales = [], []
    for view in (photo, photo[:, ::-1]):
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
