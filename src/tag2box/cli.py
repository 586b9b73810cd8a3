"""The command `tag2box`. Each is thin: it reads its arguments, calls the library, shows the answer."""

from typing import Annotated

import typer

import tag2box

__all__ = ["app", "main"]

app = typer.Typer(
    name="tag2box",
    help="Image tags in, boxes and an object detector out: nobody draws a box.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tag2box {tag2box.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
