"""`Weights`: one linear detector per class; `score_windows`: what they say of windows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.packing import stored

__all__ = ["Weights", "score_windows"]

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


def score_windows(X: NDArray[np.floating], weights: Weights) -> NDArray[np.float32]:
    """Scores of every window for every class, (n, n_classes): one product per block of rows."""
    W, b = weights.W.T.astype(np.float32), weights.b.astype(np.float32)
    out = np.empty((len(X), len(b)), np.float32)
    for a in range(0, len(X), BLOCK):
        np.add(X[a : a + BLOCK].astype(np.float32) @ W, b, out=out[a : a + BLOCK])
    return out
