"""The command `tag2box`. Each command is thin: it reads arguments, calls the library, shows the answer."""

import faulthandler
import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated

import typer

from tag2box._version import __version__
from tag2box.cli.corrections import corrections
from tag2box.cli.detect import detect
from tag2box.cli.doctor import doctor
from tag2box.cli.evaluate import evaluate
from tag2box.cli.folders import clean, demo, export, report
from tag2box.cli.network import network
from tag2box.cli.reproduce import reproduce
from tag2box.cli.review import review
from tag2box.cli.run import run
from tag2box.cli.serve import serve, serve_labelstudio
from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.processes import ends_on_sigterm

# What users of other tools type first, and what does that here.
HINTS = {
    **dict.fromkeys(("train", "fit", "learn"), "run DATA"),
    **dict.fromkeys(("predict", "infer", "inference", "test"), "detect PHOTOS --run RUN"),
    **dict.fromkeys(("val", "validate", "eval"), "evaluate RUN --truth DATA"),
    **dict.fromkeys(("label", "annotate", "ui"), "review RUN"),
}
# By Ctrl+C; and who goes on where it was stopped.
KEPT = "what was finished is kept: the same command goes on from there"
STOPPED, RESUMED = 130, ("run", "detect", "demo", "export", "reproduce")

app = typer.Typer(
    name="tag2box",
    help="Image tags in, boxes and an object detector out: nobody draws a box.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (demo, run, detect, evaluate, report, review, export, serve, serve_labelstudio, clean, doctor):
    app.command()(command)
app.add_typer(corrections, name="corrections")
app.add_typer(network, name="network")
app.add_typer(reproduce, name="reproduce")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tag2box {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[  # main reads it, wherever it stands
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 wrong usage; one line for an error."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__)  # where a library crashes, say where
    _SHOWN.clear()
    warnings.showwarning = _show_warning
    try:
        if command in HINTS:
            raise InputError(f"no command {command!r}: did you mean tag2box {HINTS[command]}?")
        with ends_on_sigterm():
            app(arguments)
    except SystemExit as end:
        if end.code == STOPPED and command in RESUMED:
            typer.echo(f"tag2box: stopped; {KEPT}", err=True)
        raise
    except Tag2BoxError as error:
        if debug:
            raise
        typer.echo(f"tag2box: {error}", err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except OSError as error:  # what we write ourselves says more: this is mostly the answer, on a full disk
        if debug:
            raise
        _drop_output()
        what = f"{error.filename or 'standard output'}: {error.strerror or error}"
        typer.echo(f"tag2box: {what}; see to it and run again: what was finished is kept", err=True)
        sys.exit(1)


_SHOWN: set[str] = set()  # warnings of this command


def _show_warning(message: Warning | str, *_where: object, **_more: object) -> None:
    """One line, as for an error, and once, whoever warns of it."""
    if (line := f"tag2box: {Tag2BoxError(message)}") not in _SHOWN:
        _SHOWN.add(line)
        typer.echo(line, err=True)


def _drop_output() -> None:
    """Let nobody try once more, at the end, to write what could not be written."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
