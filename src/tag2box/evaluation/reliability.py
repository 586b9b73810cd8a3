"""Whether confidences mean what they say: of boxes at 0.7, are seven in ten right?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.matching import IGNORED, TRUE, align, outcomes
from tag2box.images import ImageSet, Truth


class Reliability(NamedTuple):
    """Detections in bins of equal width by their confidence; NaN where a bin is empty."""

    boxes: NDArray[np.int64]  # how many there are in each bin
    confidence: NDArray[np.float64]  # their mean
    right: NDArray[np.float64]  # the share of them that is right

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |confidence - right| over the detections."""
        filled = self.boxes > 0
        gap = np.abs(self.confidence - self.right)[filled]
        return float(gap @ self.boxes[filled] / max(float(self.boxes.sum()), 1.0))


def reliability(
    detections: Detections, truth: Truth | ImageSet, *, min_confidence: float = 0.1, bins: int = 10
) -> Reliability:
    """Compare confidences with how often boxes of them are right; those on difficult objects do not count.

    min_confidence: nearly all boxes have one near 0, and would hide the others.
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
