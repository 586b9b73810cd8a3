"""`Run`: load a stage's result from the store, or compute it and save it; say so in `events.jsonl`.

Long stages come in shards, pure functions of their items: a run that was killed repeats no finished one.
"""

import os
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import DTypeLike, NDArray

from tag2box.errors import Tag2BoxError
from tag2box.runtime.executor import n_workers
from tag2box.runtime.parts import DamagedError, Shards
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import Store

__all__ = ["Run"]

T = TypeVar("T")

# Items (images) in a shard: some seconds of work, lost at most when a run is killed.
SHARD = 32


class Run:
    """A run at work in its folder: the store, the number of workers, and who is told of the progress.

    keys: of each stage's result, set before its stages are called.
    """

    def __init__(self, store: Store, *, workers: int | None = None, progress: Progress = silent) -> None:
        self.store, self.workers, self.progress = store, n_workers(workers), progress
        self.keys: dict[str, str] = {}
        self.costs: dict[str, dict[str, Any]] = {}  # of each stage, whether it was reused, else its seconds

    def result(self, stage: str, compute: Callable[[], T]) -> T:
        """The stored result of a stage, computed and saved first where it is missing or damaged."""

        def make() -> None:
            with self._timed(stage):
                self.store.save(stage, self.keys[stage], compute())

        found: T = self._stored(stage, make)
        return found

    def in_shards(
        self,
        stage: str,
        n: int,
        compute: Callable[[int, int, Progress], T],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The same for n items, computed shard by shard: `compute(a, z, progress)` of items a to z."""

        return self._in_parts(
            stage,
            _bounds(n),
            lambda missing: (compute(a, z, self._within(a, n)) for a, z in missing),
            merge,
        )

    def in_blocks(
        self,
        stage: str,
        n: int,
        compute: Callable[[Container[int], Progress], Iterator[T]],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The same for n blocks that are computed in one go: `compute(skip, progress)` of all but some."""

        def produce(missing: Sequence[tuple[int, int]]) -> Iterator[T]:
            skip = set(range(n)) - {a for a, _ in missing}
            return compute(skip, lambda label, done, _: self.progress(label, len(skip) + done, n))

        return self._in_parts(stage, [(i, i + 1) for i in range(n)], produce, merge)

    def _in_parts(
        self,
        stage: str,
        bounds: Sequence[tuple[int, int]],
        produce: Callable[[Sequence[tuple[int, int]]], Iterator[T]],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The result that is merged of parts; `produce` makes those that are missing or damaged."""

        def make() -> None:
            stored = self.store.shards(stage, self.keys[stage])
            parts: dict[tuple[int, int], T] = dict(self._intact(stored, bounds))
            missing = [part for part in bounds if part not in parts]
            with self._timed(stage, shards=len(bounds), shards_reused=len(parts)):
                for part, made in zip(missing, produce(missing), strict=True):
                    stored.save(*part, made)
                    parts[part] = made
                self.store.save(stage, self.keys[stage], merge([parts[part] for part in bounds]))

        found: T = self._stored(stage, make)
        return found

    def _intact(
        self, stored: Shards, bounds: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], Any]]:
        for a, z in bounds:
            try:
                if stored.has(a, z):
                    yield (a, z), stored.load(a, z)
            except DamagedError as damage:
                self.note("damaged", reason=str(damage))

    def in_rows(
        self,
        stage: str,
        offsets: NDArray[Any],
        width: int,
        dtype: DTypeLike,
        compute: Callable[[int, int, Progress], NDArray[Any]],
        wrap: Callable[[NDArray[Any]], T],
    ) -> T:
        """The same for one large array, (n_rows, width): item i has rows offsets[i] to offsets[i + 1].

        `wrap(X)` is the record.
        """

        def make() -> None:
            rows = self.store.rows(stage, self.keys[stage], (int(offsets[-1]), width), dtype)
            n = len(offsets) - 1
            bounds = _bounds(n)
            missing = [(a, z) for a, z in bounds if not rows.has(a, z)]
            with self._timed(stage, shards=len(bounds), shards_reused=len(bounds) - len(missing)):
                for a, z in missing:
                    X = compute(a, z, self._within(a, n))
                    if X.shape != (offsets[z] - offsets[a], width):
                        raise Tag2BoxError(
                            f"{stage} of items {a} to {z} are {X.shape}, "
                            f"where {(int(offsets[z] - offsets[a]), width)} was expected"
                        )
                    rows.save(a, z, int(offsets[a]), X)
                self.store.save_rows(stage, self.keys[stage], rows, wrap(rows.outline()))

        found: T = self._stored(stage, make)
        return found

    def _stored(self, stage: str, make: Callable[[], None]) -> Any:
        """The stored result; `make` is called where it is missing, and again where it is damaged."""
        key = self.keys[stage]
        if fresh := not self.store.has(stage, key):
            make()
        try:
            found = self.store.load(stage, key)
        except DamagedError as damage:
            self.note("damaged", stage=stage, key=key[:12], reason=str(damage))
            self.store.reopen(stage, key)
            make()
            return self.store.load(stage, key)
        if not fresh:
            self.costs[stage] = {"reused": True}
            self.store.tidy(stage, key)
            self.note("reused", stage=stage, key=key[:12])
        return found

    def note(self, event: str, **more: Any) -> None:
        """One line of `events.jsonl`."""
        self.store.log({"time": round(time.time(), 3), "event": event, **more})

    @contextmanager
    def _timed(self, stage: str, **counts: int) -> Iterator[None]:
        self.note("started", stage=stage, key=self.keys[stage][:12], **counts)
        start = time.monotonic()
        yield
        seconds = round(time.monotonic() - start, 3)
        self.costs[stage] = {"reused": False, "seconds": seconds, **counts, **_peak_memory()}
        self.note("finished", stage=stage, key=self.keys[stage][:12], **self.costs[stage])

    def _within(self, first: int, n: int) -> Progress:
        """Progress of a shard that starts at item `first`, told as that of all n items."""
        return lambda label, done, _total: self.progress(label, first + done, n)


def _bounds(n: int) -> list[tuple[int, int]]:
    """Where shards start and end: SHARD items each, the last one fewer."""
    return list(pairwise([*range(0, n, SHARD), n]))


def _peak_memory() -> dict[str, float]:
    """The most memory that this process has held so far, and its workers together, in MB (Linux only)."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return {}
    workers = [p.parent / "status" for p in Path("/proc").glob("[0-9]*/stat") if _parent(p) == os.getpid()]
    return {"peak_mb": _high_water(status), "workers_peak_mb": round(sum(map(_high_water, workers)), 1)}


def _parent(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):  # it has ended in the meantime
        return None


def _high_water(status: Path) -> float:
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0.0
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmHWM")), 0.0)
