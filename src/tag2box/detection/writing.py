"""`write_detections`: boxes found, in the format that other tools read."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import image_size
from tag2box.data.formats import labelstudio, voc, yolo
from tag2box.data.formats.cells import safe_cell
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers
from tag2box.names import check_names
from tag2box.runtime.files import write_whole

__all__ = ["FORMATS", "write_detections"]

Contents = dict[str, str | bytes]


@dataclass(frozen=True)
class Found:
    """Detections that speak of the images and classes of `ids` and `classes`, and where the images are.

    files: the name of each image in what is written, its id with its file's suffix.
    """

    detections: Detections
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    numbers: Numbers

    @cached_property
    def files(self) -> tuple[str, ...]:
        pairs = zip(self.ids, self.paths, strict=True)
        return tuple(
            name if PurePosixPath(name).name == path.name else name + path.suffix for name, path in pairs
        )

    @cached_property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """(width, height) of each upright image: boxes are in its pixels."""
        return tuple(image_size(path) for path in self.paths)

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


def write_detections(
    detections: Detections,
    images: ImageSet | Sequence[str | Path],
    path: str | Path,
    format: str,  # noqa: A002  the word that people know
    *,
    min_score: float | None = None,
    split: str = "test",
    confidence: bool = False,
) -> list[Path]:
    """Write detections in the format of another tool.

    Parameters
    ----------
    detections : Detections
        The detections.
    images : ImageSet or sequence of str or Path
        The images in which they are, matched by id if the detections have ids; or the files, one for each
        id.
    path : str or Path
        Where to write: a file for "coco", "coco-instances", "csv" and "labelstudio", a folder for "voc",
        "comp4" and "yolo".
    format : {"coco", "coco-instances", "csv", "labelstudio", "voc", "comp4", "yolo"}
        The format.
    min_score : float, default=None
        The lowest score to write. None writes all.
    split : str, default="test"
        The part of the data, for the file names of "comp4".
    confidence : bool, default=False
        Whether to add the score as sixth column in "yolo", which its training does not take.

    Returns
    -------
    list of Path
        The files that were written, each of them whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tag2box as t2b
    >>> found = t2b.Detections([0], [[1, 2, 30, 40]], [0.8], [0], ids=("a",), classes=("cat",))
    >>> file = Path(tempfile.mkdtemp()) / "boxes.csv"
    >>> _ = t2b.write_detections(found, ["a.jpg"], file, "csv")
    >>> print(file.read_text().strip())
    file,class,score,x1,y1,x2,y2
    a.jpg,cat,0.8,1,2,30,40
    """
    if format not in FORMATS:
        raise InputError(f"no format {format!r}: there are {', '.join(FORMATS)}")
    path = Path(path)
    if format in FOLDERS and path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, but the format {format!r} is a folder: choose another name")
    if format not in FOLDERS and path.is_dir():
        raise InputError(f"{path} is a folder, but the format {format!r} is one file: add a file name")
    found = _matched(detections if min_score is None else detections[detections.score >= min_score], images)
    options: dict[str, dict[str, Any]] = {"comp4": {"split": split}, "yolo": {"confidence": confidence}}
    contents = FORMATS[format](found, **options.get(format, {}))
    written = [path / name if name else path for name in contents]
    for file, content in zip(written, contents.values(), strict=True):
        write_whole(file, content)
    return written


def _matched(detections: Detections, images: ImageSet | Sequence[str | Path]) -> Found:
    if isinstance(images, ImageSet):
        paths, known, numbers = images.paths, images.ids, images.numbers
        classes = detections.classes or images.classes
    else:
        paths = tuple(Path(image) for image in images)
        known, numbers = detections.ids or tuple(path.stem for path in paths), None
        classes = detections.classes or tuple(
            str(c) for c in range(int(detections.label.max(initial=-1)) + 1)
        )
    if len(known) != len(paths):
        raise InputError(f"one file for each id, please: {len(known)} ids, {len(paths)} files")
    check_names("image", known)
    check_names("class", classes)
    image = detections.image
    if detections.ids is not None:
        place = {name: i for i, name in enumerate(known)}
        if absent := [detections.ids[i] for i in np.unique(image) if detections.ids[i] not in place]:
            raise InputError(f"{len(absent)} images with detections are not among those given: {absent[0]!r}")
        image = np.array([place.get(name, -1) for name in detections.ids], dtype=np.intp)[image]
    if max(image.max(initial=-1) - len(known), detections.label.max(initial=-1) - len(classes)) >= 0:
        raise InputError("a detection has the number of an image or class beyond those given")
    return Found(
        replace(detections, image=image, ids=known, classes=classes),
        known,
        classes,
        paths,
        _numbers(numbers, images, classes, len(paths)),
    )


def _numbers(numbers: Numbers | None, images: Any, classes: tuple[str, ...], n: int) -> Numbers:
    """The data set's own numbers, where it has them for all classes; or else 1, 2, 3, ..."""
    if numbers is not None and set(classes) <= set(images.classes):
        return Numbers(numbers.images, tuple(numbers.classes[images.classes.index(name)] for name in classes))
    return Numbers(tuple(range(1, n + 1)), tuple(range(1, len(classes) + 1)))


