"""How many boxes of a run are right, by those that were judged in the random share of its photos.

Photos are drawn in one random order. Of a class, those that were judged without a gap from the start of that
order are a fair sample of its photos, however a person came to them: what is judged out of turn counts only
once everything before it is judged too.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import PhotoCorrections
from tag2box.run.annotations import Annotations
from tag2box.run.corrections import SAME

# Of so many photos that are shown, one is random: the price of honest figures.
ONE_IN = 4
# Two-sided 95 per cent of a normal distribution.
Z = 1.959964
UNKNOWN, WRONG, RIGHT, SKIPPED = range(4)


class Verdicts:
    """The verdict on each box of the run; drawn: photos in random order.

    A click changes the verdicts of one photo; the figures of all classes are counted from an array.
    """

    def __init__(self, annotations: Annotations, drawn: NDArray[np.intp]) -> None:
        self._of = annotations
        self._verdict = np.full(len(annotations.boxes), UNKNOWN, np.int8)
        ends = annotations.ends
        rows = [np.empty(0, np.intp), *(np.arange(ends[n], ends[n + 1]) for n in drawn.tolist())]
        everything = np.concatenate(rows)
        label = annotations.boxes.label[everything]
        classes = enumerate(annotations.images.classes)
        self._turns = [(None, everything), *((name, everything[label == c]) for c, name in classes)]

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which boxes nobody has judged."""
        return np.asarray(self._verdict == UNKNOWN)

    def update(self, n: int, corrections: PhotoCorrections) -> None:
        """Take in what is said of photo n."""
        for m in range(self._of.ends[n], self._of.ends[n + 1]):
            self._verdict[m] = self._judged(m, corrections)

    def _judged(self, m: int, corrections: PhotoCorrections) -> int:
        if corrections.state == "skipped":
            return SKIPPED
        name = self._of.images.classes[self._of.boxes.label[m]]
        accepted = [box.xyxy for box in corrections.accepted() if box.name == name]
        if accepted:
            overlap = iou_matrix(self._of.boxes.xyxy[m][None], np.array(accepted, np.float32))
            if overlap.max() >= SAME:
                return RIGHT
        known = self._of.ids[m] in corrections.boxes or corrections.state == "reviewed"
        return WRONG if known or corrections.tags.get(name) == -1 else UNKNOWN

    def figures(self) -> list[dict[str, Any]]:
        """Of all classes together (class null), and of each: how many boxes are right of those judged.

        The share of right ones lies in low to high (95 %); left are those not judged.
        """
        return [{"class": name, **self._estimate(boxes)} for name, boxes in self._turns]

    def _estimate(self, boxes: NDArray[np.intp]) -> dict[str, Any]:
        """Counting stops at the first box of which nothing was said: what is behind it was chosen."""
        verdicts = self._verdict[boxes]
        unknown = np.flatnonzero(verdicts == UNKNOWN)
        counted = verdicts[: unknown[0]] if len(unknown) else verdicts
        right, wrong = int((counted == RIGHT).sum()), int((counted == WRONG).sum())
        low, high = wilson(right, right + wrong)
        counts = {"right": right, "judged": right + wrong, "left": len(boxes) - right - wrong}
        return {**counts, "low": low, "high": high}


def random_order(photos: NDArray[np.intp], seed: str) -> NDArray[np.intp]:
    """These photos in an order that depends on the seed and their numbers alone."""
    return np.random.default_rng(int(seed[:8], 16)).permutation(np.sort(photos))


def mixed(order: NDArray[np.intp], drawn: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Every fourth photo from `drawn`, the others from `order`; and which are random. None comes twice."""
    photos: dict[int, bool] = {}
    sources = iter(order.tolist()), iter(drawn.tolist())
    while len(photos) < len(order):
        lot = len(photos) % ONE_IN == ONE_IN - 1
        for random in (lot, not lot):
            if (photo := _next(sources[random], photos)) is not None:
                photos[photo] = random
                break
        else:
            break
    return np.array(list(photos), np.intp), np.array(list(photos.values()), np.bool_)


def _next(photos: Iterator[int], seen: dict[int, bool]) -> int | None:
    return next((photo for photo in photos if photo not in seen), None)


def wilson(right: int, n: int) -> tuple[float, float]:
    """The interval of Wilson (1927) at 95 %: it stays within 0 and 1 and is honest for few."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = right / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
