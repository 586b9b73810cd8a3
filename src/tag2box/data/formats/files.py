"""Image files below a folder: which there are, what they are called, which of them are the same."""

import hashlib
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tag2box.data.remote import RemotePath
from tag2box.errors import InputError
from tag2box.names import objection_to_name

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
        bare, full = defaultdict(list), defaultdict(list)
        for name in self.names:
            bare[_composed(without_suffix(name))].append(name)
            full[_composed(name)].append(name)
        # A full name comes before one without suffix, and its own spelling before another.
        object.__setattr__(self, "_places", {**bare, **full, **{name: [name] for name in self.names}})

    def find(self, name: str) -> str | None:
        """The image called `name`, which may lack its suffix, be absolute, or write ü in another way."""
        for spelling in (name, name.replace("\\", "/")):
            path = Path(spelling)
            if path.is_absolute() and path.is_relative_to(self.root.absolute()):
                path = path.relative_to(self.root.absolute())
            plain = os.path.normpath(path)
            places = self._places.get(plain) or self._places.get(_composed(plain), [])
            if len(places) == 1:
                return places[0]
        return None

    def only(self, suffixes: Container[str]) -> "Listing":
        """The files with these suffixes."""
        return Listing(
            self.root, tuple(name for name in self.names if _suffix(name) in suffixes), self.skipped
        )

    def below(self, folder: str) -> "Listing":
        """What is in a folder of it, by names relative to that."""
        top = f"{folder}/"
        skipped = {name.removeprefix(top): why for name, why in self.skipped.items() if name.startswith(top)}
        names = tuple(name.removeprefix(top) for name in self.names if name.startswith(top))
        return Listing(self.root / folder, names, skipped)

    def lines(self) -> tuple[str, ...]:
        """What was skipped, one line each."""
        return tuple(f"{self.root / name}: {why}" for name, why in sorted(self.skipped.items()))


def list_images(root: Path, suffixes: Container[str] = SUFFIXES) -> Listing:
    """All images below `root`, hidden files and folders left out. No symbolic link leads out of it.

    suffixes: of the files to list, where these are not images.
    """
    if isinstance(root, RemotePath):
        return _list_elsewhere(root, suffixes)
    names: list[str] = []
    skipped: dict[str, str] = {}
    real = os.path.realpath(root)
    folders = [""]
    while folders:
        base = folders.pop()
        try:
            with os.scandir(root / base) as entries:
                visible = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            if not base:
                raise InputError(f"{root} cannot be opened: {error.strerror}") from None
            skipped[base] = f"a folder that cannot be opened: {error.strerror}"
            continue
        for entry in visible:
            name, is_folder = base + entry.name, _is_folder(entry)
            if is_folder and not entry.is_symlink():
                folders.append(f"{name}/")
            elif is_folder:
                skipped[_shown(name)] = "a symbolic link to a folder, which is not followed"
            elif _suffix(name) not in suffixes:
                continue
            elif why := _objection(entry, name, real):
                skipped[_shown(name)] = why
            else:
                names.append(name)
    return Listing(root, tuple(sorted(names)), skipped)


def _list_elsewhere(root: RemotePath, suffixes: Container[str]) -> Listing:
    names: list[str] = []
    skipped: dict[str, str] = {}
    for name in root.below():
        hidden = any(part.startswith(".") for part in name.split("/"))
        if hidden or _suffix(name) not in suffixes:
            continue
        if why := objection_to_name(name):
            skipped[_shown(name)] = f"its name {why}: rename it"
        else:
            names.append(name)
    return Listing(root, tuple(sorted(names)), skipped)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle
        return False


def _objection(entry: os.DirEntry[str], name: str, real: str) -> str | None:
    if entry.is_symlink() and os.path.commonpath([real, os.path.realpath(entry.path)]) != real:
        return "a symbolic link that leads out of the folder"
    if why := objection_to_name(name):
        return f"its name {why}: rename it"
    try:
        return None if entry.is_file() else "no file, but a pipe, a device, or a link to nothing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _shown(name: str) -> str:
    """A name that can be printed and written."""
    return ascii(name)[1:-1] if objection_to_name(name) else name


def folder_with(name: str, folders: Iterable[Path], otherwise: Path) -> Path:
    """The first of the folders that holds a file of that name."""
    return next((folder for folder in folders if os.path.isfile(folder / name)), otherwise)


def place_inside(folder: Path, name: str, roots: Iterable[Path] = ()) -> tuple[str, Path]:
    """What the image `name` of `folder` is called, and where it is: in that folder, or in one of `roots`.

    Names in a stranger's files could lead anywhere, and the report shows the photos: others are refused.
    Links are not resolved, since those in a folder are its owner's.
    """
    path = os.path.normpath(folder / name)
    full = os.path.abspath(path)
    for root in (folder, *roots):
        top = os.path.join(os.path.abspath(root), "")
        if full.startswith(top):
            return full[len(top) :].replace(os.sep, "/"), Path(path)
    raise InputError(f"the image {name!r} is outside of the data: give the folder that holds all images")


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


def same_content(paths: Sequence[Path]) -> list[list[int]]:
    """Groups of indices of byte-identical files, empty and missing ones left out.

    Only files of equal length are read, in pieces of 1 MB.
    """
    by_length = defaultdict(list)
    for i, path in enumerate(paths):
        by_length[path.stat().st_size if os.path.isfile(path) else 0].append(i)
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
