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
from tag2box.review.found import FoundBoxes
from tag2box.review.sampling import Estimate, estimate
from tag2box.run.corrections import SAME

__all__ = ["Verdicts"]

UNKNOWN, WRONG, RIGHT, SKIPPED = range(4)


class Verdicts:
    """The verdict on each found box. ids: of the boxes; ends: boxes of photo n are ends[n] to ends[n + 1]."""

    def __init__(self, found: FoundBoxes, ids: Sequence[str], classes: Sequence[str], n_photos: int) -> None:
        self._found, self._ids, self._classes = found, ids, classes
        self.ends = np.searchsorted(found.image, np.arange(n_photos + 1)).tolist()
        self._verdict = np.full(len(found), UNKNOWN, np.int8)
        self._turns: list[tuple[str | None, NDArray[np.intp]]] = []

    def draw(self, photos: NDArray[np.intp]) -> None:
        """Count the boxes of these photos, in this order."""
        mine = [np.arange(self.ends[n], self.ends[n + 1]) for n in photos.tolist()]
        everything = np.concatenate([np.empty(0, np.intp), *mine])
        label = self._found.label[everything]
        per_class = [(name, everything[label == c]) for c, name in enumerate(self._classes)]
        self._turns = [(None, everything), *per_class]

    def update(self, n: int, said: PhotoCorrections) -> None:
        """Take in what is said of photo n."""
        for m in range(self.ends[n], self.ends[n + 1]):
            self._verdict[m] = self._of(m, said)

    def _of(self, m: int, said: PhotoCorrections) -> int:
        if said.state == "skipped":
            return SKIPPED
        name = self._classes[self._found.label[m]]
        accepted = [box.xyxy for box in said.accepted() if box.name == name]
        if accepted:
            overlap = iou_matrix(self._found.xyxy[m][None], np.array(accepted, np.float32))
            if overlap.max() >= SAME:
                return RIGHT
        known = self._ids[m] in said.boxes or said.state == "reviewed" or said.tags.get(name) == -1
        return WRONG if known else UNKNOWN

    def figures(self) -> list[dict[str, Any]]:
        """Of all classes together (class null), and of each, the share of right boxes by the random share."""
        return [{"class": name, **asdict(self._estimate(boxes))} for name, boxes in self._turns]

    def _estimate(self, boxes: NDArray[np.intp]) -> Estimate:
        """Counting stops at the first box of which nothing was said: what is behind it was chosen."""
        verdicts = self._verdict[boxes]
        open_ = np.flatnonzero(verdicts == UNKNOWN)
        counted = verdicts[: open_[0]] if len(open_) else verdicts
        right = int((counted == RIGHT).sum())
        return estimate(right, right + int((counted == WRONG).sum()), len(boxes))
