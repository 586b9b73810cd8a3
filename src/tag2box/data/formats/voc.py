"""The PASCAL VOC devkit's layout (`JPEGImages`, `Annotations`, `ImageSets/Main`), its XML and result files.

Its boxes are 1-based inclusive integers; that stays inside this file.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tag2box.data.formats.annotations import (
    SPLITS,
    Annotation,
    Object,
    assemble,
    choose_split,
    refuse_split,
)
from tag2box.data.formats.files import SUFFIXES, Listing, place_inside, unique_ids, without_suffix
from tag2box.data.formats.parsing import expecting, read_text, read_xml
from tag2box.errors import InputError
from tag2box.images import ImageSet

ANNOTATIONS = frozenset({".xml"})
FIRST = 10  # XML files that are looked at, to see what they are
SIDES = ("xmin", "ymin", "xmax", "ymax")
RESULTS = re.compile(r"comp\d_det_(?P<split>[^_]+)_(?P<name>.+)\.txt")


def find_devkit(root: Path) -> Path | None:
    """The folder that holds ImageSets/Main: `root`, or its one sub-folder `VOC<year>`."""
    devkits = [path for path in (root, *sorted(root.glob("VOC*"))) if (path / "ImageSets" / "Main").is_dir()]
    if len(devkits) > 1 and devkits[0] != root:
        raise InputError(
            f"{root} holds {', '.join(path.name for path in devkits)}: give one of these folders"
        )
    return devkits[0] if devkits else None


def read(root: Path, split: str | None) -> ImageSet:
    """Images of `ImageSets/Main/{split}.txt`, tags of `{class}_{split}.txt`, truth of `Annotations`.

    Without lists per class the tags are those of the annotations, by the devkit's rule: 1 with an object of
    the class, 0 where all of them are difficult, -1 without one. Without any annotation the truth is None.
    """
    lists = root / "ImageSets" / "Main"
    split = choose_split(split, (p.stem for p in lists.glob("*.txt") if "_" not in p.stem), lists)
    file = lists / f"{split}.txt"
    ids = [*dict.fromkeys(line.strip() for line in read_text(file).split("\n") if line.strip())]
    classes = sorted(p.stem.removesuffix(f"_{split}") for p in lists.glob(f"*_{split}.txt"))
    tags = {name: _tags(lists / f"{name}_{split}.txt") for name in classes}
    with expecting("a list of images", file):
        photos = {p.stem: p for p in sorted((root / "JPEGImages").glob("*")) if p.suffix.lower() in SUFFIXES}
        rows = []
        for name in ids:
            path = photos.get(name) or place_inside(root / "JPEGImages", f"{name}.jpg")[1]
            xml = root / "Annotations" / f"{name}.xml"
            boxes = list(_boxes(xml)) if os.path.isfile(xml) else None
            rows.append(Annotation(name, path, {kind: tags[kind].get(name, 0) for kind in classes}, boxes))
        if not classes and not any(row.boxes for row in rows):
            raise InputError(
                f"{lists} has no lists such as cat_{split}.txt, and there are no annotations either"
            )
        return assemble(rows, classes or None, ids=ids)


def find_annotations(files: Listing) -> dict[str, Path]:
    """Annotations without a devkit around them, as LabelImg and Roboflow write them, by name below the root.

    Empty where none of the first XML files is one: others keep XML beside photos too.
    """
    annotations = {name: files.root / name for name in files.only(ANNOTATIONS).names}
    return annotations if any(map(_is_annotation, islice(annotations.values(), FIRST))) else {}


def _is_annotation(path: Path) -> bool:
    try:
        return read_xml(path).tag == "annotation"
    except InputError:
        return False


def read_annotations(listing: Listing, annotations: dict[str, Path], split: str | None) -> ImageSet:
    """All images of the listing, with the objects of the annotation of their name. Images without have none.

    An annotation is beside its image or in another folder: `images/a.jpg`, `annotations/a.xml`. Where the
    folders are called `train`, `valid` and so on, above or below these, they are splits.
    """
    root = listing.root
    splits = {_split_of(name) for name in listing.names} - {""}
    if splits and all(map(_split_of, listing.names)):
        split = choose_split(split, splits, root)
    else:
        refuse_split(split, root)
    names = [name for name in listing.names if split is None or _split_of(name) == split]
    files = {
        name: path for name, path in annotations.items() if split is None or _split_of(name) in (split, "")
    }
    matched = _annotated(names, files)
    alone = sorted(set(files.values()) - set(matched.values())) if split is None else []
    rows = [
        Annotation(name, root / name, boxes=list(_boxes(matched[name])) if name in matched else [])
        for name in names
    ]
    if not any(row.boxes for row in rows):
        raise InputError(f"{root}: no annotation of an image holds an object: expected <object> with <name>")
    skipped = [*listing.lines(), *(f"{path}: an annotation without an image" for path in alone)]
    return assemble(rows, ids=unique_ids(_below_common(names)), skipped=skipped)


def _split_of(name: str) -> str:
    """The split whose folder an image or annotation is in, by its name; "" where it is in none."""
    return next((folder for folder in name.split("/")[:-1] if folder in SPLITS), "")


def _below_common(names: Sequence[str]) -> list[str]:
    """The names below the folder that holds all images: what they are called where that alone is given."""
    top = Path(os.path.commonpath([Path(name).parent for name in names]))
    return [Path(name).relative_to(top).as_posix() for name in names]


def _annotated(names: Sequence[str], annotations: dict[str, Path]) -> dict[str, Path]:
    """Image -> its annotation: the one beside it, or else the only one of its name."""
    adjacent = {name[: -len(path.suffix)]: path for name, path in annotations.items()}
    elsewhere: dict[str, list[Path]] = {}
    for path in annotations.values():
        elsewhere.setdefault(path.stem, []).append(path)
    annotated = {}
    for name in names:
        stem = without_suffix(name)
        called_so = elsewhere.get(stem.rpartition("/")[2], [])
        if stem in adjacent:
            annotated[name] = adjacent[stem]
        elif len(called_so) == 1:
            annotated[name] = called_so[0]
    return annotated


def _tags(path: Path) -> dict[str, int]:
    label = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        fields = line.strip().rsplit(None, 1)
        if not fields:
            continue
        if len(fields) != 2 or fields[1] not in {"1", "-1", "0"}:
            raise InputError(f"{path}, line {number}: expected an image and 1, -1 or 0, found {line!r}")
        label[fields[0]] = int(fields[1])
    return label


def _boxes(path: Path) -> Iterator[Object]:
    """The objects of an annotation."""
    for item in read_xml(path).iter("object"):
        try:
            x1, y1, x2, y2 = (float(item.findtext(f"bndbox/{side}", "")) for side in SIDES)
        except ValueError:
            raise InputError(f"{path}: an object without numbers for {', '.join(SIDES)}") from None
        hard = item.findtext("difficult", "0").strip() == "1"
        yield Object(item.findtext("name", "").strip(), (x1 - 1, y1 - 1, x2, y2), hard)


def annotation(file: str, size: tuple[int, int], objects: Iterable[tuple[str, float, Any]]) -> bytes:
    """The XML of one image; `objects` are (class, score, xyxy). Boxes go to the nearest whole pixels."""
    root = ElementTree.Element("annotation")
    ElementTree.SubElement(root, "filename").text = file
    shape = ElementTree.SubElement(root, "size")
    for name, value in (("width", size[0]), ("height", size[1]), ("depth", 3)):
        ElementTree.SubElement(shape, name).text = str(value)
    for name, score, box in objects:
        item = ElementTree.SubElement(root, "object")
        for key, text in (("name", name), ("difficult", "0"), ("score", repr(float(score)))):
            ElementTree.SubElement(item, key).text = text
        bounds = ElementTree.SubElement(item, "bndbox")
        x1, y1, x2, y2 = (round(float(side)) for side in box)
        # A box has at least one pixel, and all of them lie in the image.
        x1, y1 = min(max(x1, 0), size[0] - 1), min(max(y1, 0), size[1] - 1)
        x2, y2 = min(max(x2, x1 + 1), size[0]), min(max(y2, y1 + 1), size[1])
        for side, value in zip(SIDES, (x1 + 1, y1 + 1, x2, y2), strict=True):
            ElementTree.SubElement(bounds, side).text = str(value)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8")) + b"\n"


def result_line(name: str, score: float, box: Any) -> str:
    """A line of the devkit's result files: image, score, 1-based inclusive box (fractions are allowed)."""
    if name != name.strip():
        raise InputError(f"the image {name!r} begins or ends with a space, lost in comp4: rename it")
    x1, y1, x2, y2 = (float(side) for side in box)
    sides = " ".join(f"{side:.0f}" if side.is_integer() else repr(side) for side in (x1 + 1, y1 + 1, x2, y2))
    return f"{name} {float(score)!r} {sides}\n"


def read_results(folder: Path) -> Iterator[tuple[str, list[tuple[str, float, list[float]]]]]:
    """(class, rows of image, score and box) of each `comp4_det_{split}_{class}.txt` in `folder`."""
    files = {path: match for path in sorted(folder.glob("*.txt")) if (match := RESULTS.fullmatch(path.name))}
    if not files:
        raise InputError(f"{folder} holds no detections: expected files such as comp4_det_test_cat.txt")
    if len(splits := sorted({match["split"] for match in files.values()})) > 1:
        raise InputError(f"{folder} holds the splits {', '.join(splits)}: keep each in a folder of its own")
    for path, match in files.items():
        rows = []
        for number, line in enumerate(read_text(path).split("\n"), start=1):
            try:
                if line.strip():
                    name, *numbers = line.strip().rsplit(None, 5)
                    score, x1, y1, x2, y2 = map(float, numbers)
                    rows.append((name, score, [x1 - 1, y1 - 1, x2, y2]))
            except ValueError:
                raise InputError(
                    f"{path}, line {number}: expected image, score, x1, y1, x2, y2, found {line!r}"
                ) from None
        yield match["name"], rows
