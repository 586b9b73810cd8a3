"""What tables and JSON Lines have in common: a row says something of one image; rows become an `ImageSet`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tag2box.data.formats.building import Box, Object, tag_matrix, truth_of_objects
from tag2box.data.formats.files import list_images, unique_ids
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few

# What the column of files and that of tags may be called.
FILE = ("file", "filename", "file_name", "image", "path")
TAGS = ("tags", "tag", "labels", "label", "classes", "class")
CELLS = {"1": 1, "0": -1, "-1": -1, "true": 1, "false": -1, "": 0, "?": 0, "nan": 0}


class Row(NamedTuple):
    """What one row says: `tags` maps a class to +1, -1 or 0; `rest` is for the classes it does not name.

    boxes: (class, xyxy) of the true boxes; None where the row is not about boxes.
    """

    where: str
    file: str
    tags: Mapping[str, int]
    rest: int
    boxes: Sequence[tuple[str, Box]] | None = None


def join_rows(root: Path, path: Path, rows: Sequence[Row], *, skip: bool) -> ImageSet:
    """The images that the rows of `path` name, relative to `root`. Rows about one image are joined.

    Images below `root` that they do not name are not read.
    """
    listing = list_images(root)
    about: dict[str, list[Row]] = {}
    missing: dict[str, str] = {}
    for row in rows:
        if (name := listing.find(row.file)) is None:
            missing[row.file] = listing.skipped.get(row.file, "named in the tags, but no image here")
        else:
            about.setdefault(name, []).append(row)
    absent = [name for name in missing if name not in listing.skipped]
    if absent and not skip:
        raise InputError(
            f"{len(absent)} of the files named in {path} are not images below {root} ({first_few(absent)}): "
            "correct the names or the folder, or skip them"
        )
    if not about:
        raise InputError(f"{path} names no image below {root}: is that the folder its names are relative to?")
    names = sorted(about)
    classes = sorted({name for row in rows for name in row.tags})
    if not classes:
        raise InputError(f"{path} names no class: expected at least one tag")
    tags = [_tags(about[name]) for name in names]
    # One row that leaves something open is enough: the image is not known in full.
    rest = [max(row.rest for row in about[name]) for name in names]
    boxes = [(i, box) for i, name in enumerate(names) for row in about[name] for box in row.boxes or ()]
    label = {name: c for c, name in enumerate(classes)}
    objects = [Object(i, box, label[kind]) for i, (kind, box) in boxes]
    return ImageSet(
        ids=unique_ids(names),
        paths=tuple(root / name for name in names),
        tags=tag_matrix(tags, rest, classes),
        classes=tuple(classes),
        truth=truth_of_objects(objects) if any(row.boxes is not None for row in rows) else None,
        skipped=tuple(f"{root / name}: {why}" for name, why in sorted(missing.items())),
    )


def _tags(rows: Sequence[Row]) -> dict[str, int]:
    tags: dict[str, int] = {}
    for row in rows:
        for name, tag in row.tags.items():
            if tags.get(name, 0) * tag < 0:
                raise InputError(
                    f"{row.where}: {row.file!r} is said to have the class {name!r} and not to have it"
                )
            tags[name] = tags.get(name, 0) or tag
    return tags


def split_tags(cell: str) -> list[str]:
    """The tags of a cell, `cat;red dog`."""
    return [tag.strip() for tag in cell.split(";") if tag.strip()]


def check_split(path: Path, split: str | None, has_split: bool) -> None:
    """Refuse to read a split of what has no splits."""
    if split is not None and not has_split:
        raise InputError(f"{path} has no 'split': leave out the split {split!r}, or add it to each row")
