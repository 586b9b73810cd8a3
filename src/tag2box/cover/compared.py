"""`Compared`: the windows that neighbors are found among, and what is compared of their vectors.

To compare every window with every image takes time that grows with the square of their number, and a class
needs no more than some hundred positive images to be found. So above `CoverConfig.most_images` some images
are drawn, the same number of positive images of each class first and then any. Within them everything is
exact; the others have no windows here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.description.record import Described
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.windows.record import ByImage

Rows = NDArray[np.int64]

BLOCK = 8192  # rows at a time


@stored
@dataclass(frozen=True)
class Compared(ByImage):
    """X: (n, d), the vectors; offsets: (n_images + 1,), where the rows of each image start.

    short: (n, fewer), what seeds are found by; None where that is X.
    """

    X: NDArray[np.floating]
    offsets: Rows
    short: NDArray[np.floating] | None = None

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """The arrays to store."""
        rows = {"X": self.X, "counts": self.counts}
        return rows if self.short is None else {**rows, "short": self.short}

    @classmethod
    def of_rows(cls, rows: Mapping[str, Any]) -> "Compared":
        """What `to_rows` gave of each of some images."""
        return cls(rows["X"], np.append(0, np.cumsum(rows["counts"])), rows.get("short"))

    @property
    def for_seeds(self) -> NDArray[np.floating]:
        """What every window is compared by, to find seeds among them."""
        return self.X if self.short is None else self.short

    def among(self, described: ByImage, rows: Rows) -> Rows:
        """These rows as rows of all windows."""
        image = self.image_of(rows)
        return np.asarray(described.offsets[image] + rows - self.offsets[image], np.int64)


@stage("compared", version=2)
def compare(
    photos: tuple[Described, NDArray[np.bool_]], dimensions: int, seed_dimensions: int | None = None
) -> Compared:
    """What neighbors are found by: the first dimensions of X, every row as long as it was.

    photos: the images, and which of them were drawn. seed_dimensions: those of every window, where seeds
    alone are compared by all `dimensions`.
    """
    described, drawn = photos
    rows = described.rows_of(drawn)
    counts = np.where(drawn, described.counts, 0)
    d = min(dimensions, described.X.shape[1])
    fewer = d if seed_dimensions is None else min(seed_dimensions, d)
    X, short = (np.empty((len(rows), width), described.X.dtype) for width in (d, fewer % d))
    for a in range(0, len(rows), BLOCK):
        block = described.X[rows[a : a + BLOCK]].astype(np.float32)
        X[a : a + BLOCK] = _leading(block, d)
        short[a : a + BLOCK] = _leading(block, fewer % d)
    return Compared(X, np.append(0, np.cumsum(counts)), short if fewer < d else None)


def _leading(rows: NDArray[np.float32], d: int) -> NDArray[np.float32]:
    """The first d dimensions, every row as long as it was."""
    leading = rows[:, :d]
    short = np.linalg.norm(leading, axis=1, keepdims=True)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(leading * (length / np.where(short > 0, short, 1)), np.float32)
