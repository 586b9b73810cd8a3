"""`Hardest`: of millions of windows, the few that an SVM takes for its class and should not."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.training.scoring import Weights, score_blocks
from tag2box.windows.spans import Spans

Rows = NDArray[np.int64]
Scored = tuple[Rows, NDArray[np.float32]]

# Negatives without a loss score less than this.
LEAST = np.float32(-1)


class Sought(NamedTuple):
    """What a machine looks for in some rows: those of `negatives` but `held` that score above `least`."""

    negatives: Spans
    held: Rows
    least: np.float32


def look_for(
    X: NDArray[np.floating], weights: Weights, n: int, part: tuple[int, int, list[Sought]]
) -> list[Scored]:
    """The n hardest negatives among the rows from a to z, for each class."""
    a, z, sought = part
    of_classes = [Hardest(n, each.least) for each in sought]
    for first, scores in score_blocks(X, weights, a, z):
        for c, (hardest, (negatives, held, _)) in enumerate(zip(of_classes, sought, strict=True)):
            rows = first + np.flatnonzero(scores[:, c] > hardest.least)
            rows = rows[negatives.has(rows)]
            rows = np.setdiff1d(rows, held, assume_unique=True)
            hardest.add(rows, scores[rows - first, c])
    return [hardest.best() for hardest in of_classes]


class Hardest:
    """The n hardest of rows that come in ascending order.

    Of equal scores the first rows count: so what is dropped on the way would be dropped at the end.
    """

    def __init__(self, n: int, least: np.float32 = LEAST) -> None:
        self.n, self.least, self.waiting = n, least, 0
        self.seen: list[Scored] = [(np.empty(0, np.int64), np.empty(0, np.float32))]

    def add(self, rows: Rows, scores: NDArray[np.float32]) -> None:
        """See more rows, with their scores."""
        self.seen.append((rows, scores))
        self.waiting += len(rows)
        if self.waiting > 4 * self.n:
            self.best()

    def best(self) -> Scored:
        """What is left, ascending; whatever is not above `least` will be dropped."""
        rows, scores = (np.concatenate(parts) for parts in zip(*self.seen, strict=True))
        best = np.sort(np.argsort(-scores, kind="stable")[: self.n])
        if len(best) == self.n:
            self.least = scores[best].min()
        self.seen, self.waiting = [(rows[best], scores[best])], len(best)
        return self.seen[0]

    def rows(self) -> Rows:
        """Their rows, ascending."""
        return self.best()[0]
