"""What goes into the files that `write_detections` writes: a function per format."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_xywh
from tag2box.data.decoding import image_size
from tag2box.data.formats import cvat, json_lines, labelstudio, voc, yolo
from tag2box.data.formats.cells import COLUMNS, safe_cell
from tag2box.data.formats.yolo import divide
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import Numbers

# Name below the target, "" for the target itself -> what is in it; a path stands for a copy of that file.
Contents = dict[str, str | bytes | Path]


@dataclass
class Export:
    """Detections that speak of the images and classes of `ids` and `classes`, and where the images are."""

    detections: Detections
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    numbers: Numbers
    known_sizes: dict[int, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The name of each image in what is written: its id with its file's suffix."""
        pairs = zip(self.ids, self.paths, strict=True)
        return tuple(
            name if PurePosixPath(name).name == path.name else name + path.suffix for name, path in pairs
        )

    def size(self, image: int) -> tuple[int, int]:
        """(width, height) of an upright image: boxes are in its pixels."""
        if image not in self.known_sizes:
            self.known_sizes[image] = image_size(self.paths[image])
        return self.known_sizes[image]

    @cached_property
    def rows(self) -> list[NDArray[np.intp]]:
        """The detections of each image."""
        order = np.argsort(self.detections.image, kind="stable")
        ends = np.cumsum(np.bincount(self.detections.image, minlength=len(self.ids)))
        return np.split(order, ends)[: len(self.ids)]

    def objects(self, image: int) -> list[tuple[str, float, Any]]:
        """(class, score, xyxy) of the detections of one image."""
        part = self.detections[self.rows[image]]
        return [
            (self.classes[c], score, box)
            for c, score, box in zip(part.label.tolist(), part.score.tolist(), part.xyxy, strict=True)
        ]

    def clip(self) -> None:
        """Let boxes end where their photos end, and leave out those outside.

        Boxes of a photo whose size nobody can read stay as they are: not every format needs it.
        """
        limits = np.full((len(self.ids), 4), np.inf, np.float32)
        for i in np.unique(self.detections.image).tolist():
            with suppress(InputError):
                limits[i] = (*self.size(i), *self.size(i))
        boxes = np.clip(self.detections.xyxy, 0, limits[self.detections.image])
        inside = (boxes[:, :2] < boxes[:, 2:]).all(axis=1)
        self.detections = replace(self.detections[inside], xyxy=boxes[inside])


def _coco_rows(export: Export) -> list[dict[str, Any]]:
    d = export.detections
    xywh = as_xywh(d.xyxy).tolist()
    return [
        {
            "image_id": export.numbers.images[image],
            "category_id": export.numbers.classes[label],
            "bbox": box,
            "score": score,
        }
        for image, label, box, score in zip(
            d.image.tolist(), d.label.tolist(), xywh, d.score.tolist(), strict=True
        )
    ]


def _coco_results(export: Export) -> Contents:
    return {"": json.dumps(_coco_rows(export)) + "\n"}


def _coco(export: Export) -> Contents:
    return {"": _coco_data(export, range(len(export.ids)))}


def _coco_folder(export: Export, val: float = 0.0, photos: bool = False) -> Contents:
    """A folder for each part, with its photos and their boxes in it: the layout of Roboflow's exports."""
    parts = divide(export.ids, _rarest(export), val)
    contents: Contents = {}
    for part, folder in (("train/", "train"), ("val/", "valid")):
        images = [i for i, own in enumerate(parts) if (own or "train/") == part]
        if images:
            contents[f"{folder}/_annotations.coco.json"] = _coco_data(export, images)
        if photos:
            contents |= {f"{folder}/{inside(export.files[i])}": export.paths[i] for i in images}
    return contents


def _coco_data(export: Export, chosen: Sequence[int]) -> str:
    """Some of the images, with their boxes, as COCO has a data set."""
    images = [
        {
            "id": export.numbers.images[i],
            "file_name": export.files[i],
            "width": export.size(i)[0],
            "height": export.size(i)[1],
        }
        for i in chosen
    ]
    numbers = {image["id"] for image in images}
    boxes = [row for row in _coco_rows(export) if row["image_id"] in numbers]
    rows = [
        # Some versions of datumaro, by which CVAT imports, want a segmentation, if only an empty one.
        {"id": i, **row, "area": row["bbox"][2] * row["bbox"][3], "iscrowd": 0, "segmentation": []}
        # pycocotools takes a match with number 0 for none.
        for i, row in enumerate(boxes, start=1)
    ]
    pairs = zip(export.numbers.classes, export.classes, strict=True)
    categories = [{"id": number, "name": name} for number, name in pairs]
    content = {"images": images, "annotations": rows, "categories": categories}
    return json.dumps(content, ensure_ascii=False) + "\n"


