"""`CorrectionLog`: the file `corrections.jsonl` of a run folder, to which lines are only ever added.

An event is on the disk before `append` returns. Writers hold a lock for the moment of a write: two pages, an
import and a run can work at once. A line that a killed writer left half is ended by the next one and skipped
by readers: nobody was told that it was saved.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tag2box.corrections.events import check_event
from tag2box.corrections.state import State
from tag2box.errors import InputError
from tag2box.runtime.files import append_line, checked_json, locked, sync_folder, unchecked

__all__ = ["CorrectionLog", "read_state"]

NAME = "corrections.jsonl"
# Seconds to wait for another writer: a write takes some milliseconds.
PATIENCE = 30.0


class CorrectionLog:
    """The log of one run folder, and how far it was read."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / NAME
        self.broken = 0  # lines that could not be read
        self._offset = 0

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
        if not self.path.is_file() or self.path.stat().st_size <= self._offset:
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # being written, or all that a killed writer left
                    break
                self._offset += len(line)
                if (event := self._event(line)) is not None:
                    yield event

    def _event(self, line: bytes) -> dict[str, Any] | None:
        try:
            stored = json.loads(line)
            # A line of another tool may have no checksum; one of ours has.
            return check_event(unchecked(stored) if "crc" in stored else stored)
        except (ValueError, TypeError, RecursionError, InputError):
            self.broken += bool(line.strip())
            return None


def read_state(folder: str | Path) -> State:
    """All that is said in the run folder."""
    log = CorrectionLog(os.fspath(folder))
    return State(log.read_new())
