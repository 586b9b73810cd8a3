"""Progress with the time left, for people: bars in a terminal, plain lines in a log.

A stage knows only `Progress`: a callable that takes (label, done, total). It never prints.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], None]

# What is over sooner than this needs no bar, and a log wants a line no more often than that.
SECONDS_BEFORE_FIRST = 2.0
SECONDS_BETWEEN_LINES = 10.0


def silent(_label: str, _done: int, _total: int) -> None:
    """Show nothing: the default of every stage."""


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """A `Progress` on standard error, as bars where that is a terminal and as lines where it is not."""
    if sys.stderr.isatty():
        with _rich_bars() as bars:
            yield bars
    else:
        yield _Lines()


@contextmanager
def _rich_bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}
        last: dict[str, int] = {}

        def show(label: str, done: int, total: int) -> None:
            if label not in tasks:  # what was done before this run says nothing about its speed
                tasks[label] = bars.add_task(label, total=total, completed=done)
            elif done < last[label]:  # the same stage again, for other images
                bars.reset(tasks[label], total=total, completed=done)
            last[label] = done
            bars.update(tasks[label], completed=done, total=total)

        yield show


class _Lines:
    def __init__(self) -> None:
        self._started: dict[str, tuple[float, int]] = {}  # when, and how much was done by then
        self._spoke: dict[str, float] = {}

    def __call__(self, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        started, before = self._started.setdefault(label, (now, done))
        spoke = self._spoke.get(label, started - SECONDS_BETWEEN_LINES + SECONDS_BEFORE_FIRST)
        finished = done >= total and label in self._spoke
        if finished or now - spoke >= SECONDS_BETWEEN_LINES:
            self._spoke[label] = now
            speed = (now - started) / max(done - before, 1)
            left = f", {speed * (total - done):.0f} s left" if before < done < total else ""
            sys.stderr.write(f"{label}: {done}/{total}{left}\n")
            sys.stderr.flush()
        if done >= total:  # should the stage come again, for other images, its time starts anew
            self._started.pop(label, None)
            self._spoke.pop(label, None)
