"""`WorkerPool`: a few processes that find objects in photos, and a few photos that may wait for them.

Whoever comes when all places are taken is told so at once (`FullError`): the work under way is bounded, and
so are the memory and the time that the last one waits.
"""

import asyncio
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tag2box.detection.detector import Detector
from tag2box.errors import Tag2BoxError
from tag2box.run.folder import RunFolder
from tag2box.runtime.processes import ONE_THREAD, child_environment


class FullError(Tag2BoxError):
    """All places are taken; `seconds` until it is worth to ask again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"all places are taken: ask again in {seconds} s")
        self.seconds = seconds


class TooSlowError(Tag2BoxError):
    """A photo took too long."""


class DiedError(Tag2BoxError):
    """A photo ended its worker: a decoder crashed, or memory ran out."""


@dataclass(frozen=True)
class Limits:
    """workers: processes; waiting: photos that wait for one. seconds: for one photo, and for its upload."""

    workers: int = 1
    waiting: int = 4
    seconds: float = 30.0
    most_bytes: int = 20_000_000
    most_pixels: int = 50_000_000

    @property
    def places(self) -> int:
        """Photos that are being looked at, or wait."""
        return self.workers + self.waiting

    @property
    def uploads(self) -> int:
        """Photos that may be on their way: who sends slowly takes no place from others."""
        return 8 * self.places


@contextmanager
def pool_of(place: Path, limits: Limits) -> Iterator[tuple["WorkerPool", Path]]:
    """Workers, ready, for the detector of a run folder or in a file, and a folder for their photos."""
    file = place if place.suffix == ".npz" else RunFolder(place).detector_file
    Detector.load(file).description.settings.check_network()  # it can be used, or is refused
    pool = WorkerPool(file, limits)
    with tempfile.TemporaryDirectory(prefix="tag2box-") as folder:
        try:
            pool.start()
            yield pool, Path(folder)
        finally:
            pool.stop()


class WorkerPool:
    """Workers for the detector in a file."""

    def __init__(self, detector: Path, limits: Limits) -> None:
        self.limits = limits
        self.taken = self.uploading = 0
        self.classes: tuple[str, ...] = ()
        self._workers = [_Worker(detector) for _ in range(limits.workers)]
        self._threads = ThreadPoolExecutor(limits.workers)
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._usual = 1.0  # seconds of a photo

    def start(self) -> None:
        """Start all workers; those who ask find them ready."""
        self.classes, *_ = self._threads.map(_Worker.start, self._workers)
        for worker in self._workers:
            self._idle.put_nowait(worker)

    def stop(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown(cancel_futures=True)

    def renew(self) -> None:
        """The detector is another now: every worker reads it before its next photo."""
        for worker in self._workers:
            worker.stale = True

    @contextmanager
    def upload(self) -> Iterator[None]:
        """While a photo is on its way; `FullError` where it would find no place, or too many are."""
        self._refuse_if(self.taken >= self.limits.places or self.uploading >= self.limits.uploads)
        self.uploading += 1
        try:
            yield
        finally:
            self.uploading -= 1

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one photo, until the answer; `FullError` where there is none."""
        self._refuse_if(self.taken >= self.limits.places)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    def _refuse_if(self, full: bool) -> None:
        if full:
            turns = max(self.taken, 1) / self.limits.workers
            raise FullError(max(1, math.ceil(turns * self._usual)))

    async def detect(self, photo: Path) -> dict[str, Any]:
        """What a worker says of the photo, once one is free."""
        worker = await self._idle.get()
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._threads, worker.ask, photo, self.limits.seconds)
        finally:
            self._idle.put_nowait(worker)
            self._usual += 0.1 * (time.monotonic() - began - self._usual)
        return answer


class _Worker:
    """One process; where it has ended it is started again by the next photo."""

    def __init__(self, detector: Path) -> None:
        self._command = [sys.executable, "-m", "tag2box.serving.worker", str(detector)]
        self._process: subprocess.Popen[str] | None = None
        self.stale = False

    def start(self) -> tuple[str, ...]:
        """Start it and wait until it is ready; the classes that it knows."""
        self.stale = False
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=child_environment(ONE_THREAD),
            start_new_session=True,  # Ctrl+C is for the server, which then ends it
        )
        answer = self._hear(self._process)
        if answer is None or "error" in answer:
            self.stop()
            raise Tag2BoxError(answer["error"] if answer else "a worker did not start: its error is above")
        return tuple(answer["classes"])

    def ask(self, photo: Path, seconds: float) -> dict[str, Any]:
        """What it says of the photo. After `seconds` it is ended: nothing else stops a decoder."""
        if self.stale or self._process is None or self._process.poll() is not None:
            self.stop()
            self.start()
        assert self._process is not None
        process, late = self._process, threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            answer = self._say(process, photo)
        finally:
            timer.cancel()
        if answer is not None:
            return answer
        self.stop()
        if late.is_set():
            raise TooSlowError(f"the image took more than {seconds:g} s")
        raise DiedError("the image ended the process that looked at it: a decoder crashed, or memory ran out")

    def _say(self, process: "subprocess.Popen[str]", photo: Path) -> dict[str, Any] | None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(str(photo)) + "\n")
            process.stdin.flush()
        except OSError:  # it has ended
            return None
        return self._hear(process)

    @staticmethod
    def _hear(process: "subprocess.Popen[str]") -> dict[str, Any] | None:
        assert process.stdout is not None
        line = process.stdout.readline()
        return dict(json.loads(line)) if line.endswith("\n") else None

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            with suppress(OSError), self._process:  # closes its pipes; what it never read is lost
                pass
            self._process = None
