"""`ImageSet`: which images there are, and which classes each of them is tagged with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.names import check_names, place_of_class

# What a tag of 0 is read as.
UNKNOWN = {"ignore": 0, "positive": 1, "negative": -1}


@dataclass(frozen=True)
class Truth:
    """True boxes of a set of images, for evaluation only: no training code reads them.

    Parameters
    ----------
    image : ndarray of shape (n,)
        The index of each box's image.
    xyxy : ndarray of shape (n, 4)
        The boxes in pixels, x2 and y2 exclusive.
    label : ndarray of shape (n,)
        The index of each box's class.
    difficult : ndarray of bool of shape (n,)
        Whether the object is marked difficult, as in VOC; such objects neither count as found nor as missed.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> truth = t2b.Truth(
    ...     image=np.array([0]),
    ...     xyxy=np.array([[10, 10, 60, 40]], np.float32),
    ...     label=np.array([0]),
    ...     difficult=np.array([False]),
    ... )
    >>> truth.xyxy.shape
    (1, 4)
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

    @classmethod
    def from_one(cls, n_images: int, n_classes: int) -> "Numbers":
        """Those of a data set that has none: 1, 2, 3, ..."""
        return cls(tuple(range(1, n_images + 1)), tuple(range(1, n_classes + 1)))


@dataclass(frozen=True)
class ImageSet:
    """Images and their tags.

    A tag is +1 if the class is in the image, -1 if it is not, and 0 if nobody knows. `read_images` makes an
    image set from folders and files.

    Parameters
    ----------
    ids : tuple of str
        The name of each image; no two are equal.
    paths : tuple of Path
        The file of each image.
    tags : ndarray of int8 of shape (n_images, n_classes)
        The tags: +1, -1 or 0.
    classes : tuple of str
        The names of the classes.
    truth : Truth, default=None
        True boxes, for evaluation only.
    numbers : Numbers, default=None
        The numbers that a COCO data set gives its images and classes.
    skipped : tuple of str, default=()
        One line for each file that was left out in reading, with the reason.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> images = t2b.ImageSet(
    ...     ids=("a", "b"),
    ...     paths=(Path("a.jpg"), Path("b.jpg")),
    ...     tags=np.array([[1, -1], [1, 1]], np.int8),
    ...     classes=("cat", "dog"),
    ... )
    >>> len(images)
    2
    >>> images.positives("dog").tolist()
    [1]
    >>> images.only(["dog"]).tags.tolist()
    [[-1], [1]]
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
        """Find the images that have a class.

        Parameters
        ----------
        name : str
            The name of the class.

        Returns
        -------
        ndarray of shape (n,)
            The indices of the images tagged +1.
        """
        return np.flatnonzero(self.tags[:, place_of_class(name, self.classes)] == 1)

    def negatives(self, name: str) -> NDArray[np.intp]:
        """Find the images that do not have a class.

        Parameters
        ----------
        name : str
            The name of the class.

        Returns
        -------
        ndarray of shape (n,)
            The indices of the images tagged -1.
        """
        return np.flatnonzero(self.tags[:, place_of_class(name, self.classes)] == -1)

    def take(self, rows: ArrayLike) -> "ImageSet":
        """Take some of the images.

        Parameters
        ----------
        rows : array-like
            Indices of images, or a mask over them.

        Returns
        -------
        ImageSet
            These images in this order, with their tags and true boxes.
        """
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
        """Keep only some of the classes.

        Parameters
        ----------
        classes : sequence of str
            The names of the classes to keep.

        Returns
        -------
        ImageSet
            The same images with these classes, in this order.
        """
        index = np.array([place_of_class(name, self.classes) for name in classes], dtype=np.intp)
        truth, numbers = self.truth, self.numbers
        return replace(
            self,
            tags=self.tags[:, index],
            classes=tuple(classes),
            truth=truth and _among(truth, "label", index),
            numbers=numbers and replace(numbers, classes=tuple(numbers.classes[c] for c in index)),
        )


def _among(truth: Truth, column: str, kept: NDArray[np.intp]) -> Truth:
    """The boxes whose `column` is in `kept`, renumbered to their place in it."""
    values = getattr(truth, column)
    place = np.full(max(values.max(initial=-1), kept.max(initial=-1)) + 1, -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    stays = place[values] >= 0
    part = Truth(truth.image[stays], truth.xyxy[stays], truth.label[stays], truth.difficult[stays])
    return replace(part, **{column: place[values[stays]]})


def known_tags(tags: NDArray[np.int8], unknown: str) -> NDArray[np.int8]:
    """`tags` with every 0 read as `unknown` says; "ignore" leaves them."""
    return np.where(tags == 0, np.int8(UNKNOWN[unknown]), tags)


def draw_images(tags: NDArray[np.int8], most: int) -> NDArray[np.bool_]:
    """Which images are compared, (n_images,): all, or `most` of them.

    Half of these are for the classes, as many positives of each; then any others.
    """
    if len(tags) <= most:
        return np.ones(len(tags), np.bool_)
    order = np.random.default_rng(0).permutation(len(tags))
    chosen = np.zeros(len(tags), np.bool_)
    quota = most // (2 * tags.shape[1])
    for column in tags.T:
        chosen[order[column[order] == 1][:quota]] = True
    others = order[~chosen[order]]
    chosen[others[: most - int(chosen.sum())]] = True
    return chosen
