"""`tag2box detect`: boxes in new photos."""

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

__all__ = ["detect", "suffix_of"]

# The file that --out defaults to, by format; those without a suffix are folders.
SUFFIXES = {
    "coco": ".json",
    "coco-instances": ".json",
    "labelstudio": ".json",
    "csv": ".csv",
    "cvat": ".xml",
}


def detect(
    photos: Annotated[list[str], typer.Argument(metavar="IMAGES...", help="Photos, folders, or a data set.")],
    run: Run,
    split: Split = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="coco (by default), coco-instances, voc, comp4, yolo, csv, cvat, huggingface, labelstudio.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; in the run folder by default.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Write only boxes that score at least this.")
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    on_error: OnError = "skip",
    as_json: AsJson = False,
) -> None:
    """Find the learned objects in photos.

    The boxes are kept in the run folder too, where `evaluate` and `report` find them.

    Example: tag2box detect holiday/*.jpg --run runs/photos --format csv --out boxes.csv
    """
    from tag2box.exports.writing import check_target, write_detections
    from tag2box.run.folder import RunFolder, detect_run
    from tag2box.runtime.cluster import using

    check_on_error(on_error)
    kind = format_ or ("csv" if out is not None and out.suffix == ".csv" else "coco")
    folder = RunFolder(run)
    target = out or folder.folder / f"detections{suffix_of(kind)}"
    if folder.outdated:
        typer.echo(f"Note: {folder.outdated}", err=True)
    images = _images(photos, split, on_error)
    check_target(target, kind, images.paths)
    with shown() as progress, using(cluster, folder.folder):
        images, seen = first_look(images, on_error, workers, progress, as_json)
        detections = detect_run(folder, images, workers=workers, progress=progress)
    written = write_detections(detections, images, target, kind, min_score=min_score)
    kept = detections if min_score is None else detections[detections.score >= min_score]
    answer = {
        "run": str(run),
        "images": len(images),
        "boxes": len(kept),
        "format": kind,
        "written": [str(path) for path in written],
        "look": seen.to_dict(),
    }
    say(
        as_json, answer, f"{len(kept)} boxes in {len(images)} images. Written: {_where(target, len(written))}"
    )


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
