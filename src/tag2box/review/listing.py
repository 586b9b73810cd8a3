"""`Index`: which photos are wanted, in which order. Arrays over all photos: 20,000 take milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections import PhotoCorrections
from tag2box.corrections.events import PHOTO_STATES
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.web.answers import number_in

ORDERS = ("teaching", "tags", "confident", "name", "random")
SHOWS = ("all", "open", "reviewed", "skipped", "doubtful", "moved")
# A box is doubtful from here on: that of the median margin has 0.37.
DOUBTFUL = 0.5
OPEN = PHOTO_STATES.index("open")


@dataclass(frozen=True)
class Query:
    """What the page asks for; class_: its number, or None for all."""

    order: str = "teaching"
    show: str = "all"
    class_: int | None = None
    low: float = 0.0
    high: float = 1.0
    search: str = ""

    @staticmethod
    def parse(given: Mapping[str, str], classes: tuple[str, ...]) -> "Query":
        """From the query of an address; `InputError` where it makes no sense."""
        order, show, name = given.get("order", "teaching"), given.get("show", "all"), given.get("class", "")
        if order not in ORDERS or show not in SHOWS or (name and name not in classes):
            raise InputError("no such order, selection or class")
        low, high = number_in(given, "low", 0), number_in(given, "high", 1)
        return Query(order, show, classes.index(name) if name else None, low, high, given.get("search", ""))


class Index:
    """The photos with their boxes; doubt: of each box; moved: photos whose boxes moved by learning again."""

    def __init__(
        self, images: ImageSet, boxes: Detections, doubt: NDArray[np.float64], moved: NDArray[np.bool_]
    ) -> None:
        n = len(images)
        self._names = [name.casefold() for name in images.ids]
        self._classes = images.classes
        self._by_name = np.array(sorted(range(n), key=lambda i: images.ids[i]), np.intp)
        self._boxes, self._moved = boxes, moved
        self._tags = images.tags == 1
        self._tags[boxes.image, boxes.label] = True
        self._has = self._tags.copy()
        self._state = np.full(n, OPEN, np.int8)
        self._doubt = np.zeros(n)
        np.maximum.at(self._doubt, boxes.image, doubt)

    def update(self, n: int, photo: PhotoCorrections) -> None:
        """Take in what is said of photo n."""
        self._state[n] = PHOTO_STATES.index(photo.state)
        accepted = {box.name for box in photo.accepted()}
        for c, name in enumerate(self._classes):
            self._has[n, c] = name in accepted or photo.tags.get(name, self._tags[n, c]) == 1

    def count(self, state: str) -> int:
        """How many photos are in that state."""
        return int((self._state == PHOTO_STATES.index(state)).sum())

    def first_open(self, photos: NDArray[np.intp]) -> int | None:
        """The first of these photos that is neither reviewed nor skipped."""
        return next(iter(photos[self._state[photos] == OPEN].tolist()), None)

    def find(self, query: Query, first: NDArray[np.intp]) -> NDArray[np.intp]:
        """The photos that are wanted, those in `first` before the others."""
        mask = np.ones(len(self._names), np.bool_)
        if query.show in PHOTO_STATES:
            mask &= self._state == PHOTO_STATES.index(query.show)
        elif query.show == "doubtful":
            mask &= self._doubt >= DOUBTFUL
        elif query.show == "moved":
            mask &= self._moved
        if query.class_ is not None:
            mask &= self._has[:, query.class_]
        if query.low > 0 or query.high < 1:
            best = self._best(query, (self._boxes.score >= query.low) & (self._boxes.score <= query.high))
            mask &= best >= 0
        if words := query.search.casefold():
            mask &= np.array([words in name for name in self._names], np.bool_)
        order = self._order(query, first)
        return order[mask[order]]

    def _best(self, query: Query, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Of each photo the surest of these boxes, of the class that is wanted; -1 without one."""
        if query.class_ is not None:
            rows = rows & (self._boxes.label == query.class_)
        best = np.full(len(self._names), -1.0)
        np.maximum.at(best, self._boxes.image[rows], self._boxes.score[rows])
        return best

    def _order(self, query: Query, first: NDArray[np.intp]) -> NDArray[np.intp]:
        if query.order == "name":
            return self._by_name
        if query.order == "confident":
            best = self._best(query, np.ones(len(self._boxes), np.bool_))
            return np.lexsort((self._by_name.argsort(), -best))
        rest = np.ones(len(self._names), np.bool_)
        rest[first] = False
        return np.concatenate([first, self._by_name[rest[self._by_name]]])
