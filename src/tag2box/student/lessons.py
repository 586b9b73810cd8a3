"""`Lessons`: what a run knows of its photos that a student can learn: boxes found, and what is in doubt."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix, nms, vote
from tag2box.corrections.record import Corrections
from tag2box.detection.detector import Detector
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.student.record import Curves
from tag2box.training.known import Known
from tag2box.training.scorer import score_known

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

# A further box of a tag is an object from this confidence, and in doubt from that.
SURE, IN_DOUBT = 0.5, 0.2
# Boxes looked at of each tag of a photo.
MOST = 10
# The overlap from which two boxes of a class are one object.
SAME = 0.5


class Lesson(NamedTuple):
    """One photo: boxes (n, 4) with their labels; which are right, or else in doubt; and its tags."""

    boxes: Floats
    label: Rows
    right: NDArray[np.bool_]
    tags: NDArray[np.int8]


@stored
@dataclass(frozen=True, eq=False)
class Lessons:
    """The lessons of many photos: boxes, label, right of all; offsets: (n_photos + 1,); tags, sizes of each.

    sizes: (n_photos, 2), width and height, in whose pixels the boxes are.
    """

    boxes: Floats
    label: Rows
    right: NDArray[np.bool_]
    offsets: Rows
    tags: NDArray[np.int8]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tags)

    def __getitem__(self, i: int) -> Lesson:
        own = slice(self.offsets[i], self.offsets[i + 1])
        return Lesson(self.boxes[own], self.label[own], self.right[own], self.tags[i])

    def take(self, photos: Rows) -> "Lessons":
        """The lessons of these photos."""
        rows = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in photos]
        chosen = np.concatenate([np.empty(0, np.intp), *rows])
        offsets = np.append(0, np.cumsum([len(own) for own in rows])).astype(np.intp)
        arrays = self.boxes[chosen], self.label[chosen], self.right[chosen]
        return Lessons(*arrays, offsets, self.tags[photos], self.sizes[photos])


@dataclass(frozen=True, eq=False)
class Teacher:
    """A run: its photos as it knows them, what it scores them by, and what a person said of its boxes.

    name: the hash of its detector. known: a function, since it is not needed where lessons are stored.
    """

    name: str
    detector: Detector
    known: Callable[[], Known]
    corrections: Corrections | None = None

    def key(self) -> Any:
        """What it is known by."""
        return self.name, self.corrections and self.corrections.key()


@stage("lessons", version=1)
def find_lessons(teacher: Teacher) -> Lessons:
    """The boxes of each tag: the best one, others that are as sure, and those that a person accepted."""
    known, corrections = teacher.known(), teacher.corrections
    tags = known.tags if corrections is None else corrections.tags
    parts = []
    for i, (with_tags, without) in enumerate(score_known(teacher.detector.scorer, known)):
        of_class = partial(_found, teacher.detector, known.described.windows[i], with_tags, without)
        parts.append([_empty(), *map(of_class, np.flatnonzero(tags[i] == 1))])
        if corrections is not None:
            parts[-1] = _corrected(parts[-1], corrections, i)
    return _joined(parts, tags, known.described.windows.sizes)


_Part = tuple[Floats, Rows, NDArray[np.bool_]]


def _empty() -> _Part:
    return np.empty((0, 4), np.float32), np.empty(0, np.intp), np.empty(0, np.bool_)


def _found(detector: Detector, windows: Floats, with_tags: Floats, without: Floats, c: np.intp) -> _Part:
    """The boxes of class c. The best one is right, whatever its confidence: the photo has the tag."""
    kept = nms(windows, with_tags[:, c], detector.settings.iou_threshold)[:MOST]
    boxes = vote(windows, with_tags[:, c], kept, detector.settings.vote_iou)
    # Whether a box shows the class, whatever its extent.
    shows = Curves(detector.calibration.curves)
    sure = shows(without[kept, c].astype(np.float64), np.full(len(kept), c))
    right = sure >= SURE
    right[:1] = True
    told = right | (sure >= IN_DOUBT)
    return boxes[told], np.full(int(told.sum()), c, np.intp), right[told]


def _corrected(parts: list[_Part], corrections: Corrections, i: int) -> list[_Part]:
    """With what a person said of photo i: accepted boxes, and none that was found where they judged one."""
    own = corrections.image == i
    if not own.any() and not corrections.reviewed[i]:
        return parts
    judged, label, right = corrections.xyxy[own], corrections.label[own], corrections.right[own]
    accepted = judged[right], label[right], np.ones(int(right.sum()), np.bool_)
    if corrections.reviewed[i]:
        return [_empty(), accepted]
    boxes, of, sure = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    same = (iou_matrix(boxes, judged) > SAME) & (of[:, None] == label)
    left = ~same.any(axis=1)
    return [accepted, (boxes[left], of[left], sure[left])]


def _joined(parts: list[list[_Part]], tags: NDArray[np.int8], sizes: NDArray[np.int64]) -> Lessons:
    photos = [[np.concatenate(arrays) for arrays in zip(*part, strict=True)] for part in parts]
    counts = [len(label) for _, label, _ in photos]
    boxes, label, right = (np.concatenate(arrays) for arrays in zip(*photos, strict=True))
    return Lessons(boxes, label, right, np.append(0, np.cumsum(counts)).astype(np.intp), tags, sizes)
