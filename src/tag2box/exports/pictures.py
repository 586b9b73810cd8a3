"""`write_pictures`: the photos with their boxes drawn, and one page that shows them all."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from tag2box.detection.detections import Detections
from tag2box.detection.drawing import as_picture, class_color
from tag2box.detection.html import captions, drawn, render_template
from tag2box.errors import InputError
from tag2box.exports.contents import inside
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent

SIDE = 1280  # the long side of a picture at most


class Shown(NamedTuple):
    """A photo of the page. file: where its picture is, from the page; texts: (color, class and score)."""

    name: str
    file: str
    width: int
    height: int
    texts: Sequence[tuple[str, str]]
    classes: Sequence[int]
    wrong: str = ""


def write_pictures(
    detections: Detections,
    images: ImageSet,
    page: Path,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Path:
    """Write `page`, and a picture of each image into the folder beside it, which is returned.

    detections: `image` is the place in `images`. A photo that cannot be read any more is named on the page.
    """
    folder = page.with_name(f"{page.stem}-photos")
    files = [folder / f"{inside(name)}.jpg" for name in images.ids]
    if taken := {os.path.realpath(path) for path in images.paths} & {
        os.path.realpath(file) for file in files
    }:
        raise InputError(f"{min(taken)} is one of the photos, which would be overwritten: write elsewhere")
    rows = np.split(
        np.argsort(detections.image, kind="stable"),
        np.cumsum(np.bincount(detections.image, minlength=len(images)))[:-1],
    )
    parts = [(path, detections[own]) for path, own in zip(images.paths, rows, strict=True)]
    pictures = map_ordered(_picture, parts, workers=workers, progress=progress, label="drawing the boxes")
    shown = []
    for name, file, (_, part), (jpeg, width, height, wrong) in zip(
        images.ids, files, parts, pictures, strict=True
    ):
        if jpeg:
            write_whole(file, jpeg, lasting=False)
        part = part[np.argsort(-part.score, kind="stable")]  # noqa: PLW2901
        address = quote(file.relative_to(page.parent).as_posix())
        labels = np.unique(part.label).tolist()
        shown.append(Shown(name, address, width, height, captions(part), labels, wrong))
    write_whole(page, _page(detections, shown))
    return folder


def _picture(pair: tuple[Path, Detections]) -> tuple[bytes, int, int, str]:
    path, part = pair
    try:
        picture = as_picture(drawn(part, path, SIDE), "")
    except InputError as error:
        return b"", 0, 0, str(error)
    return picture.jpeg, picture.width, picture.height, ""


def _page(detections: Detections, shown: Sequence[Shown]) -> str:
    counts = np.bincount(detections.label, minlength=len(detections.classes or ()))
    pairs = enumerate(zip(detections.classes or (), counts.tolist(), strict=True))
    classes = [(c, name, class_color(c), count) for c, (name, count) in pairs]
    render = partial(render_template, "tag2box.exports", "pictures.html.j2")
    return render(n_boxes=len(detections), photos=shown, classes=classes)
