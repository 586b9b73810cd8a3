"""`Session`: what the page asks for: the run as it was learned, the corrections as they stand.

A session is of what the run has learned once; where it has learned again, the next session takes its place.
Boxes are arrays, corrections a dictionary of the photos that have some: 20,000 photos take some MB.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.detection.drawing import class_color
from tag2box.images import ImageSet
from tag2box.review.changes import compare, describe
from tag2box.review.figures import Verdicts, mixed, random_order
from tag2box.review.listing import Index, Query
from tag2box.review.teaching import load_order
from tag2box.run.annotations import Annotations
from tag2box.run.folder import RunFolder
from tag2box.run.suspects import Suspects
from tag2box.runtime.progress import Progress, silent


class Session:
    """One run under review; every method may be called from any thread.

    images: its photos, where they are elsewhere now. before: the session before the run learned again.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        images: ImageSet | None = None,
        before: "Session | None" = None,
        progress: Progress = silent,
    ) -> None:
        self._written = _when_written(Path(folder))
        now = before.annotations.renewed() if before else Annotations(folder, images)
        self.annotations: Annotations = now
        self.run, self.images, self.key = now.run, now.images, now.key
        teaching = load_order(now.run, progress)
        self.drawn = random_order(self._fresh_photos(), self.key)
        self._order, is_random = mixed(teaching.order, self.drawn)
        self._random = set(self._order[is_random].tolist())
        changes = compare(before.annotations, now) if before else None
        self._moved = np.zeros(len(now.images), np.bool_)
        if changes:
            self._moved[now.boxes.image[changes.moved]] = True
        self._index = Index(now.images, now.boxes, teaching.doubt, self._moved)
        self._verdicts = Verdicts(now, self.drawn)
        self.suspects = Suspects(now.run)
        self._update(now.state.photos)
        self._before = before._verdicts.figures() if before else None
        self._changes = describe(changes, self._verdicts.open, now) if changes else []

    def _fresh_photos(self) -> NDArray[np.intp]:
        """Photos with boxes of which nothing was known when they were learned."""
        now = self.annotations
        photos = np.unique(now.boxes.image)
        known = (now.state.photos.get(now.contents[i]) for i in photos)
        fresh = [p is None or all(box.run == self.key for box in p.boxes.values()) for p in known]
        return photos[np.array(fresh, np.bool_)]

    def renewed(self) -> "Session":
        """This session; where `tag2box run` has learned again meanwhile, and is done, the next one."""
        if _when_written(self.run.folder) == self._written:
            return self
        now = RunFolder(self.run.folder)
        done = now.keys != self.run.keys and now.has(now.last_stage) and now.outdated is None
        return self.next() if done else self

    def next(self) -> "Session":
        """The session of the run that has just learned again."""
        return Session(self.run.folder, before=self)

    def _read_new(self) -> None:
        """Take in what was added to the log by anybody."""
        self._update(self.annotations.read_new())

    def _update(self, contents: Iterable[str]) -> None:
        for n in (n for content in contents for n in self.annotations.numbers.get(content, ())):
            for view in (self._index, self._verdicts, self.suspects):
                view.update(n, self.annotations.corrections(n))

    def start(self) -> dict[str, Any]:
        """What the page needs before its first photo."""
        with self.annotations.lock:
            self._read_new()
            return {
                "run": self.run.folder.name,
                "key": self.key,
                "classes": list(self.images.classes),
                "colors": [class_color(c) for c in range(len(self.images.classes))],
                "photos": len(self.images),
                "boxes": len(self.annotations.boxes),
                "moved": None if self._before is None else int(self._moved.sum()),
                "figures_before": self._before,
                "changes": self._changes,
                "left_out": self.annotations.left_out(),
                **self.progress(),
            }

    def progress(self) -> dict[str, Any]:
        """What changes with every click."""
        return {"figures": self._verdicts.figures(), "reviewed": self._index.count("reviewed")}

    def listing(self, query: Query, photo: str = "") -> dict[str, Any]:
        """Numbers of the photos that are wanted, in the order that is wanted.

        here: the number of the photo with the given SHA-256, or of the next one to do; None without one.
        """
        with self.annotations.lock:
            self._read_new()
            first = self.drawn if query.order == "random" else self._order
            if query.order == "tags":
                first = self.suspects.order
            photos = self._index.find(query, first)
            here = self.annotations.numbers.get(photo, [self._index.first_open(photos)])[0]
            return {"photos": photos.tolist(), "here": here}

    def photos(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """All about these photos."""
        with self.annotations.lock:
            self._read_new()
            return [self._photo(n) for n in numbers]

    def _photo(self, n: int) -> dict[str, Any]:
        photo = self.annotations.photo(n)
        tags = zip(self.images.classes, self.images.tags[n].tolist(), strict=True)
        return photo | {
            "random": n in self._random,
            "own_tags": dict(tags),
            "tags": self.annotations.corrections(n).tags,
            "suspect": self.suspects.of(n),
        }

    def save(self, events: Any) -> dict[str, Any]:
        """Take in events of the page; when this returns they are on the disk."""
        now = self.annotations
        with now.lock:
            contents = now.save(events, drawn=self._random)
            self._read_new()
            photos = [self._photo(n) for content in contents for n in now.numbers[content]]
            return {"photos": photos, **self.progress()}


def _when_written(folder: Path) -> int:
    """When; 0 where there is none yet, of which `RunFolder` says more."""
    try:
        return (folder / "index.sqlite").stat().st_mtime_ns
    except OSError:
        return 0
