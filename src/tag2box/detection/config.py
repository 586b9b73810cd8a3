"""Settings of detection."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from tag2box.errors import InputError
from tag2box.runtime.checks import Choice, Overlap, Range, Share
from tag2box.runtime.config import Settings
from tag2box.runtime.packing import stored

# The one default confidence of a box that is written, drawn or served. Where confidences mean what they
# say, the threshold of the best F1 is half of that F1 (Lipton et al. 2014): 0.3 for the 0.6 that detectors
# learned from tags reach. Of boxes at 0.3 about one in three is right, and more of those above.
MIN_SCORE = 0.3


def check_min_score(value: float | None) -> None:
    """Refuse what is no threshold: no box is above or below NaN."""
    if value is not None and value != value:  # noqa: PLR0124
        raise InputError("min_score is not a number: give a confidence, such as 0.3")


@stored
@dataclass(frozen=True)
class DetectConfig(Settings):
    """Settings of detection: from the scores of windows to boxes.

    Parameters
    ----------
    by : {"network", "windows"}, default="windows"
        What finds boxes in new photos: a network that learned from the boxes of the run, by one look at each
        photo, or the windows that it learned from. Where photos are too few for a network it is windows.
    iou_threshold : float, default=0.3
        A window is dropped if its intersection over union with a better one of its class is greater than
        this.
    vote_iou : float, default=0.4
        A box is the mean of the windows that overlap it by at least this, weighted by exp(score). With 1 it
        is a window, as in the paper.
    max_detections : int, default=100
        The number of boxes to keep per image and class, best first.
    confidence : bool, default=True
        Whether scores are confidences in [0, 1], as annotation tools expect, or margins of the SVM.
    min_score : float, default=-inf
        The lowest score of a box.
    max_windows : int, default=1000
        The number of windows of a photo that are scored by its maps alone, where these are the context of a
        window or all that is known of it (the modes "pyramid" and "pool"); thinned at `thin_iou`. It is
        cheap, so there are more than are learned from. 0 takes the windows as in learning.
    thin_iou : float, default=0.9
        Of two of these whose intersection over union is greater than this, the later is dropped.
    full_windows : int, default=200
        The number of windows of a photo that go through the network one by one: those that score best by the
        maps of the photo alone. 0 takes all, and as many as in learning if the network runs for each.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.DetectConfig(min_score=0.5).iou_threshold
    0.3
    """

    by: Annotated[str, Choice("network", "windows")] = "windows"
    iou_threshold: Overlap = 0.3
    vote_iou: Share = 0.4
    max_detections: Annotated[int, Range(1, 100_000)] = 100
    confidence: bool = True
    min_score: Annotated[float, Range(-1_000_000, 1_000_000)] | Annotated[float, Choice(-np.inf)] = -np.inf
    # A cascade. On 400 photos of VOC, 300 windows and 100 of them in full had 40.9 mAP, 1000 and 200 43.7.
    max_windows: Annotated[int, Range(0, 10_000)] = 1000
    thin_iou: Overlap = 0.9
    full_windows: Annotated[int, Range(0, 10_000)] = 200
