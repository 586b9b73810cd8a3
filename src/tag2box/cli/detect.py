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
    open_page,
    say,
    shown,
)
from tag2box.detection.config import MIN_SCORE, check_min_score
from tag2box.errors import InputError

if TYPE_CHECKING:
    from tag2box.images import ImageSet

Format = Annotated[
    str,
    typer.Option("--format", help="coco, coco-results, coco-folder, voc, comp4, yolo, csv, cvat, ..."),
]
ByStudent = Annotated[
    bool, typer.Option("--student", help="By the small network of `export --format onnx`: faster.")
]


def detect(
    photos: Annotated[list[str], typer.Argument(metavar="IMAGES...", help="Photos, folders, or a data set.")],
    run: Run,
    split: Split = None,
    format_: Format = "",
    out: Annotated[Path | None, typer.Option(help="Where to write; in the run folder by default.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help=f"The lowest confidence of a box; {MIN_SCORE} by default.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Write all boxes, however doubtful.")] = False,
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Draw no photos, write no page.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Open the page in the browser.")] = False,
    student: ByStudent = False,
    workers: Workers = None,
    cluster: Cluster = None,
    on_error: OnError = "skip",
    as_json: AsJson = False,
) -> None:
    """Find the learned objects in photos.

    Beside the boxes it leaves the photos with the boxes drawn, and a page that shows them all. All boxes are
    kept in the run folder too, where `evaluate` and `report` find them.

    Example: tag2box detect holiday/*.jpg --run runs/photos --show
    """
    from tag2box.exports.writing import check_format, check_target, write_detections
    from tag2box.run.folder import RunFolder, detect_run
    from tag2box.run.student import detect_student
    from tag2box.runtime.cluster import using

    check_on_error(on_error)
    kind = format_ or ("csv" if out is not None and out.suffix == ".csv" else "coco")
    suffix = check_format(kind).suffix
    if all_ and min_score is not None:
        raise InputError("--all and --min-score exclude each other: give one of them")
    check_min_score(min_score)
    folder = RunFolder(run)
    target = out or folder.folder / f"detections.{kind}{suffix}"
    page = (out.with_suffix("") if out else folder.folder / "detections").with_suffix(".html")
    if folder.outdated:
        typer.echo(f"Note: {folder.outdated}", err=True)
    images = _images(photos, split, on_error)
    check_target(target, kind, images.paths)
    with shown() as progress, using(cluster, folder.folder):
        images, seen = first_look(images, on_error, workers, progress, as_json)
        find = detect_student if student else detect_run
        detections = find(folder, images, workers=workers, progress=progress)
        kept = detections if all_ else detections.above(min_score)
        written = write_detections(kept, images, target, kind)
        pictures = None
        if not no_pictures:
            from tag2box.exports.pictures import write_pictures

            pictures = write_pictures(kept, images, page, workers=workers, progress=progress)
    answer = {
        "run": str(run),
        "images": len(images),
        "boxes": len(kept),
        "format": kind,
        "written": [str(path) for path in written],
        "page": str(page) if pictures else None,
        "pictures": str(pictures) if pictures else None,
        "look": seen.to_dict(),
    }
    lines = [_counted(len(kept), len(detections) - len(kept), len(images), min_score)]
    lines += [f"  boxes      {target}{f' ({len(written)} files)' if len(written) > 1 else ''}"]
    lines += [f"  pictures   {pictures}", f"  all photos {page}"] if pictures else []
    say(as_json, answer, "\n".join(lines))
    if show and pictures:
        open_page(page)


def _counted(boxes: int, left: int, images: int, min_score: float | None) -> str:
    lowest = MIN_SCORE if min_score is None else min_score
    doubtful = f" ({left} below a confidence of {lowest:g} left out: --all writes them too)" if left else ""
    return f"{boxes} boxes in {images} images{doubtful}"


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
