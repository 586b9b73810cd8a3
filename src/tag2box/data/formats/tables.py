"""Tags in a table, CSV: `file,tags`, a row per tag, or a column per class."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from tag2box.data.formats.parsing import read_text
from tag2box.data.formats.rows import CELLS, FILE, TAGS, Row, check_split, split_tags
from tag2box.errors import InputError
from tag2box.names import first_few


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
                yield Row(where, cells[file].strip(), dict.fromkeys(split_tags(cells[tags]), 1), -1)
            else:
                tag_of = {
                    name: _cell(where, name, cell)
                    for i, (name, cell) in enumerate(zip(columns, cells, strict=True))
                    if i not in {file, part}
                }
                yield Row(where, cells[file].strip(), tag_of, 0)
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
