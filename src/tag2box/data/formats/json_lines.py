"""Tags, and boxes, in records of JSON: our own `tags` and `not`, and Hugging Face's `metadata.jsonl`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tag2box.data.formats.annotations import Object
from tag2box.data.formats.parsing import expecting, parse_json, read_json, read_text
from tag2box.data.formats.tables import CELLS, FILE, TAGS, Row, check_split, split_tags
from tag2box.errors import InputError

METADATA = "metadata.jsonl"
# What the classes of the objects may be called.
CATEGORIES = ("categories", "category", "labels", "label")


def find_metadata(root: Path) -> dict[str, Path]:
    """Hugging Face's files in `root`, by split; "" is the split of the one in `root` itself."""
    if (root / METADATA).is_file():
        return {"": root / METADATA}
    return {path.parent.name: path for path in sorted(root.glob(f"*/{METADATA}"))}


def read_rows(path: Path, split: str | None) -> Iterator[Row]:
    """What the records of a .json or .jsonl file say; only those of `split`, where that is given."""
    has_split = False
    for where, record in _records(path):
        known = record if isinstance(record, dict) else {}
        file = next((known[key] for key in FILE if key in known), None)
        if not isinstance(file, str) or not {*TAGS, "not", "objects"} & known.keys():
            raise InputError(
                f'{where}: expected {{"file": "a.jpg", "tags": ["cat"]}}, found {_short(record)}'
            )
        has_split |= "split" in record
        if split is None or record.get("split") == split:
            yield _with_boxes(where, file, record) if "objects" in record else _row(where, file, record)
    check_split(path, split, has_split)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() != ".json":
        for number, line in enumerate(read_text(path).split("\n"), start=1):
            if line.strip():
                where = f"{path}, line {number}"
                yield where, parse_json(line, f"{where}: not JSON")
        return
    records = read_json(path)
    if not isinstance(records, list):
        raise InputError(f"{path} is no file of tags: expected a list of records")
    yield from ((f"{path}, record {i}", record) for i, record in enumerate(records, start=1))


def _row(where: str, file: str, record: dict[str, Any]) -> Row:
    no = record.get("not", [])
    no = split_tags(no) if isinstance(no, str) else no
    tags = _plain(*next(((key, record[key]) for key in TAGS if key in record), ("tags", [])))
    if isinstance(tags, dict):
        if not all(value is None or (isinstance(value, int) and -1 <= value <= 1) for value in tags.values()):
            raise InputError(f"{where}: tags must be true, false, or null for unknown, found {_short(tags)}")
        tag_of = {str(name): 0 if value is None else CELLS[str(int(value))] for name, value in tags.items()}
    elif isinstance(tags, list) and all(isinstance(name, str) for name in tags):
        tag_of = dict.fromkeys(tags, 1)
    else:
        raise InputError(f"{where}: tags must be a list of names or an object, found {_short(tags)}")
    if not isinstance(no, list) or not all(isinstance(name, str) for name in no):
        raise InputError(f'{where}: "not" must be a list of names, found {_short(no)}')
    if both := [name for name in no if tag_of.get(name) == 1]:
        raise InputError(f"{where}: the class {both[0]!r} is both there and not there")
    is_open = "not" in record or isinstance(tags, dict)
    return Row(where, file, tag_of | dict.fromkeys(no, -1), 0 if is_open else -1)


def _plain(key: str, tags: Any) -> Any:
    """Text as a list of names, and numbers where these are labels; null as an object: nothing is known."""
    if isinstance(tags, str):
        return split_tags(tags)
    if tags is None:
        return {}
    if key not in {"tags", "tag"} and (isinstance(tags, list) or type(tags) is int):
        return [str(tag) if type(tag) is int else tag for tag in (tags if isinstance(tags, list) else [tags])]
    return tags


def _with_boxes(where: str, file: str, record: dict[str, Any]) -> Row:
    """A record of Hugging Face: its objects are all there are, with boxes x, y, width, height."""
    with expecting('"objects": {"bbox": [[x, y, width, height]], "categories": ["cat"]}', Path(where)):
        objects = record["objects"]
        if isinstance(objects, list):  # an object per box
            objects = {key: [item[key] for item in objects] for key in (objects[0] if objects else ())}
        kinds = [str(kind) for kind in next((objects[key] for key in CATEGORIES if key in objects), [])]
        boxes = [
            Object(kind, (float(x), float(y), float(x) + float(w), float(y) + float(h)))
            for kind, (x, y, w, h) in zip(kinds, objects.get("bbox", []), strict=True)
        ]
    return Row(where, file, dict.fromkeys(kinds, 1), -1, boxes)


def metadata_line(file: str, size: tuple[int, int], objects: list[tuple[str, float, Any]]) -> str:
    """A line of `metadata.jsonl`; `objects` are (class, score, xyxy)."""
    sides = [[float(side) for side in box] for _, _, box in objects]
    content = {
        "file_name": file,
        "width": size[0],
        "height": size[1],
        "objects": {
            "bbox": [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in sides],
            "categories": [kind for kind, _, _ in objects],
            "scores": [score for _, score, _ in objects],
        },
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
