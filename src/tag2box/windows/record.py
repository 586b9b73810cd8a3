"""`Windows`: the boxes of many images in one array, and which of them are whose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.runtime.packing import stored

Rows = NDArray[np.int64]


class ByImage:
    """Rows of many images, one image after another: image i has the rows `offsets[i]` to `offsets[i + 1]`."""

    offsets: Rows

    @property
    def counts(self) -> Rows:
        """The number of rows of each image, an array of shape (n_images,)."""
        return np.diff(self.offsets)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Iterate over the images.

        Returns
        -------
        iterator of (int, int)
            The first row of each image, and the one after its last.
        """
        return pairwise(self.offsets.tolist())

    def rows_of(self, images: ArrayLike) -> Rows:
        """Find the rows of some images.

        Parameters
        ----------
        images : array-like
            Indices of images, or a mask over all of them.

        Returns
        -------
        ndarray of shape (n_rows,)
            Their rows, in the order of the images.
        """
        chosen = np.asarray(images)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.reshape(-1).astype(np.int64)
        counts = self.offsets[chosen + 1] - self.offsets[chosen]
        ends = np.cumsum(counts)
        return np.asarray(np.repeat(self.offsets[chosen] - (ends - counts), counts) + np.arange(counts.sum()))

    def by_image(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Iterate over what the rows of each image have.

        Parameters
        ----------
        values : ndarray of shape (n_rows, ...)
            A value, or several, for each row.

        Returns
        -------
        iterator of ndarray
            The values of each image's rows.
        """
        return (values[a:z] for a, z in self.spans())

    def image_of(self, rows: ArrayLike) -> NDArray[np.intp]:
        """Find the image of each row.

        Parameters
        ----------
        rows : array-like of int
            The rows.

        Returns
        -------
        ndarray
            The index of each row's image.
        """
        return np.asarray(np.searchsorted(self.offsets, rows, side="right") - 1)

    def best_of(self, images: ArrayLike, scores: NDArray[np.floating]) -> Rows:
        """Find the best row of each of some images.

        Parameters
        ----------
        images : array-like
            Indices of images, or a mask over all of them.
        scores : ndarray of shape (n,)
            The score of every row.

        Returns
        -------
        ndarray of shape (n_found,)
            The row of highest score, the first of equals, in each of these images that has any.
        """
        chosen = np.asarray(images)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else np.unique(chosen.astype(np.int64))
        spans = zip(self.offsets[chosen].tolist(), self.offsets[chosen + 1].tolist(), strict=True)
        return np.array([a + scores[a:z].argmax() for a, z in spans if a < z], dtype=np.int64)


@stored
@dataclass(frozen=True)
class Windows(ByImage):
    """Windows of many images.

    `windows[i]` are the windows of image i, an array of shape (n_i, 4), best rank first.

    Parameters
    ----------
    xyxy : ndarray of float32 of shape (n, 4)
        The windows of all images in pixels of the upright image, x2 and y2 exclusive.
    offsets : ndarray of int64 of shape (n_images + 1,)
        Where the windows of each image start.
    sizes : ndarray of int64 of shape (n_images, 2)
        The width and height of each image.

    See Also
    --------
    find_windows : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> windows = t2b.Windows(
    ...     xyxy=np.array([[0, 0, 8, 6], [1, 1, 4, 4], [0, 0, 9, 9]], np.float32),
    ...     offsets=np.array([0, 2, 3]),
    ...     sizes=np.array([[8, 6], [9, 9]]),
    ... )
    >>> len(windows), windows[0].shape
    (2, (2, 4))
    >>> windows.image_of([0, 1, 2]).tolist()
    [0, 0, 1]
    >>> windows.rows_of([1]).tolist()
    [2]
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
        """Take the windows of a range of images.

        Parameters
        ----------
        a : int
            The first image.
        z : int
            The image after the last.

        Returns
        -------
        Windows
            The windows of these images.
        """
        first, last = self.offsets[a], self.offsets[z]
        return Windows(self.xyxy[first:last], self.offsets[a : z + 1] - first, self.sizes[a:z])

    @classmethod
    def of_image(cls, xyxy: NDArray[np.float32], size: tuple[int, int]) -> "Windows":
        """Make the windows of one image.

        Parameters
        ----------
        xyxy : ndarray of float32 of shape (n, 4)
            Its windows.
        size : tuple of int
            Its width and height.

        Returns
        -------
        Windows
            The windows of a set of one image.
        """
        return cls(xyxy, np.array([0, len(xyxy)], np.int64), np.array([size], np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence["Windows"]) -> "Windows":
        """Join the windows of several sets of images.

        Parameters
        ----------
        parts : sequence of Windows
            The windows of each set.

        Returns
        -------
        Windows
            The windows of all images, in their order.
        """
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
        return cls(
            np.concatenate([np.empty((0, 4), np.float32), *(part.xyxy for part in parts)]),
            np.append(0, np.cumsum(counts)).astype(np.int64),
            np.concatenate([np.empty((0, 2), np.int64), *(part.sizes for part in parts)]),
        )
