"""`Session`: what the page asks for: the run as it was learned, the corrections as they stand.

Found boxes are arrays, corrections a dictionary of the photos that have some: 20,000 photos take some MB.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections import CorrectionLog, PhotoCorrections, State, check_event, check_inside, warn
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.review.boxes import load_boxes
from tag2box.review.changes import Place, Places, changes, moved_boxes
from tag2box.review.listing import Index, Wanted
from tag2box.review.sampling import mixed, random_order
from tag2box.review.verdicts import Verdicts
from tag2box.run.corrections import box_id, contents_now, is_replaced, still_open
from tag2box.run.folder import RunFolder
from tag2box.run.suspects import Suspects
from tag2box.runtime.progress import Progress, silent

MOST_EVENTS = 200


class Session:
    """One run under review; every method may be called from any thread."""

    def __init__(
        self, folder: str | Path, *, images: ImageSet | None = None, progress: Progress = silent
    ) -> None:
        self.lock = threading.RLock()
        self._elsewhere = images
        self.moved: NDArray[np.bool_] | None = None
        self.figures_before: list[dict[str, Any]] | None = None
        self.changes: list[str] = []
        self.load(Path(folder), progress)

    def load(self, folder: Path, progress: Progress = silent) -> None:
        """Read the run, and all that was said of it."""
        written = _when_written(folder)
        run = _finished(RunFolder(folder))
        boxes = load_boxes(run, progress)
        with self.lock:
            self._written = written
            self.run, self.boxes, self.sizes = run, boxes, run.result("described").windows.sizes.tolist()
            self.images = run.images if self._elsewhere is None else _moved_to(run.images, self._elsewhere)
            self.number = {name: n for n, name in enumerate(self.images.ids)}
            self.key = run.keys[run.last_stage][:12]
            self.log = CorrectionLog(folder)
            self.state = State(self.log.read_new())
            self.contents = contents_now(run, self.state)
            classes = self.images.classes
            self.box_ids = [
                box_id(self.contents[i], classes[c], xyxy)
                for i, c, xyxy in zip(boxes.image, boxes.label, boxes.xyxy, strict=True)
            ]
            self.verdicts = Verdicts(boxes, self.box_ids, classes, len(self.images))
            self.ends = self.verdicts.ends
            self.index = Index(self.images, boxes)
            self.suspects = Suspects(run)
            self._numbers: dict[str, list[int]] = {}  # photos that are the same to the byte are one photo
            for n, content in enumerate(run.contents):
                self._numbers.setdefault(content, []).append(n)
            for content in self.state.photos:
                self._update(content)
            warn(self.left_out())
            self.drawn = random_order(self._not_learned_from(), self.key)
            order, is_random = mixed(boxes.order, self.drawn)
            self.index.teaching, self.index.drawn = order, self.drawn
            self.random = set(order[is_random].tolist())
            self.verdicts.draw(self.drawn)

    def _not_learned_from(self) -> NDArray[np.intp]:
        """Photos with found boxes of which nothing was known when they were found."""
        photos = np.unique(self.boxes.image)
        known = (self.state.photos.get(self.contents[i]) for i in photos)
        fresh = [p is None or all(box.run == self.key for box in p.boxes.values()) for p in known]
        return photos[np.array(fresh, np.bool_)] if len(photos) else photos

    def learned_again(self, progress: Progress = silent) -> None:
        """Read the run that has just been learned anew, and see what moved."""
        with self.lock:
            before, figures = self._places(), self.verdicts.figures()
        self.load(self.run.folder, progress)
        with self.lock:
            moved = moved_boxes(self.boxes, before, self.contents, self.images.classes)
            self.moved = np.zeros(len(self.images), np.bool_)
            self.moved[self.boxes.image[moved]] = True
            self.index.moved = self.moved
            self.figures_before = figures
            self.changes = self._changes(before, moved)

    def _places(self) -> Places:
        """Where the boxes of each photo and class are."""
        found = zip(
            *(getattr(self.boxes, name) for name in ("image", "label", "xyxy", "confidence")), strict=True
        )
        return {(self.contents[i], self.images.classes[c]): Place(xyxy, sure) for i, c, xyxy, sure in found}

    def _changes(self, before: Places, moved: NDArray[np.bool_]) -> list[str]:
        """What learning again did for each class, in a line."""
        out = []
        for c, name in enumerate(self.images.classes):
            rows = np.flatnonzero(self.verdicts.open & (self.boxes.label == c))
            was = [before.get((self.contents[i], name)) for i in self.boxes.image[rows]]
            earlier = np.array([place.confidence if place else np.nan for place in was])
            confidences = np.stack([earlier, self.boxes.confidence[rows]], axis=1)
            out.append(changes(name, moved[rows], confidences, self.state.photos.values()))
        return [line for line in out if line]

    def _follow(self) -> None:
        """Read the run anew where `tag2box run` has learned again meanwhile, and is done."""
        with self.lock:
            if _when_written(self.run.folder) == self._written:
                return
            now = RunFolder(self.run.folder)
            if now.keys != self.run.keys and now.has(now.last_stage) and now.outdated is None:
                self.learned_again()

    def _sync(self) -> None:
        """Take in what was added to the log by anybody."""
        for event in self.log.read_new():
            if self.state.apply(event):
                self._update(event["sha256"])

    def _update(self, content: str) -> None:
        """Take in what is said of a photo now."""
        for n in self._numbers.get(content, ()):
            photo = self.state.photo(self.contents[n])  # nothing, where it was replaced
            self.index.update(n, photo)
            self.verdicts.update(n, photo)
            self.suspects.update(n, photo)

    def left_out(self) -> list[str]:
        """What of the corrections is damaged, or of other photos and classes, in lines."""
        return [*self.log.left_out(), *self.state.left_out(self.images, self.contents)]

    def start(self) -> dict[str, Any]:
        """What the page needs before its first photo."""
        self._follow()
        with self.lock:
            self._sync()
            return {
                "run": self.run.folder.name,
                "key": self.key,
                "classes": list(self.images.classes),
                "photos": len(self.images),
                "boxes": len(self.boxes),
                "moved": None if self.moved is None else int(self.moved.sum()),
                "figures_before": self.figures_before,
                "changes": self.changes,
                "left_out": self.left_out(),
                **self.progress(),
            }

    def progress(self) -> dict[str, Any]:
        """What changes with every click."""
        return {"figures": self.verdicts.figures(), "reviewed": self.index.count("reviewed")}

    def listing(self, wanted: Wanted, photo: str = "") -> dict[str, Any]:
        """Numbers of the photos that are wanted, in the order that is wanted.

        here: the number of the photo with the given SHA-256; None where there is none.
        """
        with self.lock:
            self._sync()
            here = self._numbers.get(photo, [None])[0]
            if wanted.order == "tags":
                self.index.suspects = self.suspects.order
            return {"photos": self.index.find(wanted).tolist(), "here": here}

    def photos(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """All about these photos."""
        with self.lock:
            self._sync()
            return [self._photo(n) for n in numbers]

    def _photo(self, n: int) -> dict[str, Any]:
        if not 0 <= n < len(self.images):
            raise InputError(f"there is no photo {n}: they are numbered from 0 to {len(self.images) - 1}")
        corrections = self.state.photo(self.contents[n])
        tags = dict(zip(self.images.classes, self.images.tags[n].tolist(), strict=True))
        return {
            "number": n,
            "name": self.images.ids[n],
            "sha256": self.run.contents[n],
            "width": self.sizes[n][0],
            "height": self.sizes[n][1],
            "state": corrections.state,
            "random": n in self.random,
            "boxes": self._boxes(n, corrections),
            "tags": tags | {k: v for k, v in corrections.tags.items() if k in tags},
            "own_tags": tags,
            "suspect": self.suspects.of(n),
        }

    def _boxes(self, n: int, corrections: PhotoCorrections) -> list[dict[str, Any]]:
        """Judged boxes, then those found that are still open."""
        rows = range(self.ends[n], self.ends[n + 1])
        sure = {self.box_ids[m]: round(float(self.boxes.confidence[m]), 4) for m in rows}
        out = [
            {
                "id": key,
                "class": box.name,
                "xyxy": box.xyxy,
                "state": box.state,
                "found": box.found is not None,
                "confidence": sure.get(key),
            }
            for key, box in corrections.boxes.items()
        ]
        for m in rows:
            key, kind, xyxy = self.box_ids[m], self.images.classes[self.boxes.label[m]], self.boxes.xyxy[m]
            if still_open(corrections, key, kind, xyxy):
                box = {"id": key, "class": kind, "xyxy": xyxy.tolist(), "state": "open", "found": True}
                out.append({**box, "confidence": sure[key]})
        return out

    def save(self, given: Any, by: str | None = None) -> dict[str, Any]:
        """Take in events of the page, or of whom `by` names; when this returns they are on the disk."""
        if not isinstance(given, list) or not 0 < len(given) <= MOST_EVENTS:
            raise InputError(f"expected a list of 1 to {MOST_EVENTS} events")
        with self.lock:
            events = [self._event(event) | ({"by": by} if by else {}) for event in given]
            self.log.append(events)
            self._sync()
            contents = dict.fromkeys(event["sha256"] for event in events)
            photos = [self._photo(n) for content in contents for n in self._numbers[content]]
            return {"saved": [event["id"] for event in events], "photos": photos, **self.progress()}

    def _event(self, given: Any) -> dict[str, Any]:
        """An event of the page, which knows photos by their SHA-256, as it goes to the log."""
        content = given.get("photo") if isinstance(given, dict) else None
        if not isinstance(content, str) or content not in self._numbers:
            raise InputError("an event needs the sha256 of a photo of the run")
        n = self._numbers[content][0]
        photo = self.images.ids[n]
        event = {k: v for k, v in given.items() if k in {"set", "id", "box", "class", "xyxy", "state", "tag"}}
        event |= {"photo": photo, "sha256": content, "time": round(time.time(), 3), "run": self.key}
        event["random"] = n in self.random
        check_event(event)
        if "class" in event and event["class"] not in self.images.classes:
            raise InputError(f"there is no such class: the classes are {', '.join(self.images.classes)}")
        if is_replaced(self.images.paths[n], content):
            raise InputError(
                f"photo {photo!r} was replaced since the run has learned from it: learn again first"
            )
        if event["set"] == "box":
            check_inside(photo, event["xyxy"], self.sizes[n])
            if (original := self._original(n, event["box"])) is not None:
                event["found"] = original
        return event

    def _original(self, n: int, key: str) -> dict[str, Any] | None:
        for m in range(self.ends[n], self.ends[n + 1]):
            if self.box_ids[m] == key:
                return {
                    "class": self.images.classes[self.boxes.label[m]],
                    "xyxy": self.boxes.xyxy[m].tolist(),
                }
        known = self.state.photo(self.contents[n]).boxes.get(key)
        return {"class": known.found[0], "xyxy": list(known.found[1])} if known and known.found else None


def _when_written(folder: Path) -> int:
    """When; 0 where there is none yet, of which `RunFolder` says more."""
    try:
        return (folder / "run.json").stat().st_mtime_ns
    except OSError:
        return 0


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
