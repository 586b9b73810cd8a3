"""`tag2box doctor`: this machine, in a form to paste into a report of a bug."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import AsJson, say


def doctor(
    run: Annotated[Path | None, typer.Option(help="A run, to see which packages it was made with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what this machine has, which precision is chosen and why, and what is likely to go wrong.

    Paste it into a report of a bug: it names no user and no folder of yours but that of the cache.

    Example: tag2box doctor
    """
    from tag2box.cli.machine import examine, in_words

    machine = examine(run)
    say(as_json, machine, in_words(machine))
