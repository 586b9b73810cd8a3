"""What every reader ends with: rows of tags and lists of objects become the arrays of an `ImageSet`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import image_size
from tag2box.errors import InputError
from tag2box.images import Truth

Box = tuple[float, float, float, float]  # x1, y1, x2, y2

# What folders of splits are called.
SPLITS = frozenset({"train", "val", "valid", "validation", "test", "trainval"})
FARTHEST = 1e9  # no image has a pixel there


class Object(NamedTuple):
    """A true box: index of its image, x1, y1, x2, y2 (exclusive), index of its class, whether it counts."""

    image: int
    box: Box
    label: int
    difficult: bool = False


def tag_matrix(
    tags: Sequence[Mapping[str, int]], rest: Sequence[int], classes: Sequence[str]
) -> NDArray[np.int8]:
    """Tags (n_images, n_classes): `tags` of each image, and `rest` for a class it does not name."""
    rows = [[row.get(name, other) for name in classes] for row, other in zip(tags, rest, strict=True)]
    return np.array(rows, dtype=np.int8).reshape(len(rows), len(classes))


def tags_of_objects(objects: Iterable[Object], n_images: int, n_classes: int) -> NDArray[np.int8]:
    """+1 with an object of the class, 0 where all of them are difficult (as VOC has it), -1 without one."""
    tags = np.full((n_images, n_classes), -1, dtype=np.int8)
    for item in objects:
        tags[item.image, item.label] = max(tags[item.image, item.label], 0 if item.difficult else 1)
    return tags


def truth_of_objects(objects: Iterable[Object]) -> Truth:
    """The objects as arrays. A box without area cannot be found, and is left out."""
    kept = [item for item in objects if _has_area(*item.box)]
    return Truth(
        np.array([item.image for item in kept], dtype=np.intp),
        np.array([item.box for item in kept], dtype=np.float32).reshape(-1, 4),
        np.array([item.label for item in kept], dtype=np.intp),
        np.array([item.difficult for item in kept], dtype=np.bool_),
    )


def _has_area(x1: float, y1: float, x2: float, y2: float) -> bool:
    return x2 > x1 and y2 > y1 and max(map(abs, (x1, y1, x2, y2))) < FARTHEST


def size_if_known(image: Path) -> tuple[int, int]:
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


def split_of(name: str) -> str:
    """The split whose folder an image or annotation is in, by its name; "" where it is in none."""
    return next((folder for folder in name.split("/")[:-1] if folder in SPLITS), "")
