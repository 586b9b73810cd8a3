"""`write_detections`: boxes found, in the format that other tools read."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.detection.contents import FOLDERS, FORMATS, Found
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers
from tag2box.names import check_names
from tag2box.runtime.files import write_whole

__all__ = ["FORMATS", "check_format", "write_detections"]

DEFAULTS: dict[str, Any] = {"split": "test", "confidence": False, "val": 0.0, "photos": False}


def write_detections(
    detections: Detections,
    images: ImageSet | Sequence[str | Path],
    path: str | Path,
    format: str,  # noqa: A002  the word that people know
    *,
    min_score: float | None = None,
    split: str = "test",
    confidence: bool = False,
    val: float = 0.0,
    photos: bool = False,
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
        Where to write: a file for "coco", "coco-instances", "csv", "cvat" and "labelstudio", a folder for
        "voc", "comp4", "yolo" and "huggingface".
    format : {"coco", "coco-instances", "csv", "cvat", "labelstudio", "voc", "comp4", "yolo", "huggingface"}
        The format.
    min_score : float, default=None
        The lowest score to write. None writes all.
    split : str, default="test"
        The part of the data, for the file names of "comp4".
    confidence : bool, default=False
        Whether to add the score as sixth column in "yolo", which its training does not take.
    val : float, default=0.0
        The share of the images that "yolo" keeps for validation, of every class about the same share.
    photos : bool, default=False
        Whether "yolo" and "huggingface" copy the photos to where these tools look for them.

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
    check_format(format)
    given = {"split": split, "confidence": confidence, "val": val, "photos": photos}
    options = _options(format, {name: value for name, value in given.items() if value != DEFAULTS[name]})
    path = Path(path)
    if format in FOLDERS and path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, but the format {format!r} is a folder: choose another name")
    if format not in FOLDERS and path.is_dir():
        raise InputError(f"{path} is a folder, but the format {format!r} is one file: add a file name")
    found = _matched(detections if min_score is None else detections[detections.score >= min_score], images)
    contents = FORMATS[format](found, **options)
    written = [path / name if name else path for name in contents]
    for file, content in zip(written, contents.values(), strict=True):
        if isinstance(content, Path):
            _copy(content, file)
        else:
            # Thousands of files would wait for the disk for minutes, and can be exported again.
            write_whole(file, content, lasting=format not in FOLDERS)
    return written


def check_format(kind: str) -> None:
    """Refuse a format that is not one of `FORMATS`."""
    if kind not in FORMATS:
        raise InputError(f"no format {kind!r}: there are {', '.join(FORMATS)}")


def _options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    known = [*signature(FORMATS[kind]).parameters][1:]
    if wrong := [name for name in options if name not in known]:
        raise InputError(
            f"the format {kind!r} has no option {wrong[0]!r}: it has {', '.join(known) or 'none'}"
        )
    return options


def _copy(source: Path, target: Path) -> None:
    try:
        if target.exists() and target.samefile(source):
            return
        content = source.read_bytes()
    except OSError as error:
        raise InputError(f"{source} cannot be copied: {error.strerror}") from None
    write_whole(target, content, lasting=False)


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
        raise InputError(
            f"there must be one file per id, but there are {len(known)} ids and {len(paths)} files"
        )
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
    """The data set's own numbers, where it has them for all classes."""
    if numbers is not None and set(classes) <= set(images.classes):
        return Numbers(numbers.images, tuple(numbers.classes[images.classes.index(name)] for name in classes))
    return Numbers.from_one(n, len(classes))
