"""`tag2box run`: learn to find objects from images and tags."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import (
    AsJson,
    Cluster,
    OnError,
    Split,
    Workers,
    check_on_error,
    first_look,
    say,
    shown,
)

__all__ = ["run"]


def run(
    data: Annotated[
        Path, typer.Argument(help="Images and tags: a folder or file in any format of docs/formats.md.")
    ],
    tags: Annotated[Path | None, typer.Option(help="A file of tags, for a folder of images without.")] = None,
    split: Split = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME by default.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Only this class; may be repeated.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings (docs/config.md).")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="One setting, as stage.key=value.")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    on_error: OnError = "skip",
    as_json: AsJson = False,
) -> None:
    """Learn where the tagged objects are, and a detector for each class. Nobody draws a box.

    Everything goes to the run folder. A run that was stopped goes on where it stopped; one with other
    settings computes only what depends on them.

    Example: tag2box run photos --tags tags.csv --out runs/photos
    """
    from tag2box.costs import estimate, timed
    from tag2box.data.reading import read_images
    from tag2box.pipeline import Config
    from tag2box.run_folder import fit_run, learnable, with_precision
    from tag2box.runtime.cluster import using
    from tag2box.runtime.config import read_settings

    check_on_error(on_error)
    settings = read_settings(Config(), config, sets or ())
    images = read_images(data, tags, split, classes=classes or None, on_error=on_error)
    folder = out or _default_out(data)
    with shown() as progress, using(cluster, folder):
        images, seen = first_look(images, on_error, workers, progress, as_json)
        images, left_out = learnable(images, settings)
        if left_out and not as_json:
            typer.echo(f"Left out, as no image has it: {', '.join(left_out)}")
        settings, precision = with_precision(settings, folder)
        taken = timed(settings, len(images))
        cost = estimate(len(images), len(images.classes), settings, workers, taken=taken)
        if not as_json:
            typer.echo(f"To be expected: {cost}, in {folder}")
            typer.echo(f"Precision of the network: {precision}")
        stages = fit_run(images, settings, folder, workers=workers, progress=progress)
    kept = {"images": len(images), "classes": list(images.classes), "left_out": list(left_out)}
    how = {"precision": precision, "expected": cost.to_dict(), "look": seen.to_dict(), "stages": stages}
    say(as_json, {"run": str(folder), **kept, **how}, _text(folder, stages))


def _default_out(data: Path) -> Path:
    """runs/NAME, by the name of a folder as it is (photos.v2), and that of a file without its suffix."""
    from tag2box.data.remote import is_address
    from tag2box.errors import redacted

    place = Path(redacted(str(data)).partition("?")[0]).resolve() if is_address(data) else data.resolve()
    return Path("runs") / ((place.name if place.is_dir() else place.stem) or "data")


def _text(folder: Path, stages: dict[str, dict[str, object]]) -> str:
    fresh = [name for name, how in stages.items() if not how["reused"]]
    done = f"Computed: {', '.join(fresh)}." if fresh else "Nothing had changed: nothing was computed."
    return f"{done}\nThe detector is in {folder}. Next: tag2box detect PHOTOS --run {folder}"
