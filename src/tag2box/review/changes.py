"""What learning again has changed: which boxes moved, and in a line per class how many, or why none did."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import Box, PhotoCorrections
from tag2box.run.annotations import Annotations

# A box that moved by less is the same one.
UNMOVED = 0.9
# So many judged boxes of a class should show.
ENOUGH = 5
# A confidence that changes by less is shown by the same figure.
SAME_CONFIDENCE = 0.01
# Ten more photos are worth little where they may move fewer of the other boxes.
LITTLE = 0.02


@dataclass(frozen=True)
class Changes:
    """moved: (n,), which boxes are new or elsewhere; before: (n,), the confidence they had, or NaN.

    taught: how many photos were judged in between.
    """

    moved: NDArray[np.bool_]
    before: NDArray[np.float64]
    taught: int


def compare(before: Annotations, now: Annotations) -> Changes:
    """The boxes of a run that has learned again beside those that it had."""
    rows = zip(before.boxes.image, before.boxes.label, strict=True)
    place = {(before.contents[i], before.images.classes[c]): m for m, (i, c) in enumerate(rows)}
    moved, confidence = np.ones(len(now.boxes), np.bool_), np.full(len(now.boxes), np.nan)
    for m, (i, c, xyxy) in enumerate(zip(now.boxes.image, now.boxes.label, now.boxes.xyxy, strict=True)):
        if (was := place.get((now.contents[i], now.images.classes[c]))) is not None:
            moved[m] = iou_matrix(xyxy[None], before.boxes.xyxy[was][None])[0, 0] < UNMOVED
            confidence[m] = before.boxes.score[was]
    photos = now.state.photos.values()
    taught = sum(any(box.run == before.key for box in photo.boxes.values()) for photo in photos)
    return Changes(moved, confidence, taught)


def describe(changes: Changes, is_open: NDArray[np.bool_], now: Annotations) -> list[str]:
    """A line for each class that was judged, and one about going on; is_open: (n,), nobody judged it."""
    lines, photos = [], now.state.photos.values()
    for c, name in enumerate(now.images.classes):
        rows = is_open & (now.boxes.label == c)
        confidences = np.stack([changes.before[rows], now.boxes.score[rows]], axis=1)
        lines.append(line_of_class(name, changes.moved[rows], confidences, photos))
    return [*filter(None, lines), *worth_of_more(changes, is_open)]


def worth_of_more(changes: Changes, is_open: NDArray[np.bool_]) -> list[str]:
    """What ten more photos would do, if they did as much as the last ones: an upper limit, as a rule."""
    n, moved = int(is_open.sum()), int((changes.moved & is_open).sum())
    if not n or not changes.taught:
        return []
    more = 10 * moved / changes.taught
    effect = f"{changes.taught} judged photos moved {moved} of the {n} other boxes: ten more "
    if more < LITTLE * n:
        return [effect + "would change little. A good place to stop."]
    return [effect + f"may move about {min(max(round(more), 1), n)}."]


def line_of_class(
    name: str,
    moved: NDArray[np.bool_],
    confidences: NDArray[np.float64],
    photos: Iterable[PhotoCorrections],
) -> str | None:
    """What learning again did for one class; None of a class of which nobody has judged a box.

    moved: (n,), of its boxes that nobody has judged; confidences: (n, 2), theirs before, or NaN, and after.
    """
    judged = [box for photo in photos for box in photo.boxes.values() if name in _names(box)]
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