def _coco_rows(found: Found) -> list[dict[str, Any]]:
    d = found.detections
    xyxy = d.xyxy.astype(np.float64)
    xywh = np.hstack([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]]).tolist()
    return [
        {
            "image_id": found.numbers.images[image],
            "category_id": found.numbers.classes[label],
            "bbox": box,
            "score": score,
        }
        for image, label, box, score in zip(
            d.image.tolist(), d.label.tolist(), xywh, d.score.tolist(), strict=True
        )
    ]


def _coco_results(found: Found) -> Contents:
    return {"": json.dumps(_coco_rows(found)) + "\n"}


def _coco_instances(found: Found) -> Contents:
    images = [
        {"id": number, "file_name": file, "width": size[0], "height": size[1]}
        for number, file, size in zip(found.numbers.images, found.files, found.sizes, strict=True)
    ]
    rows = [
        {"id": i, **row, "area": row["bbox"][2] * row["bbox"][3], "iscrowd": 0}
        for i, row in enumerate(
            _coco_rows(found), start=1
        )  # pycocotools takes a match with number 0 for none
    ]
    pairs = zip(found.numbers.classes, found.classes, strict=True)
    categories = [{"id": number, "name": name} for number, name in pairs]
    content = {"images": images, "annotations": rows, "categories": categories}
    return {"": json.dumps(content, ensure_ascii=False) + "\n"}


def _csv(found: Found) -> Contents:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "class", "score", "x1", "y1", "x2", "y2"])
    d = found.detections
    for image, label, score, box in zip(d.image, d.label, d.score.tolist(), d.xyxy, strict=True):
        # str of a float32 is the shortest text that gives it back.
        sides = [str(side).removesuffix(".0") for side in box]
        names = safe_cell(found.files[image]), safe_cell(found.classes[label])
        table.writerow([*names, repr(score), *sides])
    return {"": text.getvalue()}


def _voc(found: Found) -> Contents:
    return {
        f"{_inside(name)}.xml": voc.annotation(found.files[i], found.sizes[i], found.objects(i))
        for i, name in enumerate(found.ids)
    }


def _comp4(found: Found, split: str) -> Contents:
    if "_" in split or not split:
        raise InputError(
            f"the split {split!r} cannot be part of a comp4 file name: it must have no underscore"
        )
    d = found.detections
    contents: Contents = {}
    for c, name in enumerate(found.classes):
        if "/" in name or "\\" in name:
            raise InputError(f"the class {name!r} cannot be part of a file name: choose another format")
        part = d[d.label == c]
        contents[f"comp4_det_{split}_{name}.txt"] = "".join(
            voc.result_line(found.ids[i], score, box)
            for i, score, box in zip(part.image, part.score, part.xyxy, strict=True)
        )
    return contents


def _yolo(found: Found, confidence: bool) -> Contents:
    contents: Contents = {"data.yaml": yolo.data_yaml(found.classes)}
    label = {name: c for c, name in enumerate(found.classes)}
    for i, file in enumerate(found.files):
        lines = (
            yolo.label_line(label[name], box, found.sizes[i], score if confidence else None)
            for name, score, box in found.objects(i)
        )
        name = f"labels/{_inside(file).with_suffix('.txt')}"
        if name in contents:
            raise InputError(f"two images share the label file {name}, as YOLO names it: rename one of them")
        contents[name] = "".join(lines)
    return contents


def _labelstudio(found: Found) -> Contents:
    tasks = [
        labelstudio.prediction(file, found.sizes[i], found.objects(i)) for i, file in enumerate(found.files)
    ]
    return {"": json.dumps(tasks, ensure_ascii=False) + "\n"}


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"the image {name!r} would be written outside of the folder: rename it")
    return path


FORMATS: dict[str, Callable[..., Contents]] = {
    "coco": _coco_results,
    "coco-instances": _coco_instances,
    "voc": _voc,
    "comp4": _comp4,
    "yolo": _yolo,
    "csv": _csv,
    "labelstudio": _labelstudio,
}
FOLDERS = frozenset({"voc", "comp4", "yolo"})
