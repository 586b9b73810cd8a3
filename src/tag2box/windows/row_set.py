"""`RowSet`: a set of rows, a bit each: which of all windows a class holds."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class RowSet:
    """Some of `n` rows. Memory: n / 8 bytes."""

    def __init__(self, n: int) -> None:
        self.bits = np.zeros(-(-n // 8), np.uint8)

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` are in it."""
        return np.asarray((self.bits[rows >> 3] >> (rows & 7).astype(np.uint8)) & 1, np.bool_)

    def add(self, rows: Rows) -> None:
        """Take in these rows."""
        np.bitwise_or.at(self.bits, rows >> 3, np.uint8(1) << (rows & 7).astype(np.uint8))

    def rows(self) -> Rows:
        """All that are in it, ascending."""
        nonzero = np.flatnonzero(self.bits)
        flags = np.unpackbits(self.bits[nonzero, None], axis=1, bitorder="little").astype(np.bool_)
        at, bit = np.nonzero(flags)
        return 8 * nonzero[at] + bit

    def __len__(self) -> int:
        return int(np.bitwise_count(self.bits).sum())
