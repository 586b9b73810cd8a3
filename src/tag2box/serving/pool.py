"""`WorkerPool`: a few processes that find objects in photos, and a few photos that may wait for them.

Whoever comes when all places are taken is told so at once (`FullError`): the work under way is bounded, and
so are the memory and the time that the last one waits.
"""

import asyncio
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from tag2box.detection.detector import Detector
from tag2box.errors import Tag2BoxError
from tag2box.run.folder import RunFolder
from tag2box.runtime.processes import safe_children
from tag2box.serving.worker import work


class FullError(Tag2BoxError):
    """All places are taken; `seconds` until it is worth to ask again."""

    status = 503

    def __init__(self, seconds: int) -> None:
        super().__init__(f"all places are taken: ask again in {seconds} s")
        self.headers = {"retry-after": str(seconds)}


class TooSlowError(Tag2BoxError):
    """A photo took too long."""

    status = 504


class DiedError(Tag2BoxError):
    """A photo ended its worker: a decoder crashed, or memory ran out."""

    status = 422


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
def pool_of(path: Path, limits: Limits) -> Iterator[tuple["WorkerPool", Path]]:
    """Workers, ready, for the detector of a run folder or in a file, and a folder for their photos."""
    file = path if path.suffix == ".npz" else RunFolder(path).detector_file
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
        self.workers = [Worker(detector) for _ in range(limits.workers)]
        self._threads = ThreadPoolExecutor(limits.workers)
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._usual = 1.0  # seconds of a photo

    def start(self) -> None:
        """Start all workers; those who ask find them ready."""
        self.classes, *_ = self._threads.map(Worker.start, self.workers)
        for worker in self.workers:
            self._idle.put_nowait(worker)

    def stop(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.stop()
        self._threads.shutdown(cancel_futures=True)

    def renew(self) -> None:
        """The detector is another now: every worker reads it before its next photo."""
        for worker in self.workers:
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
        """What a worker answers about the photo, once one is free."""
        worker = await self._idle.get()
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, worker.ask, photo, self.limits.seconds)
        finally:
            self._idle.put_nowait(worker)
            self._usual += 0.1 * (time.monotonic() - began - self._usual)


class Worker:
    """One process; where it has ended it is started again by the next photo."""

    def __init__(self, detector: Path) -> None:
        self._detector = detector
        self.process: SpawnProcess | None = None
        self._pipe: Connection[bytes, bytes]
        self.stale = False

    def start(self) -> tuple[str, ...]:
        """Start it and wait until it is ready; the classes that it knows."""
        self.stop()
        self.stale = False
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, str(self._detector)), daemon=True)
        with safe_children(), other:
            self.process.start()
        answer = self._receive(None)
        if "error" in answer:
            self.stop()
            raise Tag2BoxError(answer["error"])
        return tuple(answer["classes"])

    def ask(self, photo: Path, seconds: float) -> dict[str, Any]:
        """What it answers about the photo. After `seconds` it is ended: nothing else stops a decoder."""
        if self.stale or self.process is None or not self.process.is_alive():
            self.start()
        with suppress(OSError):  # it has ended: so there is no answer
            self._pipe.send_bytes(json.dumps(str(photo)).encode())
        return self._receive(seconds)

    def _receive(self, seconds: float | None) -> dict[str, Any]:
        try:
            if self._pipe.poll(seconds):
                return dict(json.loads(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            self.stop()
            raise DiedError("a worker ended: a decoder crashed, or memory ran out") from None
        self.stop()
        raise TooSlowError(f"the image took more than {seconds:g} s")

    def stop(self) -> None:
        """End it."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.join()
            self._pipe.close()
