"""`tag2box report`, `export` and `clean` use a run folder; `tag2box demo` makes one."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import AsJson, RunArgument, Workers, open_page, say, shown
from tag2box.errors import InputError


def report(
    run: RunArgument,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that shows what went in, what was found, and what it cost.

    Example: tag2box report runs/photos --open
    """
    from tag2box.runtime.store import existing

    folder = existing(run).folder
    from tag2box.report import write_report

    page = write_report(folder)
    say(as_json, {"report": str(page)}, f"Written: {page}")
    if open_:
        open_page(page)


def export(
    run: RunArgument,
    format_: Annotated[
        str, typer.Option("--format", help="coco, coco-folder, voc, yolo, csv, cvat, ... or onnx.")
    ],
    out: Annotated[Path | None, typer.Option(help="Where to write; in the run folder by default.")] = None,
    reviewed: Annotated[bool, typer.Option("--reviewed", help="Only boxes that a person accepted.")] = False,
    photos: Annotated[
        bool, typer.Option("--photos", help="Copy the photos too: yolo, coco-folder, huggingface.")
    ] = False,
    val: Annotated[float, typer.Option(help="Share of the images for validation: yolo, coco-folder.")] = 0.0,
    all_: Annotated[bool, typer.Option("--all", help="Write all boxes, however doubtful.")] = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Write the boxes found in the training images, as corrected, as annotations for another tool.

    Of each tag of a photo the best box is written, and others of a confidence of 0.3 and more. A photo that
    was replaced since the run learned from it, or is gone, is left out of formats with sizes or photos.
    Or, with --format onnx, a detector for other runtimes: a network that learns from these boxes.

    Example: tag2box export runs/photos --format yolo --photos --val 0.2 --out train
    """
    if format_ == "onnx":
        if reviewed or photos or val:
            raise InputError("--reviewed, --photos and --val are for boxes: leave them out with onnx")
        _export_onnx(run, out, workers, as_json)
        return
    from tag2box.exports.writing import check_format, write_detections

    kind = check_format(format_, ("onnx",))
    import numpy as np

    from tag2box.run.corrections import corrected_boxes
    from tag2box.run.folder import RunFolder
    from tag2box.run.same_photos import changed_since

    folder = RunFolder(run)
    target = out or folder.folder / f"boxes.{format_}{kind.suffix}"
    corrected = corrected_boxes(folder)
    kept = corrected.reviewed if reviewed else np.ones_like(corrected.reviewed) if all_ else corrected.worth
    images, note = folder.images, ""
    if kind.shows_pixels:
        changed, note = changed_since(images, folder.contents)
        present = np.array([i not in changed for i in range(len(images))])
        if not present.any():
            raise InputError(f"no photo is left: {note}")
        images, kept = images.take(present), kept & present[corrected.detections.image]
    boxes = corrected.detections[kept]
    written = write_detections(boxes, images, target, format_, photos=photos, val=val)
    if note:
        typer.echo(f"tag2box: {note}", err=True)
    answer = {"boxes": len(boxes), "format": format_, "written": [str(path) for path in written]}
    text = f"{len(boxes)} boxes in {len(images)} images. {corrected} Written: {target}"
    say(as_json, answer | corrected.to_dict(), text)


def _export_onnx(run: Path, out: Path | None, workers: int | None, as_json: bool) -> None:
    """The network of a run as an ONNX file, and how to run it."""
    from tag2box.exports.onnx import check_place, python_lines, write_onnx
    from tag2box.run.folder import RunFolder
    from tag2box.run.network import with_network

    folder = RunFolder(run)
    target = out or folder.folder / "detector.onnx"
    check_place(target, folder.images.paths)
    with shown() as progress:
        detector = with_network(folder, workers=workers, progress=progress)
    written = write_onnx(detector, target, folder.images.paths)
    lines = python_lines(str(target))
    size = target.stat().st_size
    answer = {"format": "onnx", "bytes": size, "written": [str(path) for path in written], "python": lines}
    text = (
        f"Written: {target} ({size / 1e6:.1f} MB), and {written[1].name}, a page that runs it in a browser."
    )
    say(as_json, answer, f"{text}\n\n{lines}")


def clean(
    run: RunArgument,
    older: Annotated[bool, typer.Option("--older", help="Remove what the last settings do not use.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove results that the last settings of a run do not use. Without --older, only name them.

    Example: tag2box clean runs/photos --older
    """
    from tag2box.run.folder import RunFolder

    paths = [str(path) for path in RunFolder(run).clean(remove=older)]
    text = "\n".join(paths) or "Nothing to remove."
    if paths:
        text += "\nRemoved." if older else "\nTo remove them: add --older"
    say(as_json, {"removed" if older else "unused": paths}, text)


def demo(
    out: Annotated[Path, typer.Option(help="Where scenes, run and report go.")] = Path("runs/demo"),
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Make scenes out of photographs, learn from their tags, detect, evaluate, and write the report.

    Example: tag2box demo
    """
    from tag2box.demo.demo import run_demo

    with shown() as progress:
        answer = run_demo(out, workers=workers, progress=progress)
    say(as_json, answer.to_dict(), str(answer))
