"""Where each class stands out in the photos of a run: the map that its boxes come from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.votes import vote_map
from tag2box.run.folder import RunFolder


@dataclass(frozen=True)
class Heat:
    """A map, (h, w), over the first `width` x `height` pixels of a photo."""

    values: NDArray[np.floating]
    width: float
    height: float


def votes(windows: NDArray[np.float32], degree: NDArray[np.float64]) -> Heat:
    """The map of one image's votes."""
    values, cell = vote_map(windows, degree)
    return Heat(values, values.shape[1] * cell, values.shape[0] * cell)


def heat_maps_of(run: RunFolder) -> Callable[[int, int], Heat]:
    """(class, image) -> the map that its boxes came of: the object map or, in a run without, the votes."""
    described = run.result("described")
    windows, maps = described.windows, described.maps
    if "object_maps" in run.keys:
        objects = run.result("object_maps")
        return lambda c, i: Heat(objects(maps[i])[c], *windows.sizes[i].tolist())
    compared, above = run.result("compared"), run.result("degrees").above

    def heat(c: int, i: int) -> Heat:
        """Without votes in an image that was not compared."""
        rows = compared.rows_of(i)
        degree = above[rows, c] if len(rows) else np.zeros(len(windows[i]))
        return votes(windows[i], degree.astype(np.float64))

    return heat
