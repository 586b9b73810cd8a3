"""The first look: what the images and tags are, and what is odd about them.

first = look(images, workers=2)
print(first)                                 # the table shown before work starts
images = usable(images, first, "skip")       # without the images that cannot be decoded

Who decodes the photos anyhow collects the facts itself, and needs no second reading:

facts = [PhotoFacts(size, photo.sha256), ...]
first = look_from(images, facts)
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tag2box.data.decoding import check_photo, read_photo
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few, look_alikes
from tag2box.runtime.checks import check_choice
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent

# A class with fewer positive images than this is hardly learned: the cover needs repetition.
FEW = 5
# Photos above this are fine, but slow to decode and worth knowing of: a 24-megapixel camera stays below.
HUGE = 30_000_000
# The SHA-256 of a file without a byte: such files are unreadable, not duplicates.
EMPTY = hashlib.sha256().hexdigest()
# So many bad files are named on the screen; all of them are in `to_dict`.
SHOWN = 30


class ClassLook(NamedTuple):
    """How many images have the class, do not have it, or are unknown."""

    name: str
    positives: int
    negatives: int
    unknown: int


class Unreadable(NamedTuple):
    """An image that cannot be decoded, and why."""

    id: str
    path: Path
    reason: str


@dataclass(frozen=True)
class Look:
    """What there is, and what is odd. All images are named by their ids.

    unreadable: cannot be decoded. duplicates: groups of the same bytes. huge: more than 30 megapixels.
    skipped: what reading left out, one line each.
    """

    n_images: int
    classes: tuple[ClassLook, ...]
    unreadable: tuple[Unreadable, ...]
    duplicates: tuple[tuple[str, ...], ...]
    huge: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def few(self) -> tuple[str, ...]:
        """Classes with fewer than 5 positive images."""
        return tuple(each.name for each in self.classes if each.positives < FEW)

    @property
    def without_negatives(self) -> tuple[str, ...]:
        """Classes that no image is known not to have."""
        return tuple(each.name for each in self.classes if not each.negatives)

    def odd(self) -> list[str]:
        """What is odd, one line each; nothing where all is well."""
        lines = []
        if self.unreadable:
            lines.append(f"{len(self.unreadable)} unreadable:")
            lines += _first_lines([f"{each.path}: {each.reason}" for each in self.unreadable])
        if self.skipped:
            lines += [f"{len(self.skipped)} skipped:", *_first_lines(self.skipped)]
        if self.duplicates:
            extra = sum(len(group) - 1 for group in self.duplicates)
            lines.append(f"{extra} exact duplicates, such as {' = '.join(self.duplicates[0][:3])}")
        if self.huge:
            lines.append(f"{len(self.huge)} images above {HUGE // 10**6} megapixels: {first_few(self.huge)}")
        if alike := look_alikes(each.name for each in self.classes):
            lines.append(
                f"classes whose names look alike: {'; '.join(' = '.join(map(repr, g)) for g in alike)}"
            )
        if self.few:
            lines.append(f"fewer than {FEW} positive images: {', '.join(self.few)}")
        if self.without_negatives:
            lines.append(
                f"no negative images: {', '.join(self.without_negatives)}; add images without the class, "
                "or nothing can tell it from what surrounds it"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "n_images": self.n_images,
            "classes": {
                name: {"positives": yes, "negatives": no, "unknown": unknown}
                for name, yes, no, unknown in self.classes
            },
            "unreadable": [
                {"id": each.id, "path": str(each.path), "reason": each.reason} for each in self.unreadable
            ],
            "duplicates": [list(group) for group in self.duplicates],
            "huge": list(self.huge),
            "skipped": list(self.skipped),
            "few": list(self.few),
            "without_negatives": list(self.without_negatives),
        }

    def __str__(self) -> str:
        width = max(len(name) for name in ("class", *(each.name for each in self.classes)))
        n = len(self.classes)
        title = f"{self.n_images} images, {n} {'class' if n == 1 else 'classes'}"
        header = f"{'class':{width}}  positive  negative  unknown"
        rows = [f"{name:{width}}  {yes:8}  {no:8}  {unknown:7}" for name, yes, no, unknown in self.classes]
        odd = self.odd()
        return "\n".join([title, header, *rows, *(["Odd:", *(f"  {line}" for line in odd)] if odd else [])])


def _first_lines(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [f"  {line}" for line in [*lines[:SHOWN], *more]]


class PhotoFacts(NamedTuple):
    """What one reading of a photo tells of it."""

    size: tuple[int, int] = (0, 0)  # upright (width, height); zeros where it cannot be decoded
    sha256: str = ""  # of its bytes; empty where they cannot be read
    reason: str = ""  # why it cannot be decoded


def look(images: ImageSet, *, workers: int | None = 1, progress: Progress = silent) -> Look:
    """Decode every image once, small, and count. The answer does not depend on `workers`.

    Memory: one image per worker (JPEG at an eighth of its size), and some hundred bytes per image.
    """
    facts = map_ordered(photo_facts, images.paths, workers=workers, progress=progress, label="first look")
    return look_from(images, list(facts))


def photo_facts(path: Path) -> PhotoFacts:
    """Read a photo once, and decode it as small as it can be."""
    sha256 = ""
    try:
        photo = read_photo(path)
        sha256 = photo.sha256
        return PhotoFacts(check_photo(photo), sha256)
    except InputError as error:
        return PhotoFacts(sha256=sha256, reason=str(error).removeprefix(f"{path}: "))


def look_from(images: ImageSet, facts: Sequence[PhotoFacts]) -> Look:
    """The look at images of which everything is known. facts: one per image; no file is read."""
    counts = [[int((column == tag).sum()) for tag in (1, -1, 0)] for column in images.tags.T]
    by_content = defaultdict(list)
    for name, fact in zip(images.ids, facts, strict=True):
        if fact.sha256 not in ("", EMPTY):
            by_content[fact.sha256].append(name)
    unreadable = [
        Unreadable(name, path, fact.reason)
        for name, path, fact in zip(images.ids, images.paths, facts, strict=True)
        if fact.reason
    ]
    return Look(
        n_images=len(images),
        classes=tuple(ClassLook(name, *count) for name, count in zip(images.classes, counts, strict=True)),
        unreadable=tuple(unreadable),
        duplicates=tuple(tuple(names) for names in by_content.values() if len(names) > 1),
        huge=tuple(
            name for name, fact in zip(images.ids, facts, strict=True) if fact.size[0] * fact.size[1] > HUGE
        ),
        skipped=images.skipped,
    )


def usable(images: ImageSet, look: Look, on_error: str = "skip") -> ImageSet:
    """`images` without the unreadable ones; with "fail", an error that names them and what was skipped."""
    check_choice("on_error", on_error, ("skip", "fail"))
    bad = {each.id for each in look.unreadable}
    lines = [*(f"{each.path}: {each.reason}" for each in look.unreadable), *look.skipped]
    if lines and on_error == "fail":
        raise InputError(
            f"{len(lines)} images cannot be used ({first_few(lines)}): repair or remove them, or skip them"
        )
    if len(bad) == len(images):
        raise InputError(f"none of the {len(images)} images can be used ({first_few(lines)})")
    return images.take([name not in bad for name in images.ids])
