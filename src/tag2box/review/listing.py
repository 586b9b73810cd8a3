"""`Index`: which photos are wanted, in which order. Arrays over all photos: 20,000 take milliseconds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections import PhotoCorrections
from tag2box.corrections.events import PHOTO_STATES
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.review.boxes import ReviewBoxes

ORDERS = ("teaching", "tags", "confident", "name", "random")
SHOWS = ("all", "open", "reviewed", "skipped", "doubtful", "moved")
# A box is doubtful from here on: that of the median margin has 0.37.
DOUBTFUL = 0.5


@dataclass(frozen=True)
class Wanted:
    """What the page asks for; class_: its number, or None for all."""

    order: str = "teaching"
    show: str = "all"
    class_: int | None = None
    low: float = 0.0
    high: float = 1.0
    search: str = ""

    @staticmethod
    def parse(query: Any, classes: tuple[str, ...]) -> "Wanted":
        """From the query of an address; `InputError` where it makes no sense."""
        order, show, name = query.get("order", "teaching"), query.get("show", "all"), query.get("class", "")
        if order not in ORDERS or show not in SHOWS or (name and name not in classes):
            raise InputError("no such order, selection or class")
        try:
            low, high = float(query.get("low", 0)), float(query.get("high", 1))
        except ValueError:
            raise InputError("a confidence is a number from 0 to 1") from None
        return Wanted(order, show, classes.index(name) if name else None, low, high, query.get("search", ""))


class Index:
    """teaching: photos by what they teach, and random ones; drawn: the random order; moved: by learning.

    suspects: photos by the tag of theirs that is most likely wrong.
    """

    def __init__(self, images: ImageSet, boxes: ReviewBoxes) -> None:
        n = len(images)
        self._names = [name.casefold() for name in images.ids]
        self._classes = images.classes
        self._by_name = np.array(sorted(range(n), key=lambda i: images.ids[i]), np.intp)
        self._boxes = boxes
        self._has = images.tags == 1
        self._has[boxes.image, boxes.label] = True
        self._tags = self._has.copy()
        self._state = np.full(n, PHOTO_STATES.index("open"), np.int8)
        self._best = np.full(n, -1.0)
        np.maximum.at(self._best, boxes.image, boxes.confidence)
        self._doubt = np.zeros(n)
        np.maximum.at(self._doubt, boxes.image, boxes.doubt)
        self.teaching = self.drawn = self.suspects = boxes.order
        self.moved = np.zeros(n, np.bool_)

    def update(self, n: int, photo: PhotoCorrections) -> None:
        """Take in what is said of photo n."""
        self._state[n] = PHOTO_STATES.index(photo.state)
        self._has[n] = self._tags[n]
        for c, name in enumerate(self._classes):
            if name in photo.tags:
                self._has[n, c] = photo.tags[name] == 1
        for box in photo.accepted():
            if box.name in self._classes:
                self._has[n, self._classes.index(box.name)] = True

    def count(self, state: str) -> int:
        """How many photos are in that state."""
        return int((self._state == PHOTO_STATES.index(state)).sum())

    def find(self, wanted: Wanted) -> NDArray[np.intp]:
        """The photos that are wanted."""
        mask = np.ones(len(self._names), np.bool_)
        if wanted.show in PHOTO_STATES:
            mask &= self._state == PHOTO_STATES.index(wanted.show)
        elif wanted.show == "doubtful":
            mask &= self._doubt >= DOUBTFUL
        elif wanted.show == "moved":
            mask &= self.moved
        if wanted.class_ is not None:
            mask &= self._has[:, wanted.class_]
        if wanted.low > 0 or wanted.high < 1:
            mask &= self._confident(wanted)
        if words := wanted.search.casefold():
            mask &= np.array([words in name for name in self._names], np.bool_)
        order = self._order(wanted)
        return order[mask[order]]

    def _confident(self, wanted: Wanted) -> NDArray[np.bool_]:
        """Photos with a found box, of the class, whose confidence lies in the range."""
        sure = self._boxes.confidence
        rows = (sure >= wanted.low) & (sure <= wanted.high)
        if wanted.class_ is not None:
            rows &= self._boxes.label == wanted.class_
        out = np.zeros(len(self._names), np.bool_)
        out[self._boxes.image[rows]] = True
        return out

    def _order(self, wanted: Wanted) -> NDArray[np.intp]:
        if wanted.order == "name":
            return self._by_name
        if wanted.order == "confident":
            best = self._best
            if wanted.class_ is not None:
                best = np.full(len(best), -1.0)
                of_class = self._boxes.label == wanted.class_
                np.maximum.at(best, self._boxes.image[of_class], self._boxes.confidence[of_class])
            return np.lexsort((self._by_name.argsort(), -best))
        first = {"random": self.drawn, "tags": self.suspects}.get(wanted.order, self.teaching)
        rest = np.ones(len(self._names), np.bool_)
        rest[first] = False
        return np.concatenate([first, self._by_name[rest[self._by_name]]])
