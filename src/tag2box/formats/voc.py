"""The PASCAL VOC devkit's layout: `JPEGImages`, `Annotations`, `ImageSets/Main`.

Its boxes are 1-based inclusive integers; that stays inside this file.
"""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.images import ImageSet, Truth

__all__ = ["read"]


def read(root: Path, split: str) -> ImageSet:
    """Images of `ImageSets/Main/{split}.txt`, tags of `{class}_{split}.txt`, truth of `Annotations`."""
    lists = root / "ImageSets" / "Main"
    if not (lists / f"{split}.txt").is_file():
        known = sorted(p.stem for p in lists.glob("*.txt") if "_" not in p.stem)
        raise InputError(f"{lists} has no split {split!r}: it has {', '.join(known) or 'none'}")
    ids = tuple((lists / f"{split}.txt").read_text().split())
    classes = tuple(sorted(p.stem.removesuffix(f"_{split}") for p in lists.glob(f"*_{split}.txt")))
    tags = np.stack([_tags(lists / f"{name}_{split}.txt", ids) for name in classes], axis=1)
    paths = tuple(root / "JPEGImages" / f"{name}.jpg" for name in ids)
    truth = _truth(root / "Annotations", ids, classes) if (root / "Annotations").is_dir() else None
    return ImageSet(ids, paths, tags, classes, truth)


def _tags(path: Path, ids: Sequence[str]) -> NDArray[np.int8]:
    label = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[1] not in {"1", "-1", "0"}:
            raise InputError(f"{path}, line {number}: expected an image and 1, -1 or 0, found {line!r}")
        label[fields[0]] = int(fields[1])
    return np.array([label.get(name, 0) for name in ids], dtype=np.int8)


def _truth(folder: Path, ids: Sequence[str], classes: Sequence[str]) -> Truth:
    image, xyxy, label, difficult = [], [], [], []
    for i, name in enumerate(ids):
        path = folder / f"{name}.xml"
        if not path.is_file():
            continue
        for item in ElementTree.parse(path).iter("object"):
            if (kind := item.findtext("name", "")) not in classes:
                continue
            x1, y1, x2, y2 = (
                float(item.findtext(f"bndbox/{side}", "nan")) for side in ("xmin", "ymin", "xmax", "ymax")
            )
            image.append(i)
            xyxy.append((x1 - 1, y1 - 1, x2, y2))
            label.append(classes.index(kind))
            difficult.append(item.findtext("difficult", "0") == "1")
    return Truth(
        np.array(image, dtype=np.intp),
        np.array(xyxy, dtype=np.float32).reshape(-1, 4),
        np.array(label, dtype=np.intp),
        np.array(difficult, dtype=np.bool_),
    )
