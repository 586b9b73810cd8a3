"""What several commands have in common: their options, and how they speak."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tag2box.runtime.checks import check_choice

if TYPE_CHECKING:
    from tag2box.data.first_look import Look
    from tag2box.runtime.progress import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Workers = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes; one per core by default.")]
Cluster = Annotated[
    str | None, typer.Option(help="Work on a Dask cluster: tcp://host:8786, or local:4 (docs/scale.md).")
]
OnError = Annotated[str, typer.Option(help="What to do about bad photos: skip or fail.")]
Split = Annotated[str | None, typer.Option(help="A part of the data, such as trainval or test.")]
Run = Annotated[Path, typer.Option("--run", help="The folder of a finished run.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Elsewhere = Annotated[Path | None, typer.Option(help="The data set, where its photos are elsewhere now.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen at; others reach it then.")]


def check_on_error(value: str) -> None:
    """Refuse anything but skip and fail, before any work."""
    check_choice("--on-error", value, ("skip", "fail"))


def tell_odd(look: "Look", as_json: bool, before: "Look | None" = None) -> None:
    """Say what is odd about the photos, but for what was said of them before."""
    known = before.odd() if before else []
    if not as_json and (odd := [line for line in look.odd() if line not in known]):
        typer.echo("\n".join(["Odd:", *(f"  {line}" for line in odd)]))


@contextmanager
def shown() -> Iterator["Progress"]:
    """Progress on standard error."""
    from tag2box.cli.progress import progress_shown

    with progress_shown() as progress:
        yield progress


def say(as_json: bool, answer: dict[str, Any], text: str) -> None:
    """The answer, for a machine or for people."""
    typer.echo(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else text)


def open_page(page: Path) -> None:
    """Show a page in the browser: only where that was asked for."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo(f"No browser to open: look at {page}", err=True)
