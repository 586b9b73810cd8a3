"""What learning again has changed: which boxes moved, and in a line per class how many, or why none did."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import Box, PhotoCorrections
from tag2box.review.boxes import ReviewBoxes

# A box that moved by less is the same one.
UNMOVED = 0.9
# So many judged boxes of a class should show.
ENOUGH = 5
# A confidence that changes by less is shown by the same figure.
SAME_CONFIDENCE = 0.01


@dataclass(frozen=True)
class Place:
    """Where a box was found, and its confidence."""

    xyxy: NDArray[np.float32]
    confidence: float


Places = dict[tuple[str, str], Place]  # by the SHA-256 of the photo, and the class


def moved_boxes(
    boxes: ReviewBoxes, before: Places, contents: Sequence[str], classes: Sequence[str]
) -> NDArray[np.bool_]:
    """Which of these boxes, found after learning again, are new or elsewhere."""
    moved = np.ones(len(boxes), np.bool_)
    for m, (i, c, xyxy) in enumerate(zip(boxes.image, boxes.label, boxes.xyxy, strict=True)):
        if (was := before.get((contents[i], classes[c]))) is not None:
            moved[m] = iou_matrix(xyxy[None], was.xyxy[None])[0, 0] < UNMOVED
    return moved


def changes(
    name: str,
    moved: NDArray[np.bool_],
    confidences: NDArray[np.float64],
    said: Iterable[PhotoCorrections],
) -> str | None:
    """What learning again did for one class; None of a class of which nobody has judged a box.

    moved: (n,), of its boxes that nobody has judged; confidences: (n, 2), theirs before, or NaN, and after.
    """
    judged = [box for photo in said for box in photo.boxes.values() if name in _names(box)]
    judged = [box for box in judged if box.state != "open"]
    if not judged:
        return None
    if not len(moved):
        return f"{name}: all its boxes are judged."
    if moved.any():
        what = f"{moved.sum()} of {len(moved)} boxes that nobody has judged moved"
        return f"{name}: {what}{_shift(confidences)}."
    return f"{name}: no other box moved{_shift(confidences)}. {_why(judged)}"


def _names(box: Box) -> set[str]:
    return {box.name} | ({box.found[0]} if box.found else set())


def _shift(confidences: NDArray[np.float64]) -> str:
    """How the mean confidence changed, where it did."""
    known = confidences[~np.isnan(confidences).any(axis=1)]
    if not len(known):
        return ""
    before, after = known.mean(axis=0).tolist()
    if abs(after - before) < SAME_CONFIDENCE:
        return ""
    return f", confidence {100 * before:.0f} % before and {100 * after:.0f} % now"


def _why(judged: Sequence[Box]) -> str:
    """Why corrections of a class moved none of its other boxes, as far as that can be seen."""
    if len(judged) < ENOUGH:
        return f"{len(judged)} judged so far; from {ENOUGH} on it mostly shows."
    accepted = [box for box in judged if box.state == "accepted"]
    if not accepted:
        return "None was accepted: draw some where the object is."
    if all(box.found and _same(box) for box in accepted):
        return "Those accepted were right as they were found."
    return "The best place in each of them is still the same: judge some that are wrong."


def _same(box: Box) -> bool:
    pair = np.array([box.xyxy, box.found[1] if box.found else box.xyxy], np.float32)
    return bool(iou_matrix(pair[:1], pair[1:])[0, 0] >= UNMOVED)
