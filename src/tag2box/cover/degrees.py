"""`Degrees`: how many of the images nearest to each window are positive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.compared import Compared
from tag2box.neighbors.search import Neighbors, group_neighbors
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage


@stored
@dataclass(frozen=True)
class Degrees:
    """What the neighbors of each window say, (n_windows, n_classes) each; 0 where its image is not positive.

    above: the share of positive images among its k nearest, less that of all images (its own left out of
    both); far: the distance to its nearest negative image, at least (where none is among the k, to the last).
    """

    above: NDArray[np.float32]
    far: NDArray[np.float32]

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """The arrays to store."""
        return {"above": self.above, "far": self.far}

    @classmethod
    def of_rows(cls, rows: Mapping[str, Any]) -> "Degrees":
        """What `to_rows` gave of the windows of some images."""
        return cls(rows["above"], rows["far"])


@stage("degrees", version=2)
def count_neighbors(
    images: NDArray[np.int64],
    compared: Compared,
    tags: NDArray[np.int8],
    k: float,
    *,
    workers: int | None = 1,
) -> Degrees:
    """Count, for every window of these images, the positive ones among its k nearest images.

    All classes share one search. Images of unknown tag count as not positive. k: as a share of the positive
    images. Memory: 8 bytes a window and class, and what `group_neighbors` takes.
    """
    seen = compared.counts > 0
    depth = [depth_of((column == 1) & seen, k, int(seen.sum())) for column in tags.T]
    rows = compared.rows_of(images)
    asked = (tags == 1).any(axis=1)[compared.image_of(rows)]
    shape = (len(rows), tags.shape[1])
    out = Degrees(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    if asked.any():
        table = group_neighbors(
            compared.for_seeds, compared.offsets, rows[asked], max(depth), workers=workers
        )
        out.above[asked], out.far[asked] = _count_table(table, tags, seen, depth)
    return out


def depth_of(positive: NDArray[np.bool_], k: float, n_images: int) -> int:
    """k, the number of nearest images to use: at least two, since a window's own is always among them.

    n_images: those that have windows.
    """
    return int(min(max(k * positive.sum(), 2), n_images))


def _count_table(
    table: Neighbors, tags: NDArray[np.int8], seen: NDArray[np.bool_], depth: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    assert table.own is not None
    above, far = np.zeros((2, len(table.image), tags.shape[1]), np.float32)
    for c, k in enumerate(depth):
        positive, negative = (tags[:, c] == 1) & seen, tags[:, c] == -1
        rows = np.flatnonzero(positive[table.own])
        chance = (positive.sum() - 1) / max(seen.sum() - 1, 1)
        above[rows, c] = (positive[table.image[rows, :k]].sum(axis=1) - 1) / max(k - 1, 1) - chance
        strange = negative[table.image[rows]]
        first = np.where(strange.any(axis=1), strange.argmax(axis=1), strange.shape[1] - 1)
        far[rows, c] = table.distance[rows, first]
    return above, far
