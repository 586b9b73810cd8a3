"""A prior on the size of windows. Beyond the paper.

Windows on parts of objects are many and often score as well as the whole: a latent SVM drifts to them. Each
score gets λ log(side of the window / side of its image), in units of the SVM's margin. By cross-validation on
VOC 2007 trainval (six classes), λ = 0.75 instead of 0.25 is worth 1 to 2 points of AP: docs/voc.md.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.boxes import area, as_boxes

__all__ = ["log_size"]


def log_size(xyxy: ArrayLike, offsets: ArrayLike) -> NDArray[np.float32]:
    """Log of each window's side (the root of its area) relative to its image's: (n,), 0 or less.

    The first window of an image is the image itself, as `selective_search` has it.
    """
    boxes, bounds = as_boxes(xyxy), np.asarray(offsets, dtype=np.int64)
    size = np.asarray(area(boxes), np.float64)
    counts = np.diff(bounds)
    whole = np.repeat(size[bounds[:-1][counts > 0]], counts[counts > 0])
    return np.asarray(np.log(size / whole) / 2, np.float32)
