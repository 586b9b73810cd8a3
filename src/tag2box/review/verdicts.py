"""`Verdicts`: which found boxes are right by what was said, and what the random share says of all of them.

A click changes the verdicts of one photo; the figures of all classes are then counted from an array. So they
cost the same however much was judged.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import PhotoCorrections
from tag2box.review.boxes import ReviewBoxes
from tag2box.review.sampling import ShareEstimate, estimate_share
from tag2box.run.corrections import SAME

UNKNOWN, WRONG, RIGHT, SKIPPED = range(4)


class Verdicts:
    """The verdict on each found box. ids: of the boxes; ends: boxes of photo n are ends[n] to ends[n + 1]."""

    def __init__(self, boxes: ReviewBoxes, ids: Sequence[str], classes: Sequence[str], n_photos: int) -> None:
        self._boxes, self._ids, self._classes = boxes, ids, classes
        self.ends = np.searchsorted(boxes.image, np.arange(n_photos + 1)).tolist()
        self._verdict = np.full(len(boxes), UNKNOWN, np.int8)
        self._turns: list[tuple[str | None, NDArray[np.intp]]] = []

    def draw(self, photos: NDArray[np.intp]) -> None:
        """Count the boxes of these photos, in this order."""
        rows = [np.arange(self.ends[n], self.ends[n + 1]) for n in photos.tolist()]
        everything = np.concatenate([np.empty(0, np.intp), *rows])
        label = self._boxes.label[everything]
        per_class = [(name, everything[label == c]) for c, name in enumerate(self._classes)]
        self._turns = [(None, everything), *per_class]

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which boxes nobody has judged."""
        return np.asarray(self._verdict == UNKNOWN)

    def update(self, n: int, corrections: PhotoCorrections) -> None:
        """Take in what is said of photo n."""
        for m in range(self.ends[n], self.ends[n + 1]):
            self._verdict[m] = self._of(m, corrections)

    def _of(self, m: int, corrections: PhotoCorrections) -> int:
        if corrections.state == "skipped":
            return SKIPPED
        name = self._classes[self._boxes.label[m]]
        accepted = [box.xyxy for box in corrections.accepted() if box.name == name]
        if accepted:
            overlap = iou_matrix(self._boxes.xyxy[m][None], np.array(accepted, np.float32))
            if overlap.max() >= SAME:
                return RIGHT
        known = (
            self._ids[m] in corrections.boxes
            or corrections.state == "reviewed"
            or corrections.tags.get(name) == -1
        )
        return WRONG if known else UNKNOWN

    def figures(self) -> list[dict[str, Any]]:
        """Of all classes together (class null), and of each, the share of right boxes by the random share."""
        return [{"class": name, **asdict(self._estimate(boxes))} for name, boxes in self._turns]

    def _estimate(self, boxes: NDArray[np.intp]) -> ShareEstimate:
        """Counting stops at the first box of which nothing was said: what is behind it was chosen."""
        verdicts = self._verdict[boxes]
        open_ = np.flatnonzero(verdicts == UNKNOWN)
        counted = verdicts[: open_[0]] if len(open_) else verdicts
        right = int((counted == RIGHT).sum())
        return estimate_share(right, right + int((counted == WRONG).sum()), len(boxes))
