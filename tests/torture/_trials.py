"""Commands that are killed or run out of room, and are run again; what they leave, and what they should."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests._toys import FAST, contents

ROOT = Path(__file__).parents[2]
SETS = [word for setting in FAST for word in ("--set", setting)]


@dataclass(frozen=True)
class Scenario:
    """A command that works in a run folder: its words, for a folder, and what the folder holds at first."""

    name: str
    words: Callable[[Path], list[str]]
    start: Path | None = None

    def prepare(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        if self.start is not None:
            shutil.copytree(self.start, folder, symlinks=True)


@dataclass(frozen=True)
class Whole:
    """What an undisturbed command leaves, how long it takes, and how often it changes the file system."""

    files: dict[str, bytes]
    seconds: float
    changes: int


class Server:
    """The process that starts commands (`_server`). prefix: a command that it runs under."""

    def __init__(self, log, prefix=()):
        self.log = log
        command = [*prefix, sys.executable, "-m", "tests.torture._server"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, words, *, seconds=None, last=0, disk=None):
        """Run a command, killed after some seconds or before a change; its status and number of changes.

        disk: a folder, and the kilobytes of the disk that it shall be on.
        """
        self.log.write_text("")
        place = disk and [str(disk[0]), disk[1]]
        request = {"words": [str(word) for word in words], "last": last, "log": str(self.log), "disk": place}
        self.process.stdin.write(json.dumps(request) + "\n")
        child = int(self.process.stdout.readline())
        if seconds is not None and not select.select([self.process.stdout], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        status, changes = self.process.stdout.readline().split()
        return int(status), int(changes)

    def finish(self, scenario, folder):
        """Run the command to its end, from what is in `folder`."""
        start = time.monotonic()
        status, changes = self.run(scenario.words(folder))
        assert status == 0, self.log.read_text()
        return Whole(contents(folder), time.monotonic() - start, changes)

    def undisturbed(self, scenario, folder):
        """What the command should leave."""
        scenario.prepare(folder)
        return self.finish(scenario, folder)

    def end(self):
        self.process.communicate()


def differences(folder, whole):
    """The files that are not as they should be."""
    found = contents(folder)
    return sorted(name for name in found.keys() | whole.files if found.get(name) != whole.files.get(name))