def _csv(export: Export) -> Contents:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    d = export.detections
    for image, label, score, box in zip(d.image, d.label, d.score.tolist(), d.xyxy, strict=True):
        # str of a float32 is the shortest text that gives it back.
        sides = [str(side).removesuffix(".0") for side in box]
        names = safe_cell(export.files[image]), safe_cell(export.classes[label])
        table.writerow([*names, repr(score), *sides])
    return {"": text.getvalue()}


def _voc(export: Export) -> Contents:
    return {
        f"{inside(name)}.xml": voc.annotation(export.files[i], export.size(i), export.objects(i))
        for i, name in enumerate(export.ids)
    }


def _comp4(export: Export, split: str = "test") -> Contents:
    if "_" in split or not split:
        raise InputError(
            f"the split {split!r} cannot be part of a comp4 file name: it must have no underscore"
        )
    d = export.detections
    contents: Contents = {}
    for c, name in enumerate(export.classes):
        if "/" in name or "\\" in name:
            raise InputError(f"the class {name!r} cannot be part of a file name: choose another format")
        part = d[d.label == c]
        contents[f"comp4_det_{split}_{name}.txt"] = "".join(
            voc.result_line(export.ids[i], score, box)
            for i, score, box in zip(part.image, part.score, part.xyxy, strict=True)
        )
    return contents


def _yolo(export: Export, confidence: bool = False, val: float = 0.0, photos: bool = False) -> Contents:
    parts = divide(export.ids, _rarest(export), val)
    contents: Contents = {"data.yaml": yolo.data_yaml(export.classes, divided=bool(val))}
    label = {name: c for c, name in enumerate(export.classes)}
    for i, (file, part) in enumerate(zip(export.files, parts, strict=True)):
        lines = (
            yolo.label_line(label[name], box, export.size(i), score if confidence else None)
            for name, score, box in export.objects(i)
        )
        image = f"images/{part}{inside(file)}"
        name = yolo.label_name(image)
        if name in contents:
            raise InputError(f"two images share the label file {name}, as YOLO names it: rename one of them")
        contents[name] = "".join(lines)
        if photos:
            contents[image] = export.paths[i]
    return contents


def _rarest(export: Export) -> list[int]:
    """For each image the rarest class that was found in it; -1 where nothing was."""
    count = np.bincount(export.detections.label, minlength=len(export.classes))
    labels = (export.detections.label[rows] for rows in export.rows)
    return [int(part[np.argmin(count[part])]) if len(part) else -1 for part in labels]


def _cvat(export: Export) -> Contents:
    images = ((file, export.size(i), export.objects(i)) for i, file in enumerate(export.files))
    return {"": cvat.detected(export.classes, images)}


def _huggingface(export: Export, photos: bool = False) -> Contents:
    lines = (
        json_lines.metadata_line(str(inside(file)), export.size(i), export.objects(i))
        for i, file in enumerate(export.files)
    )
    contents: Contents = {json_lines.METADATA: "".join(lines)}
    return contents | dict(zip(export.files, export.paths, strict=True)) if photos else contents


def _labelstudio(export: Export) -> Contents:
    tasks = [
        labelstudio.prediction(file, export.size(i), export.objects(i)) for i, file in enumerate(export.files)
    ]
    return {"": json.dumps(tasks, ensure_ascii=False) + "\n"}


def inside(name: str) -> PurePosixPath:
    """The name of an image as a path below a folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"the image {name!r} would be written outside of the folder: rename it")
    return path


class Format(NamedTuple):
    """How a format is written, and how its default file ends; a folder has no suffix."""

    contents: Callable[..., Contents]
    suffix: str = ""
    shows_pixels: bool = True  # whether it holds sizes of photos, or the photos themselves


FORMATS = {
    "coco": Format(_coco, ".json"),
    "coco-results": Format(_coco_results, ".json", shows_pixels=False),
    "coco-folder": Format(_coco_folder),
    "voc": Format(_voc),
    "comp4": Format(_comp4, shows_pixels=False),
    "yolo": Format(_yolo),
    "csv": Format(_csv, ".csv", shows_pixels=False),
    "labelstudio": Format(_labelstudio, ".json"),
    "cvat": Format(_cvat, ".xml"),
    "huggingface": Format(_huggingface),
}
