"""`Spans`: many rows as few ranges: the windows of 100,000 photos are two numbers a photo, not 300."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.windows.record import ByImage

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """The rows from start[i] up to end[i], of all i: (n,) both, ascending, with a gap between any two."""

    start: Rows
    end: Rows

    @classmethod
    def of_rows(cls, rows: ArrayLike) -> "Spans":
        """These rows, in any order and perhaps several times."""
        each = np.asarray(rows, np.int64)
        return cls._joined(each, each + 1)

    @classmethod
    def of_images(cls, of: ByImage, images: NDArray[np.bool_]) -> "Spans":
        """The rows of some images; images: a mask over all of them."""
        return cls._joined(of.offsets[:-1][images], of.offsets[1:][images])

    @classmethod
    def _joined(cls, start: Rows, end: Rows) -> "Spans":
        """The union of ranges that may touch or overlap."""
        nonempty = np.flatnonzero(end > start)
        order = nonempty[np.argsort(start[nonempty], kind="stable")]
        start, reach = start[order], np.maximum.accumulate(end[order])
        first = np.flatnonzero(np.append(True, start[1:] > reach[:-1])[: len(start)])
        return cls(start[first], reach[np.append(first[1:], len(start))[: len(first)] - 1])

    def __or__(self, other: "Spans") -> "Spans":
        return self._joined(np.append(self.start, other.start), np.append(self.end, other.end))

    def __len__(self) -> int:
        return int((self.end - self.start).sum())

    def __getitem__(self, places: NDArray[np.integer]) -> Rows:
        """The rows at these places among all of them, in ascending order."""
        upto = np.cumsum(self.end - self.start)
        span = np.searchsorted(upto, places, side="right")
        rows: Rows = self.end[span] - (upto[span] - places)
        return rows

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` are among these."""
        if len(self.start) == 0:
            return np.zeros(len(rows), np.bool_)
        span = np.searchsorted(self.start, rows, side="right") - 1
        return np.asarray((span >= 0) & (rows < self.end[span]))

    def between(self, first: int, end: int) -> "Spans":
        """Those of them from row `first` up to `end`."""
        inside = slice(
            np.searchsorted(self.end, first, side="right"), np.searchsorted(self.start, end, side="left")
        )
        return Spans(np.maximum(self.start[inside], first), np.minimum(self.end[inside], end))
