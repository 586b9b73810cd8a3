"""`State`: what all events together say of each photo. The last event about a thing wins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tag2box.images import ImageSet
from tag2box.names import first_few

XYXY = tuple[float, float, float, float]


@dataclass(frozen=True)
class Box:
    """What was said of one box. found: class and place as the machine had it, None for a drawn box."""

    name: str
    xyxy: XYXY
    state: str
    found: tuple[str, XYXY] | None = None
    random: bool = False
    run: str = ""


@dataclass
class PhotoCorrections:
    """What was said of one photo: its boxes by id, the tags that were changed, and the photo as a whole."""

    boxes: dict[str, Box] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    state: str = "open"

    @property
    def empty(self) -> bool:
        """Whether nothing is said."""
        return not self.boxes and not self.tags and self.state == "open"

    def accepted(self) -> list[Box]:
        """The boxes that are right."""
        return [box for box in self.boxes.values() if box.state == "accepted"]


class State:
    """The photos that something was said of, by the SHA-256 of their files; names: as they were called."""

    def __init__(self, events: Iterable[Mapping[str, Any]] = ()) -> None:
        self.photos: dict[str, PhotoCorrections] = {}
        self.names: dict[str, str] = {}
        self._seen: set[str] = set()
        for event in events:
            self.apply(event)

    def photo(self, content: str) -> PhotoCorrections:
        """What is said of the photo with that SHA-256; nothing, perhaps."""
        return self.photos.get(content) or PhotoCorrections()

    def apply(self, event: Mapping[str, Any]) -> bool:
        """Take in a checked event; False where one with its id was taken in before."""
        if event["id"] in self._seen:
            return False
        self._seen.add(event["id"])
        content = event["sha256"]
        self.names[content] = event["photo"]
        photo = self.photos.setdefault(content, PhotoCorrections())
        if event["set"] == "photo":
            photo.state = event["state"]
        elif event["set"] == "tag":
            photo.tags.pop(event["class"], None)
            if event["tag"] is not None:
                photo.tags[event["class"]] = event["tag"]
        else:
            photo.boxes.pop(event["box"], None)
            if event["state"] != "open":
                photo.boxes[event["box"]] = _box(event)
        if photo.empty:
            del self.photos[content]
        return True

    def left_out(self, images: ImageSet, contents: Sequence[str]) -> list[str]:
        """Lines that say what is said of other photos and classes than these; contents: their SHA-256."""
        ids, other = set(images.ids), sorted(self.names[c] for c in self.photos.keys() - set(contents))
        boxes = [box for photo in self.photos.values() for box in photo.boxes.values()]
        unknown = sorted({box.name for box in boxes} - set(images.classes))
        lines = [
            ("photos", [name for name in other if name in ids], "replaced: another photo has the name"),
            ("photos", [name for name in other if name not in ids], "no longer among the photos"),
            ("classes", unknown, "unknown to this run"),
        ]
        return [
            f"the corrections of {len(names)} {what} are left out ({why}): {first_few(names)}"
            for what, names, why in lines
            if names
        ]


def _box(event: Mapping[str, Any]) -> Box:
    original = event.get("found")
    found = (original["class"], _xyxy(original["xyxy"])) if original else None
    random, run = bool(event.get("random", False)), str(event.get("run", ""))
    return Box(event["class"], _xyxy(event["xyxy"]), event["state"], found, random, run)


def _xyxy(values: Any) -> XYXY:
    x1, y1, x2, y2 = map(float, values)
    return x1, y1, x2, y2
