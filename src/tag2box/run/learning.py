"""Learn again: `python -m tag2box.run.learning RUN`, which the servers start, in its own process.

It says how far it is in lines of JSON. `Learning` starts it, and listens.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tag2box.errors import Tag2BoxError
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.processes import child_environment

# The steps of learning again, and the share of the time that is over at the end of each: measured once, with
# 20 of 72 photos judged. Others count as none.
ENDS = {"reading": 0.25, "your boxes": 0.6, "two streams": 0.75, "learning with corrections": 0.9}
# From this share on the time left is told.
BELIEVED = 0.1


class Learning:
    """At most one process that learns; `status` is for those who wait."""

    def __init__(self, folder: Path, when_done: Callable[[], None]) -> None:
        self.folder, self._when_done = folder, when_done
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.status: dict[str, Any] = {"state": "idle"}

    def start(self) -> dict[str, Any]:
        """Start to learn, unless that is under way."""
        with self._lock:
            if self.status["state"] != "working":
                command = [sys.executable, "-m", "tag2box.run.learning", str(self.folder)]
                self._process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,  # one pipe: of two, the one that nobody reads may be full
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    env=child_environment(),
                )
                self.status = working("starting")
                threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            return self.status

    def stop(self) -> None:
        """End what is under way; what it finished is kept."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        """Follow the process to its end. However that comes, the status says so: a page waits for it."""
        began, reason = time.monotonic(), ""
        try:
            with process:
                for line in process.stdout or ():
                    if (progress := _progress(line)) is not None:
                        share = max(self.status["share"], share_of(**progress))
                        self.status = working(progress["label"], share, time.monotonic() - began)
                    else:
                        reason = line.strip() or reason
            if process.returncode == 0:
                self.status = working("reading what was learned", 1.0)
                self._when_done()
                self.status = {"state": "done", "seconds": round(time.monotonic() - began, 1)}
                return
        except Exception as error:  # a full disk, or a run that was removed meanwhile
            reason = str(error)
        self.status = {
            "state": "failed",
            "reason": reason or f"it ended with status {process.returncode}",
        }


def working(label: str, share: float = 0.0, seconds: float = 0.0) -> dict[str, Any]:
    """The status while it learns: the step, the share of all that is done, and the seconds left, or None."""
    left = round(seconds * (1 / share - 1), 1) if share >= BELIEVED else None
    return {"state": "working", "label": label, "share": round(share, 3), "left": left}


def share_of(label: str, done: int, total: int) -> float:
    """The share of all that is done, by the progress of one step."""
    if label not in ENDS:
        return 0.0
    begin = max((end for end in ENDS.values() if end < ENDS[label]), default=0.0)
    return begin + (ENDS[label] - begin) * done / max(total, 1)


def _progress(line: str) -> dict[str, Any] | None:
    """What `_tell` wrote; None for a line of somebody else, such as an error."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and set(message) == {"label", "done", "total"} else None


def learn_again(folder: Path) -> None:
    """Learn from the run's own photos, tags and settings, with the corrections as they are now."""
    run = RunFolder(folder)
    fit_run(run.images, run.config, folder, progress=_tell)


def _tell(label: str, done: int, total: int) -> None:
    sys.stdout.write(json.dumps({"label": label, "done": done, "total": total}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        learn_again(Path(sys.argv[1]))
    except Tag2BoxError as error:
        sys.exit(str(error))
