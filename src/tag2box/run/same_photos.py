"""Photos that a run and a data set call by different names: known by their file, or by their content."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tag2box.data.photos import changed_photos
from tag2box.data.remote import RemotePath
from tag2box.images import ImageSet
from tag2box.names import first_few
from tag2box.runtime.files import content_hash


def called_as(images: ImageSet, truth: ImageSet, contents: Sequence[str] = ()) -> ImageSet:
    """`images` by the names that `truth` has for the same photos; as they are where it lacks one of them.

    A photo is the same by its name, or by its file, or else by its content. contents: the SHA-256 of each of
    the images, where it is known. The names differ where folders do: `cat/1` of a folder per class is `1` of
    the XML that LabelImg writes.
    """
    if set(images.ids) <= set(truth.ids):
        return images
    files = dict(zip(map(os.path.abspath, truth.paths), truth.ids, strict=True))
    names = [files.get(os.path.abspath(path), "") for path in images.paths]
    if not all(names) and contents and len(images) <= len(truth):
        names = _by_content(contents, truth)
    if not all(names) or len(set(names)) < len(names):
        return images
    return replace(images, ids=tuple(names))


def _by_content(contents: Sequence[str], truth: ImageSet) -> list[str]:
    """The name of each content, "" where there is none; copies of a photo have a name each."""
    names: dict[str, list[str]] = {}
    for name, path in zip(reversed(truth.ids), reversed(truth.paths), strict=True):
        if not isinstance(path, RemotePath) and path.is_file():
            names.setdefault(content_hash(path), []).append(name)
    return [names[content].pop() if names.get(content) else "" for content in contents]


class PhotoNames:
    """Photos of the run by id, with or without the suffix of their file, or by a file name of their own."""

    def __init__(self, images: ImageSet) -> None:
        self._ids = {name: name for name in images.ids}
        pairs = list(zip(images.ids, images.paths, strict=True))
        self._ids |= {f"{name}{path.suffix}": name for name, path in pairs}
        count = Counter(path.stem for path in images.paths)
        self._stems = {path.stem: name for name, path in pairs if count[path.stem] == 1}

    def find(self, name: str) -> str | None:
        """The id of that photo; None where the run has none, or several."""
        return self._ids.get(name) or self._stems.get(Path(name).stem)


def changed_since(images: ImageSet, contents: Sequence[str]) -> tuple[frozenset[int], str]:
    """Which photos of a run are no longer what it learned from, and the same in a sentence; "" where none is.

    Whatever joins a stored box with pixels asks this first.
    """
    changed = changed_photos(images.paths, contents)
    lines = [
        f"{len(photos)} photos {what}: {first_few([images.ids[i] for i in photos])}"
        for photos, what in (
            (changed.replaced, "were replaced since the run learned from them"),
            (changed.missing, "are gone"),
        )
        if photos
    ]
    remedy = "; they are left out: put them back, or run again"
    return frozenset((*changed.replaced, *changed.missing)), f"{'; '.join(lines)}{remedy}" if lines else ""
