"""From scores to confidences in [0, 1], which annotation tools expect (Platt 1999).

Nobody says which boxes are right. What can be known is that the image has the class: a logistic curve
through the best scores of the positive and of the negative images learned from. It rises with the score, so
it changes no ranking; on photos that were learned from it is too sure. `findings.agreement` estimates how
often the box is right then, and a confidence is their product.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored

__all__ = ["Calibration", "calibrate"]

Floats = NDArray[np.float64]

# A curve that did not rise would turn the ranking round; this one hardly rises.
LEAST_SLOPE = 1e-3


@stored
@dataclass(frozen=True)
class Calibration:
    """curves: (n_classes, 2), the slope and offset of each class's curve.

    reliability: (n_classes,), about the share of boxes of each class that are right; None is 1.
    """

    curves: Floats
    reliability: Floats | None = None

    def __call__(self, scores: Floats, label: NDArray[np.intp]) -> Floats:
        """The confidence of each score, by the curve of its class: 1 / (1 + exp(-(a s + b)))."""
        a, b = self.curves[label].T
        sure = 1 / (1 + np.exp(-np.clip(a * scores + b, -500, 500)))
        return np.asarray(sure if self.reliability is None else sure * self.reliability[label])


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
