"""Image files below a folder: which there are, their names and sizes, which of them are the same."""

import hashlib
import json
import os
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tag2box.errors import InputError

__all__ = [
    "SUFFIXES",
    "Listing",
    "expecting",
    "first_few",
    "image_size",
    "list_images",
    "read_json",
    "read_text",
    "same_content",
    "unique_ids",
]

# What Pillow decodes without plug-ins and people keep photos in.
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm"})


@dataclass(frozen=True)
class Listing:
    """Images below `root`, by their names relative to it, sorted; and those left out, name -> reason."""

    root: Path
    names: tuple[str, ...]
    skipped: dict[str, str]
    _places: dict[str, list[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = defaultdict(list)
        for name in self.names:
            places[_composed(without_suffix(name))].append(name)
        places.update((_composed(name), [name]) for name in self.names)  # a full name comes first
        object.__setattr__(self, "_places", places)

    def find(self, name: str) -> str | None:
        """The image called `name`, which may lack its suffix, be absolute, or write ü in another way."""
        for spelling in (name, name.replace("\\", "/")):
            path = Path(spelling)
            if path.is_absolute() and path.is_relative_to(self.root.absolute()):
                path = path.relative_to(self.root.absolute())
            found = self._places.get(_composed(os.path.normpath(path)), [])
            if len(found) == 1:
                return found[0]
        return None

    def lines(self) -> tuple[str, ...]:
        """What was skipped, one line each."""
        return tuple(f"{self.root / name}: {why}" for name, why in sorted(self.skipped.items()))


def list_images(root: Path) -> Listing:
    """All images below `root`, hidden files and folders left out. No symbolic link leads out of it."""
    names, skipped = [], {}
    real = os.path.realpath(root)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        base = os.path.relpath(folder, root)
        for name in folders:
            if os.path.islink(os.path.join(folder, name)):
                skipped[_joined(base, name)] = "a symbolic link to a folder, which is not followed"
        for name in files:
            if name.startswith(".") or os.path.splitext(name)[1].lower() not in SUFFIXES:
                continue
            if why := _objection(os.path.join(folder, name), real):
                skipped[_joined(base, name)] = why
            else:
                names.append(_joined(base, name))
    return Listing(root, tuple(sorted(names)), skipped)


def _objection(path: str, real: str) -> str | None:
    if os.path.islink(path) and os.path.commonpath([real, os.path.realpath(path)]) != real:
        return "a symbolic link that leads out of the folder"
    if not _is_unicode(path):
        return "a name that is not Unicode: rename it"
    return None


def _joined(base: str, name: str) -> str:
    name = name if base == "." else f"{base}/{name}".replace(os.sep, "/")
    return name if _is_unicode(name) else ascii(name)[1:-1]


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _composed(name: str) -> str:
    """Some systems store ü as one letter and some as u with dots: one spelling for both."""
    return unicodedata.normalize("NFC", name)


def without_suffix(name: str) -> str:
    """`name` without the suffix of an image; other dots stay."""
    path = PurePosixPath(name)
    return name[: -len(path.suffix)] if path.suffix.lower() in SUFFIXES else name


def unique_ids(names: Sequence[str]) -> tuple[str, ...]:
    """The names without suffix; with it where two would be the same (a.jpg beside a.png)."""
    bare = [without_suffix(name) for name in names]
    count = Counter(bare)
    ids = tuple(stem if count[stem] == 1 else name for stem, name in zip(bare, names, strict=True))
    return ids if len(set(ids)) == len(ids) else tuple(names)  # a.jpg, a.png and a.jpg.png


def image_size(path: Path) -> tuple[int, int]:
    """(width, height) of the upright image, from the file's header alone."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a header needs no warning of what decoding would cost
            with Image.open(path) as picture:
                width, height = picture.size
                # Pillow itself gives the upright size of a TIFF file, and of no other.
                turned = picture.format != "TIFF" and picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: no image whose size can be read ({error})") from None
    return (height, width) if turned else (width, height)


def same_content(paths: Sequence[Path]) -> list[list[int]]:
    """Groups of indices of byte-identical files, empty and missing ones left out.

    Only files of equal length are read, in pieces of 1 MB.
    """
    by_length = defaultdict(list)
    for i, path in enumerate(paths):
        by_length[path.stat().st_size if path.is_file() else 0].append(i)
    by_length.pop(0, None)
    groups = defaultdict(list)
    for length, members in by_length.items():
        for i in members if len(members) > 1 else []:
            groups[length, _digest(paths[i])].append(i)
    return sorted(group for group in groups.values() if len(group) > 1)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # not to be read: equal to nothing, and named when it is to be decoded
        return str(path)


def read_text(path: Path) -> str:
    """The text of `path`, UTF-8 with or without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """The content of the JSON file `path`."""
    try:
        return json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None


@contextmanager
def expecting(what: str, path: Path) -> Iterator[None]:
    """Content that is not `what` it should be fails in one line, wherever it was that a value did not fit."""
    try:
        yield
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from None
    except KeyError as wrong:
        raise InputError(f"{path} is not {what}: {wrong} is missing or unknown") from wrong
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError) as wrong:
        raise InputError(f"{path} is not {what}: {' '.join(str(wrong).split())}") from wrong


def first_few(names: Sequence[str], few: int = 3) -> str:
    """`names` for an error line: the first few, and that there are more."""
    return ", ".join(names[:few]) + (", ..." if len(names) > few else "")
