"""`Described`: the windows of photos, a vector for each, and the photos' maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.runtime.packing import stored
from tag2box.windows.record import ByImage, Windows


@stored
@dataclass(frozen=True)
class Maps(ByImage):
    """X: (n_cells, c), cells of all photos, row by row; offsets: (n_images + 1,); shape: (n_images, 2)."""

    X: NDArray[np.floating]
    offsets: NDArray[np.int64]
    shape: NDArray[np.int64]

    def __getitem__(self, i: int) -> NDArray[np.floating]:
        """The map of image i, (h, w, c)."""
        return self.X[self.offsets[i] : self.offsets[i + 1]].reshape(*self.shape[i], self.X.shape[1])

    def part(self, a: int, z: int) -> "Maps":
        """The maps of images a to z."""
        first, last = self.offsets[a], self.offsets[z]
        return Maps(self.X[first:last], self.offsets[a : z + 1] - first, self.shape[a:z])

    @classmethod
    def of_image(cls, map_: NDArray[np.floating]) -> "Maps":
        """The map (h, w, c) of one photo."""
        h, w, c = map_.shape
        return cls(map_.reshape(-1, c), np.array([0, h * w], np.int64), np.array([[h, w]], np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence["Maps"]) -> "Maps":
        """The maps of several sets of photos."""
        X, counts, shape = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "counts", "shape")
        )
        return cls(X, np.append(0, np.cumsum(counts)), shape)


def _joined(parts: Sequence[Maps | None]) -> Maps | None:
    maps = [part for part in parts if part is not None]
    return Maps.concatenate(maps) if maps else None


@stored
@dataclass(frozen=True)
class Described(ByImage):
    """The windows of photos, a vector for each, and the photos' maps.

    Parameters
    ----------
    windows : Windows
        The windows of all photos.
    X : ndarray of float16 or float32 of shape (n_windows, d)
        Their vectors; it may be mapped from a file.
    maps : Maps, default=None
        The network's last map of each photo, where it is needed.
    details : Maps, default=None
        What its fine cells speak for, a number for each class, where objects are small (`Details`).

    See Also
    --------
    describe : Makes it, of one photo.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> boxes = np.array([[0, 0, 8, 6], [1, 1, 4, 4], [0, 0, 9, 9]], np.float32)
    >>> windows = t2b.Windows(boxes, np.array([0, 2, 3]), np.array([[8, 6], [9, 9]]))
    >>> described = t2b.Described(windows, np.zeros((3, 4), np.float32))
    >>> len(described), described.counts.tolist()
    (2, [2, 1])
    """

    # Too large for memory: a shard at a time is written to its file.
    ROWS: ClassVar[tuple[str, ...]] = ("X", "maps.X", "details.X")

    windows: Windows
    X: NDArray[np.floating]
    maps: Maps | None = None
    details: Maps | None = None

    def __post_init__(self) -> None:
        if len(self.X) != len(self.windows.xyxy):
            raise InputError(f"{len(self.X)} vectors cannot be those of {len(self.windows.xyxy)} windows")

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Where the rows of each photo start."""
        return self.windows.offsets

    def __len__(self) -> int:
        return len(self.windows)

    def map_of(self, i: int) -> NDArray[np.floating] | None:
        """Take the map of one photo.

        Parameters
        ----------
        i : int
            The photo.

        Returns
        -------
        ndarray of shape (h, w, c) or None
            Its map; None where none are kept.
        """
        return None if self.maps is None else self.maps[i]

    def details_of(self, i: int) -> NDArray[np.floating] | None:
        """Take the details of one photo.

        Parameters
        ----------
        i : int
            The photo.

        Returns
        -------
        ndarray of shape (h, w, n_classes) or None
            What its fine cells speak for; None where nobody asked them.
        """
        return None if self.details is None else self.details[i]

    def part(self, a: int, z: int) -> "Described":
        """Take a range of photos.

        Parameters
        ----------
        a : int
            The first photo.
        z : int
            The photo after the last.

        Returns
        -------
        Described
            These photos; arrays that are mapped stay so.
        """
        rows = slice(int(self.offsets[a]), int(self.offsets[z]))
        maps, details = (each.part(a, z) if each else None for each in (self.maps, self.details))
        return Described(self.windows.part(a, z), self.X[rows], maps, details)

    def only(self, rows: NDArray[np.intp]) -> "Described":
        """Take some windows of one photo.

        Parameters
        ----------
        rows : ndarray of int
            The windows.

        Returns
        -------
        Described
            The photo with these windows alone.
        """
        windows = Windows.of_image(self.windows.xyxy[rows], tuple(self.windows.sizes[0]))
        return Described(windows, self.X[rows], self.maps, self.details)

    @classmethod
    def concatenate(cls, parts: Sequence["Described"]) -> "Described":
        """Join several sets of photos.

        Parameters
        ----------
        parts : sequence of Described
            The photos of each set.

        Returns
        -------
        Described
            All photos, in their order.
        """
        return cls(
            Windows.concatenate([part.windows for part in parts]),
            np.concatenate([part.X for part in parts]),
            _joined([part.maps for part in parts]),
            _joined([part.details for part in parts]),
        )


@stored
@dataclass(frozen=True)
class Raw(ByImage):
    """What the network says of some photos before anything is learned from it.

    hashes: of the photos' files; X: (n_windows, D), vectors of the windows before the projection; maps, fine:
    the last map of each photo, and a finer one; widths: of the parts of X, each projected for itself; early:
    the map of each photo at the cut, of the largest size.
    """

    ROWS: ClassVar[tuple[str, ...]] = ("X", "maps.X", "fine.X", "early.X")

    hashes: tuple[str, ...]
    windows: Windows
    X: NDArray[np.float32]
    maps: Maps | None
    fine: Maps | None
    widths: tuple[int, ...] = ()
    early: Maps | None = None

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Where the rows of each photo start."""
        return self.windows.offsets

    def __len__(self) -> int:
        return len(self.windows)

    def part(self, a: int, z: int) -> "Raw":
        """The photos a to z."""
        rows = slice(int(self.offsets[a]), int(self.offsets[z]))
        maps, fine, early = (each.part(a, z) if each else None for each in (self.maps, self.fine, self.early))
        return Raw(self.hashes[a:z], self.windows.part(a, z), self.X[rows], maps, fine, self.widths, early)

    @classmethod
    def concatenate(cls, parts: Sequence["Raw"]) -> "Raw":
        """All photos of `parts`, in their order."""
        return cls(
            tuple(name for part in parts for name in part.hashes),
            Windows.concatenate([part.windows for part in parts]),
            np.concatenate([part.X for part in parts]),
            _joined([part.maps for part in parts]),
            _joined([part.fine for part in parts]),
            parts[0].widths,
            _joined([part.early for part in parts]),
        )
