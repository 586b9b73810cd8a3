"""Whether confidences mean what they say: of boxes at 0.7, are seven in ten right?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.matching import IGNORED, TRUE, align, outcomes
from tag2box.images import ImageSet, Truth


class Reliability(NamedTuple):
    """Detections in bins of equal width by their confidence; NaN where a bin is empty.

    Parameters
    ----------
    boxes : ndarray of int of shape (n_bins,)
        The number of detections in each bin.
    confidence : ndarray of shape (n_bins,)
        Their mean confidence.
    right : ndarray of shape (n_bins,)
        The share of them that is right.
    """

    boxes: NDArray[np.int64]
    confidence: NDArray[np.float64]
    right: NDArray[np.float64]

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |confidence - right| over the detections."""
        filled = self.boxes > 0
        gap = np.abs(self.confidence - self.right)[filled]
        return float(gap @ self.boxes[filled] / max(float(self.boxes.sum()), 1.0))


def reliability(
    detections: Detections, truth: Truth | ImageSet, *, min_confidence: float = 0.1, bins: int = 10
) -> Reliability:
    """Compare confidences with how often boxes of them are right.

    Parameters
    ----------
    detections : Detections
        The boxes found, with confidences in [0, 1] as scores.
    truth : ImageSet or Truth
        The true boxes, as `evaluate` takes them. A box is right if it is a true positive of VOC; those on
        difficult objects do not count.
    min_confidence : float, default=0.1
        The lowest confidence that counts: nearly all boxes have one near 0, and would hide the others.
    bins : int, default=10
        The number of bins.

    Returns
    -------
    Reliability
        The bins, and the expected calibration error.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.evaluation.reliability import reliability
    >>> detections = t2b.Detections([0, 0], [[0, 0, 10, 10], [50, 50, 60, 60]], [0.9, 0.4], [0, 0])
    >>> truth = t2b.Truth(
    ...     np.array([0]), np.array([[0, 0, 10, 9]], np.float32), np.array([0]), np.array([False])
    ... )
    >>> round(reliability(detections, truth).error, 2)
    0.25
    """
    detections, objects, _ = align(detections, truth)
    if detections.score.min(initial=0) < 0 or detections.score.max(initial=0) > 1:
        raise InputError("scores must be confidences in [0, 1]: detect with detect.confidence = true")
    outcome = outcomes(detections, objects)
    kept = (outcome != IGNORED) & (detections.score >= min_confidence)
    score, right = detections.score[kept], outcome[kept] == TRUE
    bin_ = np.minimum((score * bins).astype(np.intp), bins - 1)
    count = np.bincount(bin_, minlength=bins)
    with np.errstate(invalid="ignore"):  # empty bins are NaN
        return Reliability(
            count.astype(np.int64),
            np.bincount(bin_, score, bins) / count,
            np.bincount(bin_, right, bins) / count,
        )
