"""`Windows`: the boxes of many images in one array, and which of them are whose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.runtime.packing import stored

__all__ = ["ByImage", "Windows"]

Rows = NDArray[np.int64]


class ByImage:
    """Rows of many images, one image after another: image i has the rows offsets[i] to offsets[i + 1]."""

    offsets: Rows

    @property
    def counts(self) -> Rows:
        """How many rows each image has, (n_images,)."""
        return np.diff(self.offsets)

    def spans(self) -> Iterator[tuple[int, int]]:
        """The first row of each image, and the one after its last."""
        return pairwise(self.offsets.tolist())

    def rows_of(self, images: ArrayLike) -> Rows:
        """The rows of these images, in their order; images: their numbers, or a mask over all."""
        chosen = np.asarray(images)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.reshape(-1).astype(np.int64)
        counts = self.counts[chosen]
        ends = np.cumsum(counts)
        return np.asarray(np.repeat(self.offsets[chosen] - (ends - counts), counts) + np.arange(counts.sum()))

    def image_of(self, rows: ArrayLike) -> NDArray[np.intp]:
        """The image of each row."""
        return np.asarray(np.searchsorted(self.offsets, rows, side="right") - 1)

    def best_of(self, images: ArrayLike, scores: NDArray[np.floating]) -> Rows:
        """The row of highest score, the first of equals, in each of these images that has any."""
        chosen = np.unique(self.image_of(self.rows_of(images)))
        spans = ((self.offsets[i], self.offsets[i + 1]) for i in chosen)
        return np.array([a + scores[a:z].argmax() for a, z in spans], dtype=np.int64)


@stored
@dataclass(frozen=True)
class Windows(ByImage):
    """Windows of many images: `windows[i]` are those of image i, (n_i, 4), best rank first.

    xyxy: (n, 4) float32, in pixels of the upright image; offsets: (n_images + 1,) int64; sizes: (n_images, 2)
    int64, the width and height of each image.
    """

    xyxy: NDArray[np.float32]
    offsets: Rows
    sizes: Rows

    def __post_init__(self) -> None:
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.xyxy) or (self.counts < 0).any():
            raise InputError(f"offsets must rise from 0 to the number of windows, {len(self.xyxy)}")
        if self.sizes.shape != (len(self), 2):
            raise InputError(
                f"sizes must be {(len(self), 2)}, one per image, but they are {self.sizes.shape}"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, image: int) -> NDArray[np.float32]:
        image = range(len(self))[image]
        return self.xyxy[self.offsets[image] : self.offsets[image + 1]]

    def part(self, a: int, z: int) -> "Windows":
        """The windows of images a to z."""
        first, last = self.offsets[a], self.offsets[z]
        return Windows(self.xyxy[first:last], self.offsets[a : z + 1] - first, self.sizes[a:z])

    @classmethod
    def of_image(cls, xyxy: NDArray[np.float32], size: tuple[int, int]) -> "Windows":
        """The windows of one image of this width and height."""
        return cls(xyxy, np.array([0, len(xyxy)], np.int64), np.array([size], np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence["Windows"]) -> "Windows":
        """The windows of all parts, in their order."""
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
        return cls(
            np.concatenate([np.empty((0, 4), np.float32), *(part.xyxy for part in parts)]),
            np.append(0, np.cumsum(counts)).astype(np.int64),
            np.concatenate([np.empty((0, 2), np.int64), *(part.sizes for part in parts)]),
        )

    @classmethod
    def upgraded(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a record that an older version stored, when the first window was the whole image."""
        if "sizes" in fields:
            return fields
        xyxy, offsets = fields["xyxy"], fields["offsets"]
        sizes = np.zeros((len(offsets) - 1, 2), np.int64)
        some = np.diff(offsets) > 0
        sizes[some] = np.rint(xyxy[offsets[:-1][some], 2:])
        return fields | {"sizes": sizes}
