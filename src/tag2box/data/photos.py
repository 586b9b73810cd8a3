"""Photos without tags, as `detect` and `predict` get them; and which photos are no longer what they were."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tag2box.data.decoding import Photo, read_photo
from tag2box.data.formats.files import list_images, unique_ids
from tag2box.data.remote import place
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few


def find_photos(sources: Sequence[str | Path], on_error: str = "fail") -> ImageSet:
    """All photos of `sources`: files, and folders with all that is below them. They have no classes.

    on_error: what to do about sources that are not there, "fail" or "skip".

    A photo is called by its name below the folder that was given, without its suffix; where names meet (two
    folders, a.jpg beside a.png), by as much of its path as tells them apart.
    """
    paths: list[Path] = []
    names: list[str] = []
    skipped: list[str] = []
    for source in map(place, sources):
        if source.is_dir():
            listing = list_images(source)
            paths += [source / name for name in listing.names]
            names += listing.names
            skipped += listing.lines()
        elif source.exists():
            paths.append(source)
            names.append(source.name)
        elif on_error == "skip":
            skipped.append(f"{source}: no such file or folder")
        else:
            raise InputError(f"{source}: no such file or folder")
    if not paths:
        left_out = f" (skipped {first_few(skipped)})" if skipped else ""
        raise InputError(f"no photos in {', '.join(map(str, sources)) or 'an empty list'}{left_out}")
    ids = unique_ids(names)
    if len(set(ids)) < len(ids):
        ids = unique_ids(_below_common(paths))
    if len(set(ids)) < len(ids):
        twice = next(name for i, name in enumerate(ids) if name in ids[:i])
        raise InputError(f"{twice} was given twice: give each photo once")
    return ImageSet(ids, tuple(paths), np.empty((len(ids), 0), np.int8), (), skipped=tuple(skipped))


class ChangedPhotos(NamedTuple):
    """Photos whose files are not what they were, by their indices."""

    replaced: tuple[int, ...]  # the file holds other bytes
    missing: tuple[int, ...]  # there is no such file, or it cannot be read

    def names(self, ids: Sequence[str]) -> str:
        """Those that were replaced, for an error line."""
        return first_few([ids[i] for i in self.replaced])


def changed_photos(paths: Sequence[Path], sha256s: Sequence[str]) -> ChangedPhotos:
    """Compare the files of photos with the SHA-256 that they had.

    Whoever joins a stored box with pixels asks this first: a box on another photo is wrong without a word.
    """
    replaced, missing = [], []
    for i, (path, expected) in enumerate(zip(paths, sha256s, strict=True)):
        try:
            if read_photo(path).sha256 != expected:
                replaced.append(i)
        except InputError:
            missing.append(i)
    return ChangedPhotos(tuple(replaced), tuple(missing))


def read_again(path: Path, sha256: str) -> Photo:
    """Read a photo of which something is known; refused where its file holds other bytes by now."""
    photo = read_photo(path)
    if photo.sha256 != sha256:
        raise InputError(f"{path} is another photo than the one that was learned from: run again")
    return photo


def _below_common(paths: Sequence[Path]) -> list[str]:
    full = [os.path.abspath(path) for path in paths]
    root = os.path.commonpath([os.path.dirname(path) for path in full])
    return [os.path.relpath(path, root).replace(os.sep, "/") for path in full]
