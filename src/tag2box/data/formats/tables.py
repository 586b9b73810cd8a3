"""Tags in a table, CSV: `file,tags`, a row per tag, or a column per class; and how rows become images."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tag2box.data.formats.annotations import Annotation, Object, assemble
from tag2box.data.formats.files import list_images
from tag2box.data.formats.parsing import read_text
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few

# What the column of files and that of tags may be called.
FILE = ("file", "filename", "file_name", "image", "path")
TAGS = ("tags", "tag", "labels", "label", "classes", "class")
CELLS = {"1": 1, "0": -1, "-1": -1, "true": 1, "false": -1, "": 0, "?": 0, "nan": 0}


class Row(NamedTuple):
    """What one row says: `tags` maps a class to +1, -1 or 0; `rest` is for the classes it does not name."""

    where: str
    file: str
    tags: Mapping[str, int]
    rest: int
    boxes: Sequence[Object] | None = None


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
    classes = sorted({name for row in rows for name in row.tags})
    if not classes:
        raise InputError(f"{path} names no class: expected at least one tag")
    joined = [_joined(name, root / name, about[name]) for name in sorted(about)]
    return assemble(
        joined, classes, skipped=[f"{root / name}: {why}" for name, why in sorted(missing.items())]
    )


def _joined(name: str, path: Path, rows: Sequence[Row]) -> Annotation:
    """What all rows about an image say. One that leaves something open is enough: it is not known in full."""
    tags: dict[str, int] = {}
    for row in rows:
        for kind, tag in row.tags.items():
            if tags.get(kind, 0) * tag < 0:
                raise InputError(
                    f"{row.where}: {row.file!r} is said to have the class {kind!r} and not to have it"
                )
            tags[kind] = tags.get(kind, 0) or tag
    boxes = [box for row in rows for box in row.boxes or ()]
    known = any(row.boxes is not None for row in rows)
    return Annotation(name, path, tags, boxes if known else None, max(row.rest for row in rows))


def split_tags(cell: str) -> list[str]:
    """The tags of a cell, `cat;red dog`."""
    return [tag.strip() for tag in cell.split(";") if tag.strip()]


def check_split(path: Path, split: str | None, has_split: bool) -> None:
    """Refuse to read a split of what has no splits."""
    if split is not None and not has_split:
        raise InputError(f"{path} has no 'split': leave out the split {split!r}, or add it to each row")


def read_rows(path: Path, split: str | None) -> Iterator[Row]:
    """What the rows of a CSV file say; only those of `split`, where that is given."""
    text = read_text(path)
    delimiter = next((mark for mark in "\t,;" if mark in text.split("\n", 1)[0]), ",")
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        columns = [name.strip() for name in next(table, [])]
        file, tags = _columns(path, columns)
        part = columns.index("split") if "split" in columns else None
        check_split(path, split, part is not None)
        for cells in table:
            where = f"{path}, line {table.line_num}"
            if not any(cells):
                continue
            if len(cells) != len(columns):
                raise InputError(f"{where}: {len(cells)} cells under {len(columns)} column names")
            if split is not None and cells[part or 0].strip() != split:
                continue
            if tags is not None:
                tag_of = dict.fromkeys(split_tags(cells[tags]), 1)
            else:
                named = (
                    each for i, each in enumerate(zip(columns, cells, strict=True)) if i not in {file, part}
                )
                tag_of = {name: _cell(where, name, cell) for name, cell in named}
            yield Row(where, cells[file].strip(), tag_of, 0 if tags is None else -1)
    except csv.Error as error:
        raise InputError(f"{path}, line {table.line_num}: not CSV ({error})") from None


def _columns(path: Path, columns: list[str]) -> tuple[int, int | None]:
    """Where the file is, and where its tags are: nowhere, if there is a column per class."""
    lower = [name.lower() for name in columns]
    file = next((lower.index(name) for name in FILE if name in lower), None)
    if file is None or len(columns) < 2 or len(set(columns)) < len(columns) or "" in columns:
        raise InputError(
            f"{path}: the first line must name the columns, each once, as 'file,tags' or 'file,cat,dog', "
            f"but it is {','.join(columns)!r}"
        )
    tags = next((lower.index(name) for name in TAGS if name in lower), None)
    others = [name for i, name in enumerate(columns) if i not in {file, tags} and name != "split"]
    if tags is not None and others:
        raise InputError(
            f"{path}: beside {columns[tags]!r} there are columns {first_few(others)}: have either a column "
            "of tags or a column per class"
        )
    return file, tags


def _cell(where: str, name: str, cell: str) -> int:
    value = re.sub(r"\.0+$", "", cell.strip().lower())  # pandas writes 1.0 beside empty cells
    if value not in CELLS:
        raise InputError(f"{where}: under {name!r} expected 1, 0, -1, or nothing for unknown, found {cell!r}")
    return CELLS[value]
