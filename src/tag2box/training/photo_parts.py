"""`Photos`: some photos that follow each other, and all that training knows of them: what a worker gets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.features.record import Features
from tag2box.maps.object_maps import Maps
from tag2box.training.findings import Best
from tag2box.windows.record import Windows

__all__ = ["Photos", "in_parts", "join_best"]

# Photos in a part, at least; and parts, at most. So no bit depends on the number of workers.
SMALL, PARTS = 32, 256


@dataclass(frozen=True)
class Photos:
    """The windows of some photos, their vectors and objectness, and the photos' tags and maps.

    first: the row of their first window among those of all photos.
    """

    windows: Windows
    X: NDArray[np.floating]
    tags: NDArray[np.int8]
    objectness: NDArray[np.float32]
    maps: Maps | None
    first: int


def in_parts(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    objectness: NDArray[np.float32],
    maps: Maps | None = None,
) -> Iterator[Photos]:
    """All photos, part by part; arrays that are mapped stay so."""
    n = len(windows)
    size = max(SMALL, -(-n // PARTS))
    for a in range(0, n, size):
        z = min(a + size, n)
        rows = slice(int(windows.offsets[a]), int(windows.offsets[z]))
        some = maps.part(a, z) if maps else None
        yield Photos(
            windows.part(a, z), features.X[rows], tags[a:z], objectness[rows], some, int(windows.offsets[a])
        )


def join_best(parts: list[Best]) -> Best:
    """The best windows of all photos, from those of parts in their order."""
    fields = zip(*parts, strict=True)
    return Best(*(tuple(map(np.concatenate, zip(*of_parts, strict=True))) for of_parts in fields))
