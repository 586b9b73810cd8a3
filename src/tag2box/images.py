"""`ImageSet`: which images there are, and which classes each of them is tagged with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.names import check_names

__all__ = ["ImageSet", "Numbers", "Truth"]


@dataclass(frozen=True)
class Truth:
    """True boxes, for evaluation only: no training code reads them.

    image: (n,) index of the box's image; xyxy: (n, 4); label: (n,) index of its class; difficult: (n,) bool.
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    label: NDArray[np.intp]
    difficult: NDArray[np.bool_]


@dataclass(frozen=True)
class Numbers:
    """The numbers that a COCO data set itself gives its images and classes; its evaluator asks for them."""

    images: tuple[int, ...]
    classes: tuple[int, ...]


@dataclass(frozen=True)
class ImageSet:
    """Images and their tags: +1 the class is in the image, -1 it is not, 0 unknown.

    ids: one unique name per image; paths: its file; tags: (n_images, n_classes) int8; classes: their names.
    skipped: one line for each file that reading left out, and why.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    tags: NDArray[np.int8]
    classes: tuple[str, ...]
    truth: Truth | None = None
    numbers: Numbers | None = None
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (len(self.ids) == len(self.paths) == len(self.tags)):
            raise InputError(
                f"an image set needs as many ids, paths and rows of tags: "
                f"{len(self.ids)}, {len(self.paths)}, {len(self.tags)}"
            )
        if self.tags.shape != (len(self.ids), len(self.classes)):
            raise InputError(f"tags must be (n_images, n_classes), but the shape is {self.tags.shape}")
        check_names("image", self.ids)
        check_names("class", self.classes)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> "ImageSet":
        """A range of the images: `images[a:z]`."""
        return self.take(np.arange(len(self))[part])

    def positives(self, name: str) -> NDArray[np.intp]:
        """Indices of the images tagged +1 for class `name`."""
        return np.flatnonzero(self.tags[:, self._column(name)] == 1)

    def negatives(self, name: str) -> NDArray[np.intp]:
        """Indices of the images tagged -1 for class `name`."""
        return np.flatnonzero(self.tags[:, self._column(name)] == -1)

    def take(self, rows: ArrayLike) -> "ImageSet":
        """The images of `rows` (indices, or a mask), in that order, with all that is known of them."""
        chosen = np.asarray(rows)
        index = np.arange(len(self))[chosen if chosen.size else chosen.astype(np.intp)]
        truth, numbers = self.truth, self.numbers
        return replace(
            self,
            ids=tuple(self.ids[i] for i in index),
            paths=tuple(self.paths[i] for i in index),
            tags=self.tags[index],
            truth=truth and _among(truth, "image", index),
            numbers=numbers and replace(numbers, images=tuple(numbers.images[i] for i in index)),
        )

    def only(self, classes: Sequence[str]) -> "ImageSet":
        """The same images with these classes alone, in this order."""
        index = np.array([self._column(name) for name in classes], dtype=np.intp)
        truth, numbers = self.truth, self.numbers
        return replace(
            self,
            tags=self.tags[:, index],
            classes=tuple(classes),
            truth=truth and _among(truth, "label", index),
            numbers=numbers and replace(numbers, classes=tuple(numbers.classes[c] for c in index)),
        )

    def _column(self, name: str) -> int:
        if name not in self.classes:
            raise InputError(f"no class {name!r} here: the classes are {', '.join(self.classes)}")
        return self.classes.index(name)


def _among(truth: Truth, column: str, kept: NDArray[np.intp]) -> Truth:
    """The boxes whose `column` is in `kept`, renumbered to their place in it."""
    values = getattr(truth, column)
    place = np.full(max(values.max(initial=-1), kept.max(initial=-1)) + 1, -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    stays = place[values] >= 0
    part = Truth(truth.image[stays], truth.xyxy[stays], truth.label[stays], truth.difficult[stays])
    return replace(part, **{column: place[values[stays]]})
