"""From scores to confidences in [0, 1], which annotation tools expect (Platt 1999).

Nobody says which boxes are right. What can be known is that the image has the class: a logistic curve
through the best scores of the positive and of the negative images learned from. It rises with the score, so
it changes no ranking; on photos that were learned from it is too sure. `retraining.agreement` estimates how
often the box is right then, and `Detector.confidence` is their product.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread

__all__ = ["calibrate", "confidence"]

Floats = NDArray[np.float64]

# A curve that did not rise would turn the ranking round; this one hardly rises.
LEAST_SLOPE = 1e-3


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


def confidence(scores: Floats, label: NDArray[np.intp], curves: Floats) -> Floats:
    """1 / (1 + exp(-(a s + b))) by the curve of each score's class."""
    a, b = curves[label].T
    return np.asarray(1 / (1 + np.exp(-np.clip(a * scores + b, -500, 500))))
