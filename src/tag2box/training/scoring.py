"""`Weights`: one linear detector per class; `score_windows` and its kin: what they say of windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.halves import as_float32
from tag2box.runtime.packing import stored

Floats = NDArray[np.float64]

# Rows of X in one product: 8192 x 1280 floats are 40 MB.
BLOCK = 8192


@stored
@dataclass(frozen=True)
class Weights:
    """One linear detector per class: scores X Wᵀ + b. W: (n_classes, d); b: (n_classes,); float64.

    trace: per class its rounds, each with the objective and its parts, and how many windows were held.
    """

    W: Floats
    b: Floats
    trace: tuple[tuple[dict[str, float], ...], ...] = ()

    @staticmethod
    def none(n_classes: int, d: int) -> "Weights":
        """Weights that say nothing: all scores are 0."""
        return Weights(np.zeros((n_classes, d)), np.zeros(n_classes))

    @staticmethod
    def joined(
        theta: Sequence[Floats], bias: float, traces: Sequence[Sequence[dict[str, float]]]
    ) -> "Weights":
        """The weights of all classes, from θ = (w, v) of each; the intercept is bias times v."""
        together = np.stack(theta)
        return Weights(together[:, :-1], bias * together[:, -1], tuple(tuple(trace) for trace in traces))


def take_rows(X: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """These rows of X, in float32; block by block, since X may be of another type."""
    out = np.empty((len(rows), X.shape[1]), np.float32)
    for a in range(0, len(rows), BLOCK):
        as_float32(X[rows[a : a + BLOCK]], out[a : a + BLOCK])
    return out


def score_windows(X: NDArray[np.floating], weights: Weights) -> NDArray[np.float32]:
    """Scores of every window for every class, (n, n_classes)."""
    out = np.empty((len(X), len(weights.b)), np.float32)
    for a, scores in score_blocks(X, weights):
        out[a : a + len(scores)] = scores
    return out


def score_blocks(
    X: NDArray[np.floating], weights: Weights, first: int = 0, end: int | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The same block by block, from row `first` up to `end`: its first row, and its scores.

    One product a block.
    """
    W, b = weights.W.T.astype(np.float32), weights.b.astype(np.float32)
    last = len(X) if end is None else end
    for a in range(first, last, BLOCK):
        yield a, as_float32(X[a : min(a + BLOCK, last)]) @ W + b


def score_groups(
    X: NDArray[np.floating], offsets: NDArray[np.int64], weights: Weights
) -> Iterator[tuple[range, NDArray[np.float32]]]:
    """The same by whole photos: some that follow each other, and the scores of all their windows."""
    done = 0
    waiting: NDArray[np.float32] = np.empty((0, len(weights.b)), np.float32)
    for a, scores in score_blocks(X, weights):
        waiting = np.concatenate([waiting, scores])
        upto = int(np.searchsorted(offsets, a + len(scores), side="right")) - 1
        if upto > done:
            cut = offsets[upto] - offsets[done]
            yield range(done, upto), waiting[:cut]
            done, waiting = upto, waiting[cut:]


def score_photos(
    X: NDArray[np.floating], offsets: NDArray[np.int64], weights: Weights
) -> Iterator[NDArray[np.float32]]:
    """The same photo by photo, (n_i, n_classes) each."""
    done = 0
    for photos, scores in score_groups(X, offsets, weights):
        first = offsets[photos.start]
        yield from (scores[offsets[i] - first : offsets[i + 1] - first] for i in photos)
        done = photos.stop
    for _ in range(done, len(offsets) - 1):  # no photo has any window
        yield np.empty((0, len(weights.b)), np.float32)
