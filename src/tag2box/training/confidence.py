"""How likely a box is right, by what can be known without true boxes.

Nobody draws a box, so nobody can say on a user's own photos how often boxes are right. But what tells right
boxes from wrong ones is much the same on all kinds of photos: how well the box scores, how far the photo's
other boxes are behind, whether the object map alone would take the same place, whether the box is smaller
than those of its class. And of the class: how far ahead its boxes are for SVMs that have not seen the photo
(`unseen`). A logistic regression on these,

    P(right) = σ(β₀ + Σ_k β_k (f_k - mean_k) / spread_k)

was fitted on sets of photos whose true boxes are known (`confidence_table.py` says which, and has the
numbers; `python -m benchmarks.confidence --fit` makes it anew): once for boxes in photos that are known to
have the class, where the score says little since it was learned there; and once for boxes in new ones, by
the score and the class alone, so that no ranking changes. What a run cannot know (NaN) counts as the mean.

New boxes whose probability is in the middle (`MIDDLE`) are shown together at 0.5 (`evened`), since half of
them is right: a confidence stays how often the boxes are right that have it. The middle begins where
precision and recall together (F1, in the mean over the sets) are nearly best: what is kept at 0.5 is worth
keeping.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.training.confidence_table import CLASS_ERROR, MIDDLE, NEW, TAGGED

__all__ = [
    "CLASS_ERROR",
    "FEATURES",
    "MIDDLE",
    "NEW",
    "TAGGED",
    "UNKNOWN",
    "Shape",
    "Traits",
    "box_features",
    "evened",
    "log_shares",
    "overlaps",
]

Floats = NDArray[np.float64]

# What is known of a box, in this order; the last is of its class.
FEATURES = ("score", "share", "map", "smaller", "ahead")
# Beyond these, a logit says hardly more: its rise is so much less, and no ranking changes.
LARGEST, BEYOND = 12.0, 0.05
# Spreads from the mean beyond which nothing was fitted: the scores of another method may lie there.
FARTHEST = 3.0
# The confidences of the middle go up to this much above 0.5: they keep their order.
RISE = 0.02
# The share of a photo that a box has at least.
SMALLEST = 1e-9


class Traits(NamedTuple):
    """What the boxes of a class have in common in the photos learned from; NaN where nobody knows.

    area: the median logarithm of their share of the photo; ahead: by how much they outscore other places,
    for SVMs that have not seen the photo.
    """

    area: float
    ahead: float

    @staticmethod
    def of(log_areas: Floats, ahead: float) -> "Traits":
        """Of the boxes of a class: the logarithm of what each has of its photo, (n,)."""
        return Traits(float(np.median(log_areas)), float(ahead)) if len(log_areas) else UNKNOWN


# Of a class without any boxes.
UNKNOWN = Traits(np.nan, np.nan)


@dataclass(frozen=True)
class Shape:
    """The regression: β₀, and for each of `FEATURES` its β, mean and spread."""

    bias: float
    weights: Floats
    mean: Floats
    spread: Floats

    @staticmethod
    def of(table: tuple[float, ...]) -> "Shape":
        """From the numbers of the table: β₀, all β, all means, all spreads."""
        weights, mean, spread = np.array(table[1:], np.float64).reshape(3, len(FEATURES))
        return Shape(table[0], weights, mean, spread)

    def logit(self, features: Floats) -> Floats:
        """The logit of being right of each box, (n,), from its features (n, n_features)."""
        z = np.nan_to_num((features - self.mean) / self.spread)
        z[:, 1:] = np.clip(z[:, 1:], -FARTHEST, FARTHEST)  # but the score, which ranks boxes
        return np.asarray(self.bias + z @ self.weights)


def box_features(logit: Floats, share: Floats, overlap: Floats, log_area: Floats, traits: Floats) -> Floats:
    """The features of boxes, (n, n_features).

    logit: of the score by the curve of the class; share: its `log_shares`; overlap: with the window that the
    object map speaks for, or NaN; log_area: of its share of the photo; traits: (n, 2), those of its class.
    """
    area, ahead = traits.T
    within = np.clip(logit, -LARGEST, LARGEST)
    score = within + BEYOND * (logit - within)
    columns = score, share, overlap, np.minimum(log_area - area, 0), ahead
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def evened(probability: Floats, middle: tuple[float, float] = MIDDLE) -> Floats:
    """Probabilities, but those of the middle are 0.5, and as much more as keeps their order."""
    least, most = middle
    within = (probability >= least) & (probability < most)
    flat = 0.5 + RISE * (probability - least) / max(most - least, SMALLEST)
    return np.asarray(np.where(within, flat, probability))


def log_shares(scores: Floats, label: NDArray[np.intp]) -> Floats:
    """The logarithm of each box's share among the photo's boxes of its class: log softmax of their scores.

    Near 0 for a box far ahead of all others, log ½ where there are two as good.
    """
    out = np.empty(len(scores))
    for c in np.unique(label):
        own = scores[label == c]
        power = own - own.max()
        out[label == c] = power - np.log(np.exp(power).sum())
    return out


def overlaps(a: NDArray[np.floating], b: NDArray[np.floating]) -> Floats:
    """The intersection over union of each box of `a` with that of `b` in the same row."""
    sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    union = np.prod(a[:, 2:] - a[:, :2], axis=1) + np.prod(b[:, 2:] - b[:, :2], axis=1) - shared
    return np.asarray(np.divide(shared, union, out=np.zeros(len(a)), where=union > 0), np.float64)
