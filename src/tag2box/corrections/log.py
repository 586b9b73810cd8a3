"""`CorrectionLog`: the file `corrections.jsonl` of a run folder, to which lines are only ever added.

An event is on the disk before `append` returns. Writers hold a lock for the moment of a write: two pages, an
import and a run can work at once. Every line has a checksum. One that is damaged, or that a killed writer
left half, is left out and named: what a person said cannot be computed again.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tag2box.corrections.events import check_event
from tag2box.corrections.state import State
from tag2box.errors import InputError
from tag2box.names import first_few
from tag2box.runtime.files import append_line, checked_json, locked, refuse_link, sync_folder, unchecked

NAME = "corrections.jsonl"
# Seconds to wait for another writer: a write takes some milliseconds.
PATIENCE = 30.0
# So many damaged lines are named.
NAMED = 20


class CorrectionLog:
    """The log of one run folder, and how far it was read."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / NAME
        self._offset = self._lines = 0  # of what was read, in whole lines
        self._damaged: list[int] = []
        self._cut = False

    @property
    def damaged(self) -> list[int]:
        """The numbers of the lines that could not be read, from 1."""
        return [*self._damaged, *([self._lines + 1] if self._cut else [])]

    def left_out(self) -> list[str]:
        """A line that says which lines are damaged; none where all is well."""
        if not (damaged := self.damaged):
            return []
        which = first_few([*map(str, damaged)], NAMED)
        return [
            f"{self.path}: {len(damaged)} of {self._lines + self._cut} lines are damaged and left out "
            f"({which}): put the file back from a copy, or review again what they said and remove them"
        ]

    def append(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add events, each checked before any is written; they are on the disk when this returns."""
        lines = [checked_json(check_event(event)).rstrip("\n") for event in events]
        if not lines:
            return
        refusal = f"{self.path} is being written by somebody else for long: try again"
        with locked(self.path.with_name(".corrections.lock"), refusal, wait=PATIENCE):
            fresh = not self.path.exists()
            append_line(self.path, "\n".join(lines))
            if fresh:
                sync_folder(self.path.parent)

    def read_new(self) -> Iterator[dict[str, Any]]:
        """The events that were added since the last call, by whomever."""
        refuse_link(self.path)
        if not self.path.is_file() or self.path.stat().st_size <= self._offset:
            return
        self._cut = False
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                event, whole = _event(line), line.endswith(b"\n")
                if whole:
                    self._offset += len(line)
                    self._lines += 1
                if event is not None:
                    yield event
                elif not whole:  # being written, or all that a killed writer left
                    self._cut = True
                elif line.strip():
                    self._damaged.append(self._lines)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        return check_event(unchecked(json.loads(line)))
    except (ValueError, TypeError, RecursionError, InputError):
        return None


def read_state(folder: str | Path) -> State:
    """All that is said in the run folder; a warning names the lines that are damaged."""
    log = CorrectionLog(folder)
    state = State(log.read_new())
    warn(log.left_out())
    return state


def warn(lines: Iterable[str]) -> None:
    """Say what is left out, one warning a line."""
    for line in lines:
        warnings.warn(line, stacklevel=3)
