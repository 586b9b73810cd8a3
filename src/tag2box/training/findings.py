"""What a detector finds in the images it learned from: the best window of each positive one, and its box."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import vote
from tag2box.runtime.packing import stored
from tag2box.training.calibration import calibrate
from tag2box.training.scoring import Weights
from tag2box.windows.search import Windows

__all__ = ["Best", "ByPhoto", "Refined", "best_of_image", "best_windows", "with_findings"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
# The scores of each photo's windows for every class, (n_i, n_classes), one photo after another.
ByPhoto = Iterable[NDArray[np.float32]]


@stored
@dataclass(frozen=True)
class Refined(Weights):
    """`Weights`, and what they say of the images learned from.

    mined: per class the window found in each positive image, rows of X; calibration: see there; best: the
    scores of the windows that are mined; reliability: (n_classes,), about the share of them that are right;
    boxes: (n, 4) for each class, where the windows near those mined say that the objects are.
    """

    mined: tuple[Rows, ...] = ()
    calibration: Floats = field(default_factory=lambda: np.empty((0, 2)))
    best: tuple[Floats, ...] = ()
    reliability: Floats | None = None
    boxes: tuple[NDArray[np.float32], ...] = ()


class Best(NamedTuple):
    """The best window of each positive image, in order, for each class: row of X, score, and voted box."""

    rows: tuple[Rows, ...]
    scores: tuple[Floats, ...]
    boxes: tuple[NDArray[np.float32], ...]


def with_findings(
    weights: Weights,
    windows: Windows,
    tags: NDArray[np.int8],
    scores: ByPhoto,
    unaided: ByPhoto,
    vote_iou: float,
) -> Refined:
    """`weights`, with the best window of each positive image by `scores`, and the confidences' curves.

    unaided: the scores that these images would have if their tags were not known, as new ones have them.
    vote_iou: the windows near the best one that vote on where the object is (`boxes.vote`).
    """
    best = best_windows(windows, tags, scores, vote_iou)
    curves = calibrate(best_of_image(unaided), tags)
    return Refined(weights.W, weights.b, weights.trace, best.rows, curves, best.scores, boxes=best.boxes)


def best_windows(
    windows: Windows, tags: NDArray[np.int8], scores: ByPhoto, vote_iou: float = 1.0, first: int = 0
) -> Best:
    """The best-scored window of each positive image, for each class; first: what is added to its row."""
    rows: list[list[int]] = [[] for _ in tags.T]
    best: list[list[float]] = [[] for _ in tags.T]
    boxes: list[list[NDArray[np.float32]]] = [[np.empty((0, 4), np.float32)] for _ in tags.T]
    for i, (present, mine) in enumerate(zip(tags == 1, scores, strict=True)):
        for c in np.flatnonzero(present) if len(mine) else ():
            at = int(mine[:, c].argmax())
            rows[c].append(first + int(windows.offsets[i]) + at)
            best[c].append(float(mine[at, c]))
            boxes[c].append(vote(windows[i], mine[:, c], [at], vote_iou))
    return Best(
        tuple(np.array(each, np.int64) for each in rows),
        tuple(np.array(each, float) for each in best),
        tuple(np.concatenate(each) for each in boxes),
    )


def best_of_image(scores: ByPhoto) -> NDArray[np.float32]:
    """(n_images, n_classes); -inf where an image has no windows."""
    return np.stack([mine.max(axis=0, initial=-np.inf) for mine in scores])
