"""Tags in a table: CSV (`file,tags`, a row per tag, or a column per class) and JSON Lines."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tag2box.data.formats.building import tag_matrix
from tag2box.data.formats.files import first_few, list_images, unique_ids
from tag2box.data.formats.parsing import parse_json, read_json, read_text
from tag2box.errors import InputError
from tag2box.images import ImageSet

__all__ = ["read"]

FILE = ("file", "filename", "file_name", "image", "path")
TAGS = ("tags", "tag", "labels", "label", "classes", "class")
CELLS = {"1": 1, "0": -1, "-1": -1, "true": 1, "false": -1, "": 0, "?": 0, "nan": 0}


class Row(NamedTuple):
    """What one row says: `said` maps a class to +1, -1 or 0; `rest` is for the classes it does not name."""

    where: str
    file: str
    said: Mapping[str, int]
    rest: int


def read(root: Path, path: Path, split: str | None, *, skip: bool) -> ImageSet:
    """The images that the table `path` names, relative to `root`. Rows about one image are joined.

    Images below `root` that it does not name are not read.
    """
    rows = list(_rows(path, split))
    listing = list_images(root)
    said: dict[str, dict[str, int]] = {}
    rest: dict[str, int] = {}
    missing: dict[str, str] = {}
    for row in rows:
        if (name := listing.find(row.file)) is None:
            missing[row.file] = listing.skipped.get(row.file, "named in the tags, but no image here")
            continue
        _join(said.setdefault(name, {}), row)
        # One row that leaves something open is enough: the image is not known in full.
        rest[name] = max(rest.get(name, -1), row.rest)
    absent = [name for name in missing if name not in listing.skipped]
    if absent and not skip:
        raise InputError(
            f"{len(absent)} of the files named in {path} are not images below {root} ({first_few(absent)}): "
            "correct the names or the folder, or skip them"
        )
    if not said:
        raise InputError(f"{path} names no image below {root}: is that the folder its names are relative to?")
    names = sorted(said)
    classes = sorted({name for row in rows for name in row.said})
    if not classes:
        raise InputError(f"{path} names no class: expected at least one tag")
    return ImageSet(
        ids=unique_ids(names),
        paths=tuple(root / name for name in names),
        tags=tag_matrix([said[name] for name in names], [rest[name] for name in names], classes),
        classes=tuple(classes),
        skipped=tuple(f"{root / name}: {why}" for name, why in sorted(missing.items())),
    )


def _join(said: dict[str, int], row: Row) -> None:
    for name, tag in row.said.items():
        if said.get(name, 0) * tag < 0:
            raise InputError(f"{row.where}: {row.file!r} both has and has not the class {name!r}")
        said[name] = said.get(name, 0) or tag


def _rows(path: Path, split: str | None) -> Iterator[Row]:
    kind = path.suffix.lower()
    if kind in {".csv", ".tsv", ".txt"}:
        return _csv_rows(path, split)
    if kind in {".jsonl", ".ndjson"}:
        return _json_rows(path, _json_lines(path), split)
    if kind == ".json":
        records = read_json(path)
        if isinstance(records, list):
            numbered = ((f"{path}, record {i}", record) for i, record in enumerate(records, start=1))
            return _json_rows(path, numbered, split)
    raise InputError(
        f"{path} is no file of tags: expected .csv, .tsv, .jsonl, or .json with a list of records"
    )


def _csv_rows(path: Path, split: str | None) -> Iterator[Row]:
    text = read_text(path)
    delimiter = next((mark for mark in "\t,;" if mark in text.split("\n", 1)[0]), ",")
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        columns = [name.strip() for name in next(table, [])]
        file, tags = _columns(path, columns)
        part = columns.index("split") if "split" in columns else None
        _check_split(path, split, part is not None)
        for cells in table:
            where = f"{path}, line {table.line_num}"
            if not any(cells):
                continue
            if len(cells) != len(columns):
                raise InputError(f"{where}: {len(cells)} cells under {len(columns)} column names")
            if split is not None and cells[part or 0].strip() != split:
                continue
            if tags is not None:
                yield Row(where, cells[file].strip(), dict.fromkeys(_split_tags(cells[tags]), 1), -1)
            else:
                said = {
                    name: _cell(where, name, cell)
                    for i, (name, cell) in enumerate(zip(columns, cells, strict=True))
                    if i not in {file, part}
                }
                yield Row(where, cells[file].strip(), said, 0)
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


def _split_tags(cell: str) -> list[str]:
    return [tag.strip() for tag in cell.split(";") if tag.strip()]


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_json(line, f"{where}: not JSON")


def _json_rows(path: Path, records: Iterator[tuple[str, Any]], split: str | None) -> Iterator[Row]:
    has_split = False
    for where, record in records:
        file = (
            next((record[key] for key in FILE if key in record), None) if isinstance(record, dict) else None
        )
        if not isinstance(file, str) or not {"tags", "not"} & set(record):
            raise InputError(
                f'{where}: expected {{"file": "a.jpg", "tags": ["cat"]}}, found {_short(record)}'
            )
        has_split |= "split" in record
        if split is None or record.get("split") == split:
            said, rest = _said(where, record)
            yield Row(where, file, said, rest)
    _check_split(path, split, has_split)


def _said(where: str, record: dict[str, Any]) -> tuple[dict[str, int], int]:
    tags, no = record.get("tags", []), record.get("not", [])
    tags = _split_tags(tags) if isinstance(tags, str) else tags
    no = _split_tags(no) if isinstance(no, str) else no
    if isinstance(tags, dict):
        if not all(value is None or (isinstance(value, int) and -1 <= value <= 1) for value in tags.values()):
            raise InputError(f"{where}: tags must be true, false, or null for unknown, found {_short(tags)}")
        said = {str(name): 0 if value is None else CELLS[str(int(value))] for name, value in tags.items()}
    elif isinstance(tags, list) and all(isinstance(name, str) for name in tags):
        said = dict.fromkeys(tags, 1)
    else:
        raise InputError(f"{where}: tags must be a list of names or an object, found {_short(tags)}")
    if not isinstance(no, list) or not all(isinstance(name, str) for name in no):
        raise InputError(f'{where}: "not" must be a list of names, found {_short(no)}')
    if both := [name for name in no if said.get(name) == 1]:
        raise InputError(f"{where}: the class {both[0]!r} is both there and not there")
    open_record = "not" in record or isinstance(tags, dict)
    return said | dict.fromkeys(no, -1), 0 if open_record else -1


def _check_split(path: Path, split: str | None, has_split: bool) -> None:
    if split is not None and not has_split:
        raise InputError(f"{path} has no 'split': leave out the split {split!r}, or add it to each row")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
