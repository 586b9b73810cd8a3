"""`write_detections`: boxes found, in the format that other tools read."""

import os
from collections.abc import Container, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.data.formats.files import SUFFIXES
from tag2box.detection.config import check_min_score
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.exports.contents import FORMATS, Contents, Export, Format
from tag2box.images import ImageSet, Numbers
from tag2box.names import check_names
from tag2box.runtime.files import write_whole

ALIASES = {"coco-instances": "coco"}
# Bytes, on every system in use.
LONGEST_NAME = 255
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
        Where to write: a file for "coco", "coco-results", "csv", "cvat" and "labelstudio", a folder for
        "coco-folder", "voc", "comp4", "yolo" and "huggingface".
    format : str
        The format: one of these. "coco" is a whole data set, "coco-results" a list of boxes by number.
    min_score : float, default=None
        The lowest score to write. None writes all.
    split : str, default="test"
        The part of the data, for the file names of "comp4".
    confidence : bool, default=False
        Whether to add the score as sixth column in "yolo", which its training does not take.
    val : float, default=0.0
        The share of the images that "yolo" and "coco-folder" keep for validation, of every class about the
        same share.
    photos : bool, default=False
        Whether "yolo", "coco-folder" and "huggingface" copy the photos to where these tools look for them.

    Returns
    -------
    list of Path
        The files that were written, each of them whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tag2box as t2b
    >>> detections = t2b.Detections([0], [[1, 2, 30, 40]], [0.8], [0], ids=("a",), classes=("cat",))
    >>> file = Path(tempfile.mkdtemp()) / "boxes.csv"
    >>> _ = t2b.write_detections(detections, ["a.jpg"], file, "csv")
    >>> print(file.read_text().strip())
    file,class,score,x1,y1,x2,y2
    a.jpg,cat,0.8,1,2,30,40
    """
    kind = check_format(format)
    check_min_score(min_score)
    given = {"split": split, "confidence": confidence, "val": val, "photos": photos}
    options = _options(format, {name: value for name, value in given.items() if value != DEFAULTS[name]})
    path = Path(path)
    export = _matched(detections if min_score is None else detections[detections.score >= min_score], images)
    check_target(path, format, export.paths)
    export.clip()
    contents = kind.contents(export, **options)
    written = [path / name if name else path for name in contents]
    _check_files(written, contents, export.paths)
    for file, content in zip(written, contents.values(), strict=True):
        if not isinstance(content, str | bytes):
            _copy(content, file)
        else:
            # Thousands of files would wait for the disk for minutes, and can be exported again.
            write_whole(file, content, lasting=bool(kind.suffix))
    return written


def check_format(name: str, more: Sequence[str] = ()) -> Format:
    """The format of that name; one that is not there is refused, with all that are, and `more`."""
    if name not in FORMATS and name not in ALIASES:
        raise InputError(f"no format {name!r}: there are {', '.join([*FORMATS, *more])}")
    return FORMATS[ALIASES.get(name, name)]


def check_target(path: Path, kind: str, photos: Sequence[Path]) -> None:
    """Refuse a place that the format cannot be written to, or that is one of the photos."""
    if not check_format(kind).suffix:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file, but the format {kind!r} is a folder: choose another name")
        return
    check_file(path, kind, photos)


def check_file(path: Path, kind: str, photos: Sequence[Path]) -> None:
    """Refuse a file that is a folder, one of the photos, or called as a photo is."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, but the format {kind!r} is one file: add a file name")
    _check_photo(path, {os.path.realpath(photo) for photo in photos})
    if path.suffix.lower() in SUFFIXES:
        raise InputError(f"{path} is called as a photo is, but it will hold boxes: choose another suffix")


def _check_photo(path: Path, photos: Container[str]) -> None:
    if os.path.realpath(path) in photos:
        raise InputError(f"{path} is one of the photos, which would be overwritten: write elsewhere")


def _check_files(files: Sequence[Path], contents: Contents, photos: Sequence[Path]) -> None:
    """Before the first file is written: that none is a photo, and that the names of all are possible."""
    real = {os.path.realpath(photo) for photo in photos}
    for file, content in zip(files, contents.values(), strict=True):
        if long := [part for part in file.parts if len(os.fsencode(part)) > LONGEST_NAME]:
            raise InputError(
                f"{long[0]} has more than the {LONGEST_NAME} bytes that a file's name may have: "
                "give the photo or class a shorter name, or choose a format of one file"
            )
        itself = not isinstance(content, str | bytes) and os.path.realpath(content) == os.path.realpath(file)
        if not itself:
            _check_photo(file, real)


def _options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    known = [*signature(check_format(kind).contents).parameters][1:]
    if wrong := [name for name in options if name not in known]:
        raise InputError(
            f"the format {kind!r} has no option {wrong[0]!r}: it has {', '.join(known) or 'none'}"
        )
    return options


def _copy(source: Path, target: Path) -> None:
    try:
        if os.path.realpath(target) == os.path.realpath(source):
            return
        content = source.read_bytes()
    except OSError as error:
        raise InputError(f"{source} cannot be copied: {error.strerror}") from None
    write_whole(target, content, lasting=False)


def _matched(detections: Detections, images: ImageSet | Sequence[str | Path]) -> Export:
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
    return Export(
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
