"""`tag2box detect`: boxes in new photos."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tag2box.cli.options import (
    AsJson,
    Cluster,
    OnError,
    Run,
    Split,
    Workers,
    check_on_error,
    first_look,
    say,
    shown,
)
from tag2box.errors import InputError

if TYPE_CHECKING:
    from tag2box.images import ImageSet

# The file that --out defaults to, by format; those without a suffix are folders.
SUFFIXES = {
    "coco": ".json",
    "coco-instances": ".json",
    "labelstudio": ".json",
    "csv": ".csv",
    "cvat": ".xml",
}
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="coco (by default), coco-instances, coco-folder, voc, comp4, yolo, csv, cvat, ...",
    ),
]
ByStudent = Annotated[
    bool, typer.Option("--student", help="By the small network of `export --format onnx`: faster.")
]


def detect(
    photos: Annotated[list[str], typer.Argument(metavar="IMAGES...", help="Photos, folders, or a data set.")],
    run: Run,
    split: Split = None,
    format_: Format = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; in the run folder by default.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Write only boxes of at least this confidence; 0.1 by default.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Write all boxes, however doubtful.")] = False,
    student: ByStudent = False,
    workers: Workers = None,
    cluster: Cluster = None,
    on_error: OnError = "skip",
    as_json: AsJson = False,
) -> None:
    """Find the learned objects in photos.

    All boxes are kept in the run folder too, where `evaluate` and `report` find them.

    Example: tag2box detect holiday/*.jpg --run runs/photos --format csv --out boxes.csv
    """
    from tag2box.exports.writing import check_target, write_detections
    from tag2box.run.folder import RunFolder, detect_run
    from tag2box.run.student import detect_student
    from tag2box.runtime.cluster import using

    check_on_error(on_error)
    kind = format_ or ("csv" if out is not None and out.suffix == ".csv" else "coco")
    folder = RunFolder(run)
    lowest = _lowest(min_score, all_, folder.config.detect.confidence)
    target = out or folder.folder / f"detections{suffix_of(kind)}"
    if folder.outdated:
        typer.echo(f"Note: {folder.outdated}", err=True)
    images = _images(photos, split, on_error)
    check_target(target, kind, images.paths)
    with shown() as progress, using(cluster, folder.folder):
        images, seen = first_look(images, on_error, workers, progress, as_json)
        find = detect_student if student else detect_run
        detections = find(folder, images, workers=workers, progress=progress)
    kept = detections[detections.score >= lowest]
    written = write_detections(kept, images, target, kind)
    answer = {
        "run": str(run),
        "images": len(images),
        "boxes": len(kept),
        "format": kind,
        "written": [str(path) for path in written],
        "look": seen.to_dict(),
    }
    left = len(detections) - len(kept) if min_score is None else 0
    say(as_json, answer, _text(len(kept), left, len(images), _where(target, len(written))))


def _text(boxes: int, left: int, images: int, where: str) -> str:
    doubtful = f" ({left} doubtful ones left out: --all writes them too)" if left else ""
    return f"{boxes} boxes in {images} images{doubtful}. Written: {where}"


def _lowest(min_score: float | None, everything: bool, confidences: bool) -> float:
    """The lowest score of a box that is written; margins of the SVM have no such limit by themselves."""
    from tag2box.detection.config import WORTH

    if min_score is not None:
        if everything:
            raise InputError("--all and --min-score exclude each other: give one of them")
        return min_score
    return WORTH if confidences and not everything else -math.inf


def suffix_of(kind: str) -> str:
    """How the default name of a format ends; unknown formats are refused before any work."""
    from tag2box.exports.writing import check_format

    check_format(kind)
    return f".{kind}{SUFFIXES.get(kind, '')}"


def _where(target: Path, count: int) -> str:
    return str(target) if count == 1 else f"{target} ({count} files)"


def _images(photos: list[str], split: str | None, on_error: str) -> "ImageSet":
    """A data set where one is given, or else all photos of the files and folders."""
    from tag2box.data.photos import find_photos
    from tag2box.data.reading import read_images

    root = Path(photos[0])
    if len(photos) == 1 and (split is not None or (root / "ImageSets").is_dir()):
        return read_images(root, split=split, on_error=on_error)
    if split is not None:
        raise InputError("--split goes with one data set: give that alone, or photos without --split")
    return find_photos(photos, on_error)
