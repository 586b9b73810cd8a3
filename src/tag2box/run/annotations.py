"""`Annotations`: the boxes of a run's photos as they stand now, and what people say of them."""

import threading
import time
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.corrections import (
    CorrectionLog,
    PhotoCorrections,
    State,
    check_event,
    check_inside,
    new_id,
    warn,
)
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.run.corrections import box_id, contents_now, is_replaced, still_open
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.run.same_photos import PhotoNames

MOST_EVENTS = 200
KEYS = frozenset({"set", "id", "box", "class", "xyxy", "state", "tag"})


def sorted_boxes(run: RunFolder) -> Detections:
    """The boxes that the run chose in its photos: those of a photo stand together, in the order of photos."""
    boxes = mined_windows(run)
    return boxes[np.lexsort((boxes.label, boxes.image))]


class Annotations:
    """The photos of one run with their boxes; every method may be called from any thread.

    images: the same photos, where their files are elsewhere now. boxes: as the run chose them; those of
    photo n are ends[n] to ends[n + 1], and have ids. key: of what the run has learned. numbers: of the photos
    that are the same to the byte.
    """

    def __init__(self, folder: str | Path, images: ImageSet | None = None) -> None:
        self.lock = threading.RLock()
        self._elsewhere = images
        self.run = run = _finished(RunFolder(folder))
        self.key = run.keys[run.last_stage][:12]
        self.images = run.images if images is None else _moved_to(run.images, images)
        self.sizes = run.result("described").windows.sizes.tolist()
        self.boxes = sorted_boxes(run)
        self.ends = np.searchsorted(self.boxes.image, np.arange(len(run.images) + 1)).tolist()
        self.log = CorrectionLog(folder)
        self.state = State(self.log.read_new())
        self.contents = contents_now(run, self.state)
        rows = zip(self.boxes.image, self.boxes.label, self.boxes.xyxy, strict=True)
        self.ids = [box_id(self.contents[i], run.images.classes[c], xyxy) for i, c, xyxy in rows]
        self.numbers: dict[str, list[int]] = {}
        for n, content in enumerate(run.contents):
            self.numbers.setdefault(content, []).append(n)
        warn(self.left_out())

    def renewed(self) -> "Annotations":
        """Those of the run that has learned again."""
        return Annotations(self.run.folder, self._elsewhere)

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each photo by its name."""
        return {name: n for n, name in enumerate(self.images.ids)}

    @cached_property
    def names(self) -> PhotoNames:
        """By which photos are found."""
        return PhotoNames(self.images)

    def left_out(self) -> list[str]:
        """What of the corrections is damaged, or of other photos and classes, in lines."""
        return [*self.log.left_out(), *self.state.left_out(self.images, self.contents)]

    def read_new(self) -> set[str]:
        """Take in what was added to the log by anybody; the SHA-256 of the photos that it is about."""
        with self.lock:
            return {event["sha256"] for event in self.log.read_new() if self.state.apply(event)}

    def corrections(self, n: int) -> PhotoCorrections:
        """What was said of photo n; nothing, where its file was replaced."""
        return self.state.photo(self.contents[n])

    def photo(self, n: int) -> dict[str, Any]:
        """Photo n and its boxes: judged ones, then those that the run chose and nobody has judged."""
        if not 0 <= n < len(self.images):
            raise InputError(f"there is no photo {n}: they are numbered from 0 to {len(self.images) - 1}")
        with self.lock:
            corrections = self.corrections(n)
            rows = range(self.ends[n], self.ends[n + 1])
            sure = {self.ids[m]: round(float(self.boxes.score[m]), 4) for m in rows}
            boxes = [
                {"id": key, "class": box.name, "xyxy": list(box.xyxy), "state": box.state}
                | {"found": box.found is not None, "confidence": sure.get(key)}
                for key, box in corrections.boxes.items()
            ]
            for m in rows:
                key, name, xyxy = self.ids[m], self.images.classes[self.boxes.label[m]], self.boxes.xyxy[m]
                if still_open(corrections, key, name, xyxy):
                    box = {"id": key, "class": name, "xyxy": xyxy.tolist(), "state": "open", "found": True}
                    boxes.append({**box, "confidence": sure[key]})
            about = {"name": self.images.ids[n], "sha256": self.run.contents[n], "state": corrections.state}
            width, height = self.sizes[n]
            return {"number": n, **about, "width": width, "height": height, "boxes": boxes}

    def judged_last(self, by: str) -> list[int]:
        """The photos as a whole of which `by` was the last to say something."""
        last = {
            e["sha256"]: e.get("by") for e in CorrectionLog(self.run.folder).read_new() if e["set"] == "photo"
        }
        return [
            self.numbers[content][0] for content in last if last[content] == by and content in self.numbers
        ]

    def save(self, events: Any, by: str = "", drawn: Collection[int] = ()) -> list[str]:
        """Add events that know their photos by their SHA-256 alone; they are on the disk when this returns.

        One without an id gets one. by: who says so. drawn: the photos that were drawn at random.
        Returns the SHA-256 of the photos.
        """
        if not isinstance(events, list) or not 0 < len(events) <= MOST_EVENTS:
            raise InputError(f"expected a list of 1 to {MOST_EVENTS} events")
        with self.lock:
            checked = [self._event(event, drawn) | ({"by": by} if by else {}) for event in events]
            self.log.append(checked)
        return list(dict.fromkeys(event["sha256"] for event in checked))

    def _event(self, given: Any, drawn: Collection[int]) -> dict[str, Any]:
        """The event as it goes to the log."""
        content = given.get("photo") if isinstance(given, dict) else None
        if not isinstance(content, str) or content not in self.numbers:
            raise InputError("an event needs the sha256 of a photo of the run")
        n = self.numbers[content][0]
        photo = self.images.ids[n]
        event = {"id": new_id()} | {key: value for key, value in given.items() if key in KEYS}
        event |= {"photo": photo, "sha256": content, "time": round(time.time(), 3), "run": self.key}
        event["random"] = n in drawn
        check_event(event)
        if "class" in event and event["class"] not in self.images.classes:
            raise InputError(f"there is no such class: the classes are {', '.join(self.images.classes)}")
        if is_replaced(self.images.paths[n], content):
            raise InputError(
                f"photo {photo!r} was replaced since the run has learned from it: learn again first"
            )
        if event["set"] == "box":
            check_inside(photo, event["xyxy"], self.sizes[n])
            event["xyxy"] = np.clip(event["xyxy"], 0, 2 * self.sizes[n]).tolist()
            if (original := self._original(n, event["box"])) is not None:
                event["found"] = original
        return event

    def _original(self, n: int, key: str) -> dict[str, Any] | None:
        """The box with that id as the run chose it, or an earlier one did."""
        for m in range(self.ends[n], self.ends[n + 1]):
            if self.ids[m] == key:
                name = self.images.classes[self.boxes.label[m]]
                return {"class": name, "xyxy": self.boxes.xyxy[m].tolist()}
        known = self.corrections(n).boxes.get(key)
        return {"class": known.found[0], "xyxy": list(known.found[1])} if known and known.found else None


def _finished(run: RunFolder) -> RunFolder:
    """The run; where learning again is under way, or was stopped, as it was before."""
    if "corrected" in run.keys and not run.has("corrected"):
        run.keys = {name: key for name, key in run.keys.items() if name not in {"judged", "corrected"}}
    return run


def _moved_to(images: ImageSet, elsewhere: ImageSet) -> ImageSet:
    """The same images, with their files where `elsewhere` has them."""
    place = dict(zip(elsewhere.ids, elsewhere.paths, strict=True))
    if missing := [name for name in images.ids if name not in place]:
        raise InputError(f"{len(missing)} photos of the run are not there, such as {missing[0]!r}")
    return replace(images, paths=tuple(place[name] for name in images.ids))
