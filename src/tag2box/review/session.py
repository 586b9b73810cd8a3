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

from tag2box.boxes import iou_matrix
from tag2box.corrections import CorrectionLog, Photo, State
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.review.found import FoundBoxes, load_boxes
from tag2box.review.listing import Index, Wanted
from tag2box.review.sampling import mixed, random_order
from tag2box.review.verdicts import Verdicts
from tag2box.run.corrections import box_id, still_open
from tag2box.run.folder import RunFolder
from tag2box.runtime.progress import Progress, silent

__all__ = ["Session"]

MOST_EVENTS = 200
# A box that moved by less is the same one.
UNMOVED = 0.9


class Session:
    """One run under review; every method may be called from any thread."""

    def __init__(
        self, folder: str | Path, *, images: ImageSet | None = None, progress: Progress = silent
    ) -> None:
        self._lock = threading.RLock()
        self._elsewhere = images
        self.moved: NDArray[np.bool_] | None = None
        self.figures_before: list[dict[str, Any]] | None = None
        self.load(Path(folder), progress)

    def load(self, folder: Path, progress: Progress = silent) -> None:
        """Read the run, and all that was said of it."""
        written = _when_written(folder)
        run = _finished(RunFolder(folder))
        found = load_boxes(run, progress)
        with self._lock:
            self._written = written
            self.run, self.found, self.sizes = run, found, run.result("described").windows.sizes.tolist()
            self.images = run.images if self._elsewhere is None else _moved_to(run.images, self._elsewhere)
            self.number = {name: n for n, name in enumerate(self.images.ids)}
            self.key = run.keys[run.last_stage][:12]
            ids, classes = self.images.ids, self.images.classes
            self.box_ids = [
                box_id(ids[i], classes[c], xyxy)
                for i, c, xyxy in zip(found.image, found.label, found.xyxy, strict=True)
            ]
            self.verdicts = Verdicts(found, self.box_ids, classes, len(ids))
            self.ends = self.verdicts.ends
            self.log, self.state = CorrectionLog(folder), State()
            self.index = Index(self.images, found)
            self._sync()
            self.drawn = random_order(self._not_learned_from(), self.key)
            order, is_random = mixed(found.order, self.drawn)
            self.index.teaching, self.index.drawn = order, self.drawn
            self.random = set(order[is_random].tolist())
            self.verdicts.draw(self.drawn)

    def _not_learned_from(self) -> NDArray[np.intp]:
        """Photos with found boxes of which nothing was known when they were found."""
        photos = np.unique(self.found.image)
        known = (self.state.photos.get(self.images.ids[i]) for i in photos)
        fresh = [p is None or all(box.run == self.key for box in p.boxes.values()) for p in known]
        return photos[np.array(fresh, np.bool_)] if len(photos) else photos

    def learned_again(self, progress: Progress = silent) -> None:
        """Read the run that has just been learned anew, and see what moved."""
        with self._lock:
            before, figures = self.found, self.verdicts.figures()
        self.load(self.run.folder, progress)
        with self._lock:
            self.moved = _moved(before, self.found, len(self.images))
            self.index.moved = self.moved
            self.figures_before = figures

    def _follow(self) -> None:
        """Read the run anew where `tag2box run` has learned again meanwhile, and is done."""
        with self._lock:
            if _when_written(self.run.folder) == self._written:
                return
            now = RunFolder(self.run.folder)
            if now.keys != self.run.keys and now.has(now.last_stage) and now.outdated is None:
                self.learned_again()

    def _sync(self) -> None:
        """Take in what was added to the log by anybody."""
        for event in self.log.read_new():
            if self.state.apply(event) and (n := self.number.get(event["photo"])) is not None:
                photo = self.state.photo(event["photo"])
                self.index.update(n, photo)
                self.verdicts.update(n, photo)

    def start(self) -> dict[str, Any]:
        """What the page needs before its first photo."""
        self._follow()
        with self._lock:
            self._sync()
            return {
                "run": self.run.folder.name,
                "key": self.key,
                "classes": list(self.images.classes),
                "photos": len(self.images),
                "boxes": len(self.found),
                "moved": None if self.moved is None else int(self.moved.sum()),
                "figures_before": self.figures_before,
                **self.progress(),
            }

    def progress(self) -> dict[str, Any]:
        """What changes with every click."""
        return {"figures": self.verdicts.figures(), "reviewed": self.index.count("reviewed")}

    def listing(self, wanted: Wanted) -> dict[str, Any]:
        """Numbers of the photos that are wanted, in the order that is wanted."""
        with self._lock:
            self._sync()
            return {"photos": self.index.find(wanted).tolist()}

    def photos(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """All about these photos."""
        with self._lock:
            self._sync()
            return [self._photo(n) for n in numbers]

    def _photo(self, n: int) -> dict[str, Any]:
        if not 0 <= n < len(self.images):
            raise InputError(f"there is no photo {n}: they are numbered from 0 to {len(self.images) - 1}")
        name = self.images.ids[n]
        said = self.state.photo(name)
        tags = dict(zip(self.images.classes, self.images.tags[n].tolist(), strict=True))
        return {
            "number": n,
            "name": name,
            "width": self.sizes[n][0],
            "height": self.sizes[n][1],
            "state": said.state,
            "random": n in self.random,
            "boxes": self._boxes(n, said),
            "tags": tags | {k: v for k, v in said.tags.items() if k in tags},
            "own_tags": tags,
        }

    def _boxes(self, n: int, said: Photo) -> list[dict[str, Any]]:
        """Judged boxes, then those found that are still open."""
        mine = range(self.ends[n], self.ends[n + 1])
        sure = {self.box_ids[m]: round(float(self.found.confidence[m]), 4) for m in mine}
        out = [
            {
                "id": key,
                "class": box.name,
                "xyxy": box.xyxy,
                "state": box.state,
                "found": box.found is not None,
                "confidence": sure.get(key),
            }
            for key, box in said.boxes.items()
        ]
        for m in mine:
            key, kind, xyxy = self.box_ids[m], self.images.classes[self.found.label[m]], self.found.xyxy[m]
            if still_open(said, key, kind, xyxy):
                box = {"id": key, "class": kind, "xyxy": xyxy.tolist(), "state": "open", "found": True}
                out.append({**box, "confidence": sure[key]})
        return out

    def save(self, given: Any, by: str | None = None) -> dict[str, Any]:
        """Take in events of the page, or of whom `by` names; when this returns they are on the disk."""
        if not isinstance(given, list) or not 0 < len(given) <= MOST_EVENTS:
            raise InputError(f"expected a list of 1 to {MOST_EVENTS} events")
        with self._lock:
            events = [self._event(event) | ({"by": by} if by else {}) for event in given]
            self.log.append(events)
            self._sync()
            numbers = dict.fromkeys(self.number[event["photo"]] for event in events)
            photos = [self._photo(n) for n in numbers]
            return {"saved": [event["id"] for event in events], "photos": photos, **self.progress()}

    def _event(self, given: Any) -> dict[str, Any]:
        """An event of the page, which names photos by number, as it goes to the log."""
        n = given.get("photo") if isinstance(given, dict) else None
        if type(n) is not int or not 0 <= n < len(self.images):
            raise InputError(f"an event needs the number of a photo, from 0 to {len(self.images) - 1}")
        event = {k: v for k, v in given.items() if k in {"set", "id", "box", "class", "xyxy", "state", "tag"}}
        event |= {"photo": self.images.ids[n], "time": round(time.time(), 3), "run": self.key}
        event["random"] = n in self.random
        if "class" in event and event["class"] not in self.images.classes:
            raise InputError(f"there is no such class: the classes are {', '.join(self.images.classes)}")
        if event.get("set") == "box" and (found := self._found(n, event.get("box"))) is not None:
            event["found"] = found
        return event

    def _found(self, n: int, key: Any) -> dict[str, Any] | None:
        for m in range(self.ends[n], self.ends[n + 1]):
            if self.box_ids[m] == key:
                return {
                    "class": self.images.classes[self.found.label[m]],
                    "xyxy": self.found.xyxy[m].tolist(),
                }
        known = self.state.photo(self.images.ids[n]).boxes.get(key)
        return {"class": known.found[0], "xyxy": list(known.found[1])} if known and known.found else None


def _when_written(folder: Path) -> int:
    return (folder / "run.json").stat().st_mtime_ns


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


def _moved(before: FoundBoxes, after: FoundBoxes, n_images: int) -> NDArray[np.bool_]:
    """The photos in which a box is new or elsewhere."""
    old = {(i, c): xyxy for i, c, xyxy in zip(before.image, before.label, before.xyxy, strict=True)}
    out = np.zeros(n_images, np.bool_)
    for i, c, xyxy in zip(after.image, after.label, after.xyxy, strict=True):
        was = old.get((i, c))
        out[i] |= was is None or iou_matrix(xyxy[None], was[None])[0, 0] < UNMOVED
    return out
