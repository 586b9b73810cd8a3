"""`tag2box detect`: boxes in new photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tag2box.cli.options import (
    AsJson,
    Cluster,
    OnError,
    Run,
    Split,
    Workers,
    check_on_error,
    open_page,
    say,
    shown,
    tell_odd,
)
from tag2box.detection.config import MIN_SCORE, check_min_score
from tag2box.errors import InputError

if TYPE_CHECKING:
    from tag2box.detection.detections import Detections
    from tag2box.images import ImageSet
    from tag2box.runtime.progress import Progress

Format = Annotated[
    str,
    typer.Option("--format", help="coco, coco-results, coco-folder, voc, comp4, yolo, csv, cvat, ..."),
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
    from tag2box.exports.writing import check_target
    from tag2box.run.fitting import detect_run
    from tag2box.run.folder import RunFolder
    from tag2box.runtime.cluster import using

    kind, suffix = _checked(format_, out, min_score, all_, on_error)
    folder = RunFolder(run)
    target = out or folder.folder / f"detections.{kind}{suffix}"
    page = out.with_suffix(".html") if out else folder.folder / "detections.html"
    if page == target:
        page = page.with_name(f"{page.stem}-page.html")
    if folder.outdated:
        typer.echo(f"Note: {folder.outdated}", err=True)
    images = _images(photos, split, on_error)
    check_target(target, kind, images.paths)
    with shown() as progress, using(cluster, folder.folder):
        detections, images, seen = detect_run(
            folder, images, on_error=on_error, workers=workers, progress=progress
        )
        kept = detections if all_ else detections.above(min_score)
        written = _write(kept, images, target, kind, None if no_pictures else page, workers, progress)
    tell_odd(seen, as_json)
    answer = {"run": str(run), "images": len(images), **written, "look": seen.to_dict()}
    left = len(detections) - len(kept)
    say(as_json, answer, _text(answer, target, left, MIN_SCORE if min_score is None else min_score))
    if show and not no_pictures:
        open_page(page)


def _write(
    boxes: "Detections",
    images: "ImageSet",
    target: Path,
    kind: str,
    page: Path | None,
    workers: int | None,
    progress: "Progress",
) -> dict[str, Any]:
    """Write the boxes, the page where there is to be one, and its pictures; what was written, for JSON."""
    from tag2box.exports.pictures import write_pictures
    from tag2box.exports.writing import write_detections

    written = [str(path) for path in write_detections(boxes, images, target, kind)]
    answer: dict[str, Any] = {"boxes": len(boxes), "format": kind, "written": written}
    if page is None:
        return answer | {"page": None, "pictures": None}
    pictures = write_pictures(boxes, images, page, workers=workers, progress=progress)
    return answer | {"page": str(page), "pictures": str(pictures)}


def _checked(
    format_: str, out: Path | None, min_score: float | None, all_: bool, on_error: str
) -> tuple[str, str]:
    """The format and its suffix; what cannot be is refused before anything is loaded."""
    from tag2box.exports.writing import check_format

    check_on_error(on_error)
    check_min_score(min_score)
    if all_ and min_score is not None:
        raise InputError("--all and --min-score exclude each other: give one of them")
    kind = format_ or ("csv" if out is not None and out.suffix == ".csv" else "coco")
    return kind, check_format(kind).suffix


def _text(answer: dict[str, Any], target: Path, left: int, lowest: float) -> str:
    doubtful = f" ({left} below a confidence of {lowest:g} left out: --all writes them too)" if left else ""
    count = f" ({n} files)" if (n := len(answer["written"])) > 1 else ""
    lines = [
        f"{answer['boxes']} boxes in {answer['images']} images{doubtful}",
        f"  boxes       {target}{count}",
    ]
    if answer["page"]:
        lines += [f"  pictures    {answer['pictures']}", f"  all photos  {answer['page']}"]
    return "\n".join(lines)


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
