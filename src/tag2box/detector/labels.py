"""`BoxLabels`: what a run knows of its photos that a network can learn: boxes found, and what is in doubt."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tag2box.boxes import iou_matrix, nms, vote
from tag2box.corrections.record import Corrections
from tag2box.detector.targets import Labels
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.training.extents import grow
from tag2box.training.learned import Learned
from tag2box.training.scorer import score_known

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

# A further box of a tag is an object from this confidence, and in doubt from that.
SURE, IN_DOUBT = 0.5, 0.2
# Boxes looked at of each tag of a photo.
MOST = 10
# The overlap from which two boxes of a class are one object.
SAME = 0.5
# The confidence of a further box, and of the best one where nobody knows it.
FURTHER, UNKNOWN = 0.4, 0.5
# A box counts as much as its confidence times this, and at least that.
RISE, LEAST_WEIGHT = 1.5, 0.15


@stored
@dataclass(frozen=True, eq=False)
class BoxLabels:
    """The labels of many photos: boxes, label, confidence of all; offsets: (n_photos + 1,); tags, sizes.

    sizes: (n_photos, 2), width and height, in whose pixels the boxes are. confidence: 0 of boxes in doubt.
    """

    boxes: Floats
    label: Rows
    confidence: Floats
    offsets: Rows
    tags: NDArray[np.int8]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tags)

    def of(self, i: int, extent: tuple[int, int], *, mirrored: bool) -> Labels:
        """The labels of photo i in the pixels of a view of it, (width, height)."""
        own = slice(self.offsets[i], self.offsets[i + 1])
        boxes = self.boxes[own] * np.tile(np.array(extent) / self.sizes[i], 2)
        if mirrored:
            boxes[:, [0, 2]] = extent[0] - boxes[:, [2, 0]]
        confidence = self.confidence[own]
        weight = np.where(confidence > 0, np.clip(RISE * confidence, LEAST_WEIGHT, 1), 0).astype(np.float32)
        return Labels(boxes.astype(np.float32), self.label[own], weight, self.tags[i])


@stage("labels", version=1)
def find_labels(
    learned: Learned, iou_threshold: float, vote_iou: float, corrections: Corrections | None
) -> BoxLabels:
    """The boxes of each tag: the best one, others that are as sure, and those that a person accepted."""
    known, windows = learned.known, learned.known.described.windows
    tags = known.tags if corrections is None else corrections.tags
    sure: dict[tuple[int, int], float] = {}
    for c, rows in enumerate(learned.findings.rows):
        images = windows.image_of(rows).tolist()
        sure |= zip(((i, c) for i in images), learned.findings.confidence[c].tolist(), strict=True)
    parts = []
    for i, (with_tags, without) in enumerate(score_known(learned.scorer, known)):
        of_class = partial(_found, learned, iou_threshold, vote_iou, i, with_tags, without)
        present = np.flatnonzero(tags[i] == 1).tolist()
        parts.append([_empty(), *(of_class(c, sure.get((i, c), UNKNOWN)) for c in present)])
        if corrections is not None:
            parts[-1] = _corrected(parts[-1], corrections, i)
    return _joined(parts, tags, windows.sizes)


_Part = tuple[Floats, Rows, Floats]


def _empty() -> _Part:
    return np.empty((0, 4), np.float32), np.empty(0, np.intp), np.empty(0, np.float32)


def _found(
    learned: Learned,
    iou_threshold: float,
    vote_iou: float,
    i: int,
    with_tags: Floats,
    without: Floats,
    c: int,
    best: float,
) -> _Part:
    """The boxes of class c. The first one counts, whatever its confidence: the photo has the tag."""
    windows = learned.known.described.windows[i]
    kept = nms(windows, with_tags[:, c], iou_threshold)[:MOST]
    boxes = vote(windows, with_tags[:, c], kept, vote_iou)
    if learned.findings.growth is not None:
        boxes = grow(boxes, learned.findings.growth[c], learned.known.described.windows.sizes[i])
    # Whether a box shows the class, whatever its extent.
    slope, offset = learned.findings.calibration.curves[c]
    shows = expit(slope * without[kept, c] + offset)
    confidence = np.where(shows >= SURE, FURTHER, 0).astype(np.float32)
    confidence[:1] = best
    told = shows >= IN_DOUBT
    told[:1] = True
    return boxes[told], np.full(int(told.sum()), c, np.intp), confidence[told]


def _corrected(parts: list[_Part], corrections: Corrections, i: int) -> list[_Part]:
    """With what a person said of photo i: accepted boxes, and none that was found where they judged one."""
    own = corrections.image == i
    if not own.any() and not corrections.reviewed[i]:
        return parts
    judged, label, right = corrections.xyxy[own], corrections.label[own], corrections.right[own]
    accepted = judged[right], label[right], np.ones(int(right.sum()), np.float32)
    if corrections.reviewed[i]:
        return [_empty(), accepted]
    boxes, of, confidence = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    same = (iou_matrix(boxes, judged) > SAME) & (of[:, None] == label)
    left = ~same.any(axis=1)
    return [accepted, (boxes[left], of[left], confidence[left])]


def _joined(parts: list[list[_Part]], tags: NDArray[np.int8], sizes: NDArray[np.int64]) -> BoxLabels:
    photos = [[np.concatenate(arrays) for arrays in zip(*part, strict=True)] for part in parts]
    counts = [len(label) for _, label, _ in photos]
    boxes, label, confidence = (np.concatenate(arrays) for arrays in zip(*photos, strict=True))
    return BoxLabels(boxes, label, confidence, np.append(0, np.cumsum(counts)).astype(np.intp), tags, sizes)
