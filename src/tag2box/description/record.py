"""`Described`: the windows of photos, a vector for each, and the photos' maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.runtime.packing import stored
from tag2box.windows.record import ByImage, Windows

# What is stored of photos: the rows of each array, one photo after another.
StoredRows = Mapping[str, Any]
MAPS = ("maps", "details", "light", "fine")


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
    def of_image(cls, map_: NDArray[Any]) -> "Maps":
        """The map (h, w, c) of one photo."""
        h, w, c = map_.shape
        return cls(map_.reshape(-1, c), np.array([0, h * w], np.int64), np.array([[h, w]], np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence["Maps"]) -> "Maps":
        """The maps of several sets of photos."""
        X, counts, shape = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "counts", "shape")
        )
        return cls(X, _offsets(counts), shape)


@stored
@dataclass(frozen=True)
class EarlyMaps(ByImage):
    """Maps at the network's cut in 8 bits: low + step X, in a range of its own for each photo and channel.

    X: (n_cells, c) uint8; offsets: (n_images + 1,); shape: (n_images, 2); low, step: (n_images, c).
    """

    X: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    shape: NDArray[np.int64]
    low: NDArray[np.float32]
    step: NDArray[np.float32]

    def __getitem__(self, i: int) -> NDArray[np.float32]:
        """The map of image i, (h, w, c)."""
        cells = self.X[self.offsets[i] : self.offsets[i + 1]]
        values = self.low[i] + self.step[i] * cells.astype(np.float32)
        return np.asarray(values.reshape(*self.shape[i], self.X.shape[1]), np.float32)

    @classmethod
    def of_image(cls, map_: NDArray[np.floating]) -> "EarlyMaps":
        """The map (h, w, c) of one photo; each number is off by half a step of 255 at most."""
        h, w, c = map_.shape
        cells = np.asarray(map_, np.float32).reshape(-1, c)
        low = cells.min(axis=0)
        step = (cells.max(axis=0) - low) / np.float32(255)
        X = np.rint((cells - low) / np.where(step > 0, step, 1)).astype(np.uint8)
        return cls(X, np.array([0, h * w], np.int64), np.array([[h, w]], np.int64), low[None], step[None])

    def part(self, a: int, z: int) -> "EarlyMaps":
        """The maps of images a to z."""
        first, last = self.offsets[a], self.offsets[z]
        offsets = self.offsets[a : z + 1] - first
        return EarlyMaps(self.X[first:last], offsets, self.shape[a:z], self.low[a:z], self.step[a:z])


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
    early : tuple of EarlyMaps, default=()
        The maps at the network's cut, the largest size of the photo first, where they are of use later.
    details : Maps, default=None
        What the fine cells speak for, a number for each class, where objects are small (`Details`).
    light : Maps, default=None
        The lightness of each photo at `LIGHT_SIDE` pixels, in 8 bits: where edges are.
    fine : Maps, default=None
        A finer last map, until the context of the windows is known.

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

    windows: Windows
    X: NDArray[np.floating]
    maps: Maps | None = None
    early: tuple[EarlyMaps, ...] = ()
    details: Maps | None = None
    light: Maps | None = None
    fine: Maps | None = None

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
        maps = {name: each.part(a, z) for name in MAPS if (each := getattr(self, name)) is not None}
        early = tuple(each.part(a, z) for each in self.early)
        return Described(self.windows.part(a, z), self.X[rows], early=early, **maps)

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
        return replace(self, windows=windows, X=self.X[rows])

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
        rows = [part.to_rows() for part in parts]
        return cls.of_rows({name: np.concatenate([each[name] for each in rows]) for name in rows[0]})

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """Take it apart for the store.

        Returns
        -------
        dict of ndarray
            The rows of each array; those of a photo stand together.
        """
        rows: dict[str, NDArray[Any]] = {
            "xyxy": self.windows.xyxy,
            "counts": self.counts,
            "sizes": self.windows.sizes,
            "X": self.X,
        }
        for name in MAPS:
            if (maps := getattr(self, name)) is not None:
                rows |= {f"{name}.X": maps.X, f"{name}.shape": maps.shape}
        for k, early in enumerate(self.early):
            rows |= {f"early{k}.{name}": getattr(early, name) for name in ("X", "shape", "low", "step")}
        return rows

    @classmethod
    def of_rows(cls, rows: StoredRows) -> "Described":
        """Make it of what `to_rows` gave.

        Parameters
        ----------
        rows : mapping
            The rows of each array, one photo after another.

        Returns
        -------
        Described
            The photos; arrays that are mapped stay so.
        """
        offsets = _offsets(np.asarray(rows["counts"]))
        windows = Windows(np.asarray(rows["xyxy"]), offsets, np.asarray(rows["sizes"]))
        maps = {
            name: Maps(rows[f"{name}.X"], *_shapes(rows[f"{name}.shape"]))
            for name in MAPS
            if f"{name}.X" in rows
        }
        early: list[EarlyMaps] = []
        while (k := f"early{len(early)}") and f"{k}.X" in rows:
            low, step = (np.asarray(rows[f"{k}.{name}"]) for name in ("low", "step"))
            early.append(EarlyMaps(rows[f"{k}.X"], *_shapes(rows[f"{k}.shape"]), low, step))
        return cls(windows, rows["X"], early=tuple(early), **maps)


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(counts)).astype(np.int64)


def _shapes(rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offsets of maps, and their shapes."""
    shape = np.asarray(rows)
    return _offsets(shape.prod(axis=1)), shape
