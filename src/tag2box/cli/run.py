"""`tag2box run`: learn to find objects from images and tags."""

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tag2box.cli.options import (
    AsJson,
    Cluster,
    OnError,
    Split,
    Workers,
    check_on_error,
    say,
    shown,
    tell_odd,
)
from tag2box.errors import InputError, Tag2BoxError

if TYPE_CHECKING:
    from tag2box.config import Config
    from tag2box.data.first_look import Look
    from tag2box.images import ImageSet
    from tag2box.run.costs import Estimate
    from tag2box.run.fitting import FitResult
    from tag2box.run.settings import Start
    from tag2box.run.verdict import Verdict

Method = Annotated[
    str, typer.Option(help="How to learn: two_stream, or song2014 with the settings of the paper.")
]
Objects = Annotated[
    str, typer.Option(help="The size of the objects: small, large, or auto, which photos and tags tell.")
]
# What each hint at the size of the objects sets.
OBJECTS = {
    "auto": (),
    "small": (
        "maps.details=always",
        "windows.min_size=5",
        "windows.max_windows=1000",
        "windows.thin_iou=0.9",
    ),
    "large": ("maps.details=never",),
}


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
    method: Method = "two_stream",
    objects: Objects = "auto",
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings (docs/config.md).")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="One setting, as stage.key=value.")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    on_error: OnError = "skip",
    verbose: Annotated[bool, typer.Option("--verbose", help="Say what a developer wants to know.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn where the tagged objects are, and a detector for each class. Nobody draws a box.

    Everything goes to the run folder. A run that was stopped goes on where it stopped; one with other
    settings computes only what depends on them.

    Example: tag2box run photos --tags tags.csv --out runs/photos
    """
    from tag2box.data.reading import read_images
    from tag2box.run.fitting import fit_prepared
    from tag2box.run.settings import prepare
    from tag2box.runtime.cluster import using

    check_on_error(on_error)
    settings = _settings(method, objects, config, sets or ())
    images = read_images(data, tags, split, classes=classes or None, on_error=on_error)
    folder = _run_folder(out, data, images)
    first = _tell_tags(images, as_json)
    with shown() as progress, using(cluster, folder):
        start = prepare(images, settings, folder)
        cost = _cost(start, folder, workers)
        if not as_json:
            _announce(start, cost, folder, verbose)
        result = fit_prepared(start, folder, on_error=on_error, workers=workers, progress=progress)
    tell_odd(result.look, as_json, first)
    verdict = _verdict(folder)
    answer = _answer(start, result) | {
        "run": str(folder),
        "expected": cost.to_dict(),
        "verdict": verdict.to_dict(),
    }
    say(as_json, answer, f"{_text(folder, result.costs, verbose)}\n\n{verdict}\n\n{_next(folder)}")


def _tell_tags(images: "ImageSet", as_json: bool) -> "Look":
    """Say what the tags are; what is odd of the photos is known when they were read."""
    from tag2box.data.first_look import PhotoFacts, look_from

    first = look_from(images, [PhotoFacts()] * len(images))
    if not as_json:
        typer.echo(str(first))
    return first


def _answer(start: "Start", result: "FitResult") -> dict[str, Any]:
    """What was learned from, and what it cost, for JSON."""
    return {
        "images": len(result.images),
        "classes": list(result.images.classes),
        "left_out": list(start.left_out),
        "precision": start.precision,
        "look": result.look.to_dict(),
        "stages": result.costs,
    }


def _cost(start: "Start", folder: Path, workers: int | None) -> "Estimate":
    """What is to be expected; a photo is timed only where it will be said."""
    from tag2box.run.costs import estimate, timed

    n_images, n_classes = start.images.tags.shape
    is_new = not (folder / "detector.npz").is_file()
    taken = timed(start.description, n_images) if is_new else None
    return estimate(n_images, n_classes, start.config, workers, taken=taken)


def _verdict(folder: Path) -> "Verdict":
    from tag2box.run.folder import RunFolder
    from tag2box.run.verdict import judge_run

    return judge_run(RunFolder(folder))


def _settings(method: str, objects: str, config: Path | None, sets: Sequence[str]) -> "Config":
    """Those of the method, of the objects' size, of the file, then one by one."""
    from tag2box.config import METHODS, Config
    from tag2box.runtime.checks import check_choice
    from tag2box.runtime.config import read_settings

    check_choice("--method", method, METHODS)
    check_choice("--objects", objects, OBJECTS)
    preset = Config.song2014() if method == "song2014" else Config()
    return read_settings(read_settings(preset, None, OBJECTS[objects]), config, sets)


def _announce(start: "Start", cost: "Estimate", folder: Path, verbose: bool) -> None:
    """What is to come, before the work; how long it takes only where nothing was computed before."""
    if start.left_out:
        typer.echo(f"Left out, as no image has it: {', '.join(start.left_out)}")
    if not (folder / "detector.npz").is_file():
        typer.echo(f"Expected: {cost}, in {folder}")
    if verbose:
        typer.echo(f"Precision of the network: {start.precision}")


def _run_folder(out: Path | None, data: Path, images: "ImageSet") -> Path:
    """The folder that was asked for, or runs/NAME: the first of NAME, NAME-2, ... without other photos.

    NAME is that of a folder as it is (photos.v2), and that of a file without its suffix.
    """
    if out is not None:
        if other := _other_photo(out, images):
            raise InputError(f"{out} has the run of other photos, such as {other}: choose another --out")
        return out
    from tag2box.data.remote import is_address
    from tag2box.errors import redacted

    place = Path(redacted(str(data)).partition("?")[0]).resolve() if is_address(data) else data.resolve()
    name = (place.name if place.is_dir() else place.stem) or "data"
    folders = (Path("runs") / (name if n == 1 else f"{name}-{n}") for n in count(1))
    return next(folder for folder in folders if not _other_photo(folder, images))


def _other_photo(folder: Path, images: "ImageSet") -> Path | None:
    """A photo of the run in `folder`, where that is of another data set; None where it may be used.

    A data set may grow and change, and may be moved: then its photos are no longer where they were.
    """
    from tag2box.run.folder import RunFolder
    from tag2box.runtime.files import content_hash

    try:
        run = RunFolder(folder)
    except Tag2BoxError:  # none, or one that running again repairs
        return None
    here = {os.path.abspath(path) for path in images.paths}
    if any(os.path.abspath(path) in here for path in run.images.paths):
        return None
    there = next((path for path in run.images.paths if path.exists()), None)
    if there is None and not {content_hash(path) for path in images.paths}.isdisjoint(run.contents):
        return None
    return there or run.images.paths[0]


def _text(folder: Path, stages: dict[str, dict[str, object]], verbose: bool) -> str:
    fresh = [name for name, stage in stages.items() if not stage["reused"]]
    named = f": {', '.join(fresh)}" if verbose and fresh else ""
    done = f"{len(fresh)} of {len(stages)} steps were computed{named}."
    return f"{done if fresh else 'Nothing had changed: nothing was computed.'} The detector is in {folder}."


def _next(folder: Path) -> str:
    return "\n".join(
        [
            f"To look at it:   tag2box report {folder} --open",
            f"To correct it:   tag2box review {folder}",
            f"To use it:       tag2box detect PHOTOS --run {folder} --show",
        ]
    )
