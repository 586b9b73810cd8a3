"""`read_detections`: boxes found before, by tag2box or by others, for evaluation."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.data.formats import coco, voc
from tag2box.data.formats.cells import COLUMNS, plain_cell
from tag2box.data.formats.files import unique_ids
from tag2box.data.formats.parsing import expecting, read_json, read_text
from tag2box.detection.detections import FORMAT, Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers


def read_detections(path: str | Path, images: ImageSet | None = None) -> Detections:
    r"""Read detections from a file or folder.

    Parameters
    ----------
    path : str or Path
        Our own ``.npz`` or ``.json``, COCO results or instances, CSV, or a folder of VOC's comp4 files.
    images : ImageSet, default=None
        The images in which the detections are. COCO results need them, as they name images by number;
        elsewhere their ids and classes come first, so that images without a detection are known too.

    Returns
    -------
    Detections
        The detections.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tag2box as t2b
    >>> file = Path(tempfile.mkdtemp()) / "boxes.csv"
    >>> _ = file.write_text("file,class,score,x1,y1,x2,y2\na.jpg,cat,0.8,1,2,30,40\n")
    >>> detections = t2b.read_detections(file)
    >>> detections.ids, detections.classes, detections.xyxy.tolist()
    (('a',), ('cat',), [[1.0, 2.0, 30.0, 40.0]])
    """
    path = Path(path)
    if path.is_dir():
        return _comp4(path, images)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected detections as .npz, .json, .csv, or a comp4 folder")
    if path.suffix == ".npz":
        return Detections.load(path)
    if path.suffix == ".csv":
        rows = _csv(path)
        return _named(path, rows, (), unique_ids(_names(rows)), images)
    if path.suffix == ".json":
        content = read_json(path)
        if isinstance(content, list):
            return _coco_results(path, content, images)
        if coco.is_instances(content):
            return _coco_instances(path, content, images)
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Detections.load(path)
    raise InputError(f"{path} holds no detections known here: expected .npz, .csv, COCO's or our own .json")


Row = tuple[str, str, float, Sequence[float]]  # file or id, class, score, xyxy


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row[0] for row in rows))


def _named(
    path: Path, rows: list[Row], classes: Iterable[str], ids: Sequence[str], images: ImageSet | None
) -> Detections:
    """Detections of `rows`; `ids` are for the names in them, `classes` are there with or without rows."""
    names = _names(rows)
    ids, id_of = tuple(ids), dict(zip(names, ids, strict=True))
    kinds = tuple(sorted({*classes, *(row[1] for row in rows)}))
    if images is not None:
        ids, id_of = images.ids, _known_ids(path, names, images)
        kinds = (*images.classes, *(name for name in kinds if name not in images.classes))
    place = {name: i for i, name in enumerate(ids)}
    image = {name: place[id_of[name]] for name in names}
    label = {name: c for c, name in enumerate(kinds)}
    with expecting("a file of detections", path):
        return Detections(
            image=np.array([image[row[0]] for row in rows], dtype=np.intp),
            xyxy=_float32([row[3] for row in rows]),
            score=np.array([row[2] for row in rows], dtype=np.float64),
            label=np.array([label[row[1]] for row in rows], dtype=np.intp),
            ids=ids,
            classes=kinds,
        )


def _known_ids(path: Path, names: list[str], images: ImageSet) -> dict[str, str]:
    """Name in the file -> id: it may be written with or without its suffix."""
    known = {name + file.suffix: name for name, file in zip(images.ids, images.paths, strict=True)}
    known.update((name, name) for name in images.ids)
    if absent := [name for name in names if name not in known]:
        raise InputError(f"{path}: {len(absent)} images are not among those given, such as {absent[0]!r}")
    return known


def _comp4(path: Path, images: ImageSet | None) -> Detections:
    parts = dict(voc.read_results(path))
    rows: list[Row] = [(name, kind, score, box) for kind, part in parts.items() for name, score, box in part]
    return _named(path, rows, parts, _names(rows), images)


def _csv(path: Path) -> list[Row]:
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = next(table, [])
        if not set(COLUMNS) <= set(header):
            raise InputError(f"{path}: expected the columns {','.join(COLUMNS)}, found {','.join(header)!r}")
        at = [header.index(name) for name in COLUMNS]
        for cells in table:
            if cells:
                file, kind, *numbers = (cells[i] for i in at)
                score, *box = map(float, numbers)
                rows.append((plain_cell(file), plain_cell(kind), score, box))
    except (csv.Error, ValueError, IndexError) as wrong:
        if isinstance(wrong, InputError):
            raise
        raise InputError(f"{path}, line {table.line_num}: expected {','.join(COLUMNS)} ({wrong})") from None
    return rows


def _coco_results(path: Path, content: list[Any], images: ImageSet | None) -> Detections:
    if images is None:
        raise InputError(f"{path} names images by number, as COCO results do: give the images too")
    numbers = images.numbers or Numbers.from_one(len(images), len(images.classes))
    rows = _coco_rows(path, content, images, numbers)
    return _named(path, rows, (), _names(rows), images)


def _coco_instances(path: Path, content: Any, images: ImageSet | None) -> Detections:
    own = coco.read(path.parent, path, content)
    if own.numbers is None or not all("score" in item for item in content["annotations"]):
        raise InputError(f"{path} holds objects without a score: these are annotations, not detections")
    rows = _coco_rows(path, content["annotations"], own, own.numbers)
    return _named(path, rows, own.classes, _names(rows), own if images is None else images)


def _coco_rows(path: Path, items: list[Any], images: ImageSet, numbers: Numbers) -> list[Row]:
    """The records of COCO, by the names of the images and classes that its numbers stand for."""
    name = dict(zip(numbers.images, images.ids, strict=True))
    kind = dict(zip(numbers.classes, images.classes, strict=True))
    rows: list[Row] = []
    with expecting("a file of COCO results of these images", path):
        for item in items:
            x, y, w, h = map(float, item["bbox"])
            box = (x, y, x + w, y + h)
            rows.append((name[item["image_id"]], kind[item["category_id"]], float(item["score"]), box))
    return rows


def _float32(boxes: ArrayLike) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and `Detections` refuses that
        return np.asarray(boxes, dtype=np.float64).reshape(-1, 4).astype(np.float32)
