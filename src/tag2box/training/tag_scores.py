"""How sure one can be of each tag: what a photo's own map says of it, when its own tag was not looked at.

A ridge regression of each class's tags on the mean and the maximum of a photo's cells, with every photo left
out of what judges it. That has a closed form: with H the matrix that makes predictions of tags,

    ŷ_i without photo i = y_i - (y_i - (H y)_i) / (1 - H_ii)

A logistic curve through these predictions gives the probability of each tag. A tag that is set where it is
low, or missing where it is high, is suspect. Of a rare class it is low everywhere, so that alone is not odd.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.description.record import Described
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.training.calibration import calibrate

Floats = NDArray[np.float64]

# Penalties that are tried, in mean eigenvalues of the covariance; the one of the least error is taken.
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)


@stored
@dataclass(frozen=True)
class TagScores:
    """probability: (n_photos, n_classes), that the photo has the class, by what the others teach."""

    probability: Floats

    def suspicion(self, tags: NDArray[np.int8]) -> Floats:
        """The probability that each tag is wrong, (n_photos, n_classes); 0 for tags that nobody knows."""
        return np.where(tags == 1, 1 - self.probability, np.where(tags == -1, self.probability, 0.0))

    def odd(self, tags: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which tags are more likely wrong than right, and not only since their class is rare.

        As in confident learning (Northcutt et al. 2021): a photo with the tag is as unlikely to have the
        class as those without the tag are on average, or the other way round.
        """
        p, (with_it, without) = self.probability, (tags == 1, tags == -1)
        usual = [(p * kind).sum(axis=0) / np.maximum(kind.sum(axis=0), 1) for kind in (with_it, without)]
        both = with_it.any(axis=0) & without.any(axis=0)
        unlike = np.where(with_it, p <= usual[1], p >= usual[0])
        return np.asarray(both & unlike & (self.suspicion(tags) > 1 / 2))


@stage("tag_scores", version=1)
def judge_tags(described: Described, tags: NDArray[np.int8]) -> TagScores:
    """The probability of each tag of each photo, by the others; memory: 16 c bytes a photo, three times."""
    X = _pooled(described)
    spread = X.std(axis=0)
    X -= X.mean(axis=0)
    X /= np.where(spread == 0, 1, spread)
    with one_thread():
        left_out = leave_one_out(X, tags)
    curves = calibrate(left_out, tags)
    return TagScores(1 / (1 + np.exp(-np.clip(left_out * curves[:, 0] + curves[:, 1], -50, 50))))


def _pooled(described: Described) -> Floats:
    """The mean and the maximum of each photo's cells, (n_photos, 2 c)."""
    maps = described.maps
    assert maps is not None  # methods that ask for them keep them
    c = maps.X.shape[1]
    pooled = np.empty((len(described), 2 * c))
    for i in range(len(described)):
        cells = np.asarray(maps[i], np.float64)
        pooled[i, :c], pooled[i, c:] = cells.mean(axis=(0, 1)), cells.max(axis=(0, 1))
    return pooled


def leave_one_out(X: Floats, tags: NDArray[np.int8]) -> Floats:
    """The prediction of each tag by a ridge regression on the other photos, (n_photos, n_classes).

    X: (n_photos, c), centered. A tag that nobody knows is 0, between both.
    """
    y = tags.astype(np.float64)
    middle = y.mean(axis=0)
    values, V = np.linalg.eigh(X.T @ X)
    Z = X @ V
    best, least = np.zeros_like(y), np.inf
    for penalty in PENALTIES:
        shrunk = Z / (np.maximum(values, 0) + penalty * max(float(values.mean()), 1e-12))
        leverage = np.minimum((shrunk * Z).sum(axis=1) + 1 / len(X), 1 - 1e-6)
        residual = (y - middle - shrunk @ (Z.T @ (y - middle))) / (1 - leverage)[:, None]
        if (error := float((residual**2).sum())) < least:
            best, least = y - residual, error
    return best
