"""`tag2box corrections`: corrections made elsewhere, and for use elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import AsJson, RunArgument, say

corrections = typer.Typer(no_args_is_help=True, help="Corrections from other tools, and for them.")


@corrections.callback()
def _group() -> None:
    pass


@corrections.command("import")
def import_(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="COCO or Label Studio JSON, or CVAT XML for images.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Its photos may hold further objects without a box.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take boxes that were drawn in another tool for corrections of a run.

    Photos that have boxes in the file count as reviewed as a whole, unless --partial is given.

    Example: tag2box corrections import runs/photos annotations.xml
    """
    from tag2box.review.exchange import import_corrections
    from tag2box.run.folder import RunFolder

    done = import_corrections(RunFolder(run), file, reviewed=not partial)
    text = [f"{done.boxes} boxes of {done.photos} photos. Next: tag2box run DATA --out {run}"]
    if done.unknown_photos:
        text.append(f"Left out: {done.unknown_photos} photos that the run does not have.")
    if done.unknown_classes:
        text.append(f"Left out, as the run has no such class: {', '.join(done.unknown_classes)}")
    answer = {"photos": done.photos, "boxes": done.boxes, "unknown_photos": done.unknown_photos}
    say(as_json, {**answer, "unknown_classes": list(done.unknown_classes)}, "\n".join(text))


@corrections.command("export")
def export(
    run: RunArgument,
    format_: Annotated[str, typer.Option("--format", help="coco, labelstudio or cvat.")] = "coco",
    out: Annotated[Path | None, typer.Option(help="Where to write; in the run folder by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the accepted boxes of the photos that were reviewed, and nothing that a machine found alone.

    Example: tag2box corrections export runs/photos --format cvat
    """
    from tag2box.review.exchange import export_corrections
    from tag2box.run.folder import RunFolder

    folder = RunFolder(run)
    target = out or folder.folder / f"corrections-{format_}{'.xml' if format_ == 'cvat' else '.json'}"
    photos, boxes = export_corrections(folder, target, format_)
    answer = {"photos": photos, "boxes": boxes, "written": str(target)}
    say(as_json, answer, f"{boxes} boxes of {photos} photos. Written: {target}")
