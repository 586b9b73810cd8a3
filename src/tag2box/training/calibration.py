"""From scores to confidences in [0, 1], which annotation tools expect: how likely a box is right.

A score is measured from what the best box of a typical photo of its class has. It is one of the things that
tell right boxes from wrong ones: `confidence` has the others, and weighs them. What a person judged shifts
the result, class by class. How likely tags are says a logistic curve (`calibrate`, Platt 1999).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored
from tag2box.training.confidence import NEW, TAGGED, UNKNOWN, Shape, box_features, evened

Floats = NDArray[np.float64]

# A curve that did not rise would turn the ranking round; this one hardly rises.
LEAST_SLOPE = 1e-3
# The deviation that the shift of a class may have before anything is judged, in logits.
SHIFT = 1.0


@stored
@dataclass(frozen=True)
class Calibration:
    """curves: (n_classes, 2), the slope and offset by which scores are measured (`score_curves`).

    traits: (n_classes, 2), what the boxes of each class have in common (`confidence.Traits`); None: unknown.
    shift: (n_classes,), what is added to the logits, by what a person judged; None is 0.
    """

    curves: Floats
    traits: Floats | None = None
    shift: Floats | None = None

    def features(
        self, scores: Floats, label: NDArray[np.intp], share: Floats, overlap: Floats, log_area: Floats
    ) -> Floats:
        """What tells how likely boxes are right, (n, n_features): see `confidence.box_features`."""
        a, b = self.curves[label].T
        traits = np.tile(np.array(UNKNOWN), (len(label), 1)) if self.traits is None else self.traits[label]
        return box_features(a * scores + b, share, overlap, log_area, traits)

    def __call__(self, features: Floats, label: NDArray[np.intp], *, tagged: bool = False) -> Floats:
        """The confidence of boxes with these features. tagged: their photos are known to have the class."""
        logit = Shape.of(TAGGED if tagged else NEW).logit(features)
        if self.shift is not None:
            logit = logit + self.shift[label]
        probability = np.asarray(1 / (1 + np.exp(-np.clip(logit, -500, 500))))
        return probability if tagged else evened(probability)


def judged_shift(confidence: Floats, right: NDArray[np.bool_]) -> float:
    """What to add to the logits of a class, by which of its boxes a person found right.

    The most likely shift, where one of 0 is expected with a deviation of `SHIFT`: a few boxes move it little.
    """
    logit = np.log(np.clip(confidence, 1e-6, 1 - 1e-6) / np.clip(1 - confidence, 1e-6, 1 - 1e-6))
    shift = 0.0
    for _ in range(20):  # Newton's steps: the function is convex in one number
        p = 1 / (1 + np.exp(-(logit + shift)))
        shift -= ((p - right).sum() + shift / SHIFT**2) / ((p * (1 - p)).sum() + 1 / SHIFT**2)
    return float(shift)


def calibrate(best: NDArray[np.floating], tags: NDArray[np.int8]) -> Floats:
    """Slope and offset of each class's curve, (n_classes, 2), from its best score in every image.

    best, tags: (n_images, n_classes). Without positive or negative images a class gets the plain curve.
    """
    from sklearn.linear_model import LogisticRegression

    out = np.tile([1.0, 0.0], (tags.shape[1], 1))
    for c in range(tags.shape[1]):
        known = (tags[:, c] != 0) & np.isfinite(best[:, c])
        if len(np.unique(tags[known, c])) == 2:
            with one_thread():  # two numbers are learned: threads would only wait for each other
                curve = LogisticRegression().fit(best[known, c, None], tags[known, c])
            out[c] = max(curve.coef_[0, 0], LEAST_SLOPE), curve.intercept_[0]
    return out


def score_curves(best: NDArray[np.floating], tags: NDArray[np.int8]) -> Floats:
    """Slope and offset by which scores are measured, (n_classes, 2): 0 is the typical photo of a class.

    That is what the best box of a photo with the class has in the middle. The slope is one for all classes:
    of classes whose tags are told badly, as of cards that differ by a mark, boxes are found as well.
    """
    out = np.tile([1.0, 0.0], (tags.shape[1], 1))
    away = [np.empty(0)]
    for c, column in enumerate(tags.T):
        positive = best[(column == 1) & np.isfinite(best[:, c]), c].astype(np.float64)
        if len(positive):
            out[c, 1] = -np.median(positive)
            away.append(positive + out[c, 1])
    return out * _slope(calibrate(best, tags)[:, 0], tags, np.concatenate(away))


def _slope(curves: Floats, tags: NDArray[np.int8], away: Floats) -> float:
    """The slope of all classes: between those that tell tags, and one a deviation from the typical photo.

    More photos make scores larger, which neither follows: tags are told better, and scores lie farther apart.
    Their geometric mean stays as it is (docs/experiments). Scores of any scale get the same slope.
    """
    deviation = float(np.sqrt(np.mean(np.square(away)))) if len(away) else 0.0
    if deviation == 0:
        return 1.0
    told = (tags == 1).any(axis=0) & (tags == -1).any(axis=0)
    steep = float(np.median(curves[told])) if told.any() else 1 / deviation
    return float(np.sqrt(steep / deviation))
