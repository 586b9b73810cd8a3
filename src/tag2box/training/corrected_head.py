"""The head of two streams with corrections: judged boxes are tags of windows.

In a photo with accepted boxes of a class only the windows near them may explain its tag,

    φ_c = Σ_{j near an accepted box} a_jc r_jc

so that "where" must look there, and "what" must call it by its name; and the person's tag counts more than
one that only the photo has. Where boxes were rejected and none was accepted, all windows but those may.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections.record import Corrections
from tag2box.runtime.progress import Progress, silent
from tag2box.training.known import Known
from tag2box.training.two_stream import Shown, TwoStream, TwoStreamConfig, fit_two_stream
from tag2box.windows.record import Windows

# A window that overlaps a rejected box by more is that box, and rejected too.
REJECTED = 0.7
# A window that overlaps an accepted box by at least this shows its object.
NEAR = 0.5
# How many tags of photos one counts of which the person has shown the object.
SHOWN = 3.0
# Steps of L-BFGS from the head that the tags taught.
STEPS = 15


def teach_head(
    known: Known,
    corrections: Corrections,
    head: TwoStream,
    config: TwoStreamConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> TwoStream:
    """The head from the one that the tags taught, with what a person said. Costs `STEPS` passes."""
    settings = replace(config, prior=head.prior, iterations=min(STEPS, config.iterations))
    shown = show_windows(known.described.windows, corrections)
    return fit_two_stream(
        replace(known, tags=corrections.tags), settings, shown, head, workers=workers, progress=progress
    )


def show_windows(windows: Windows, corrections: Corrections) -> Shown:
    """Which windows of the judged photos may be objects of each class, and how much each tag counts."""
    n_classes = corrections.tags.shape[1]
    weight = np.ones((len(windows), n_classes), np.float32)
    weight[corrections.image[corrections.right], corrections.label[corrections.right]] = SHOWN
    allowed: dict[int, NDArray[np.bool_]] = {}
    for i in np.unique(corrections.image).tolist():
        here = corrections.image == i
        mask = np.ones((len(windows[i]), n_classes), np.bool_)
        for c in np.unique(corrections.label[here]).tolist():
            mask[:, c] = _may_be(windows[i], corrections, here & (corrections.label == c))
        if len(mask):
            allowed[i] = mask
    return Shown(allowed, weight)


def _may_be(
    boxes: NDArray[np.float32], corrections: Corrections, judged: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of a photo's windows may be an object of the class of which these boxes were judged."""
    if not len(boxes):
        return np.empty(0, np.bool_)
    if (right := judged & corrections.right).any():
        overlap = iou_matrix(corrections.xyxy[right], boxes)
        return np.asarray((overlap >= np.minimum(NEAR, overlap.max(axis=1, keepdims=True))).any(axis=0))
    left = iou_matrix(corrections.xyxy[judged], boxes).max(axis=0) <= REJECTED
    return np.asarray(left if left.any() else ~left)
