"""What every reader ends with: annotations of images become the arrays of an `ImageSet`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tag2box.data.decoding import image_size
from tag2box.data.formats.files import unique_ids
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers, Truth
from tag2box.names import plain_name

Box = tuple[float, float, float, float]  # x1, y1, x2, y2
Size = tuple[int, int]  # width, height

# What folders of splits are called.
SPLITS = frozenset({"train", "val", "valid", "validation", "test", "trainval"})
FARTHEST = 1e9  # no image has a pixel there


class Object(NamedTuple):
    """A true box: its class, x1, y1, x2, y2 (exclusive), and whether it is difficult."""

    kind: str
    box: Box
    difficult: bool = False


class Annotation(NamedTuple):
    """What a data set says of one image."""

    name: str  # of the image below the folder that holds all of them
    path: Path
    tags: Mapping[str, int] = {}  # +1, 0 or -1 of classes, in place of what the boxes say
    boxes: Sequence[Object] | None = None  # all true boxes; None where it does not speak of boxes
    rest: int = -1  # the tag of the classes that are named nowhere here
    size: Size | None = None  # boxes are cut to it where it is known


def assemble(
    annotations: Iterable[Annotation],
    classes: Iterable[str] | None = None,
    *,
    ids: Sequence[str] | None = None,
    skipped: Sequence[str] = (),
    numbers: Numbers | None = None,
) -> ImageSet:
    """The image set of these annotations.

    A class with a box is +1 in its image, or 0 if all its boxes there are difficult, as VOC has it. classes:
    in their order; by default all that are named, sorted. ids: by default the names without suffix. What
    cannot be seen of the name of a class is dropped, and its letters are composed.
    """
    rows = list(annotations)
    tags = [_tags(row) for row in rows]
    kinds = sorted({kind for row in tags for kind in row}) if classes is None else map(plain_name, classes)
    names = tuple(dict.fromkeys(kinds))
    table = [[row.get(name, each.rest) for name in names] for row, each in zip(tags, rows, strict=True)]
    label = {name: c for c, name in enumerate(names)}
    boxes = [
        (i, _checked(row, item), label[plain_name(item.kind)], item.difficult)
        for i, row in enumerate(rows)
        for item in row.boxes or ()
        if plain_name(item.kind) in label
    ]
    boxes = [box for box in boxes if box[1][2] > box[1][0] and box[1][3] > box[1][1]]
    return ImageSet(
        ids=tuple(unique_ids([row.name for row in rows]) if ids is None else ids),
        paths=tuple(row.path for row in rows),
        tags=np.array(table, np.int8).reshape(len(rows), len(names)),
        classes=names,
        truth=None
        if all(row.boxes is None for row in rows)
        else Truth(
            np.array([i for i, *_ in boxes], np.intp),
            np.array([box for _, box, *_ in boxes], np.float32).reshape(-1, 4),
            np.array([c for *_, c, _ in boxes], np.intp),
            np.array([difficult for *_, difficult in boxes], np.bool_),
        ),
        numbers=numbers,
        skipped=tuple(skipped),
    )


def _tags(row: Annotation) -> dict[str, int]:
    tags: dict[str, int] = {}
    for item in row.boxes or ():
        tags[item.kind] = max(tags.get(item.kind, 0), 0 if item.difficult else 1)
    plain: dict[str, int] = {}
    for name, tag in (tags | dict(row.tags)).items():
        plain[plain_name(name)] = max(plain.get(plain_name(name), -1), tag)
    return plain


def _checked(row: Annotation, item: Object) -> Box:
    """The box within its image; a box without area cannot be found, and is left out later."""
    if not all(math.isfinite(side) and abs(side) < FARTHEST for side in item.box):
        raise InputError(f"a box of {item.kind!r} in {row.name} is no place in a photo: correct or remove it")
    if row.size is None:
        return item.box
    (x1, y1, x2, y2), (w, h) = item.box, row.size
    return max(x1, 0), max(y1, 0), min(x2, w), min(y2, h)


def size_if_known(image: Path) -> Size:
    """Width and height; 0, 0 where it cannot be read: the class is there, but in a box without area."""
    try:
        return image_size(image)
    except InputError:
        return 0, 0


def choose_split(wanted: str | None, known: Iterable[str], where: object) -> str:
    """The split to read: `wanted`, or the first there is of trainval, train and the only one.

    "train" also finds "train2017", where that is the only one of the kind.
    """
    names = sorted(known)
    for name in ("trainval", "train", *(names if len(names) == 1 else [])) if wanted is None else (wanted,):
        begins = [other for other in names if other.startswith(name) and other[len(name) :].isdigit()]
        if name in names or len(begins) == 1:
            return name if name in names else begins[0]
    if wanted is None:
        raise InputError(f"{where} has the splits {', '.join(names) or '(none)'}: say which one to read")
    raise InputError(f"{where} has no split {wanted!r}: it has {', '.join(names) or 'none'}")


def refuse_split(split: str | None, where: object) -> None:
    """Refuse to read a split of what has none."""
    if split is not None:
        raise InputError(f"{where} has no splits: leave out the split {split!r}")
