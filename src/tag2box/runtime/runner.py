"""`Runner`: load a stage's result from the store, or compute it and save it; say so in `events.jsonl`.

Long stages come in shards, pure functions of their items: a run that was killed repeats no finished one.
"""

import os
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import DTypeLike, NDArray

from tag2box.runtime.executor import current_cluster, n_workers
from tag2box.runtime.parts import Block, DamagedError, Place, Shards
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import Store

__all__ = ["Part", "Runner"]

T = TypeVar("T")
# What computes a part of a result: (the number of processes, who is told of the progress) -> it.
Part = Callable[[int | None, Progress], T]
Bounds = Sequence[tuple[int, int]]

# Items (images) in a shard: some seconds of work, lost at most when a run is killed.
SHARD = 32


class Runner:
    """Runs the stages of a run: the store, the number of workers, and who is told of the progress.

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
        part: Callable[[int, int], Part[T]],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The same for n items, computed shard by shard: `part(a, z)` computes that of items a to z.

        On a cluster a worker computes a shard and saves it.
        """

        def produce(stored: Shards, missing: Bounds) -> Iterator[T]:
            if cluster := current_cluster():
                tasks = (partial(_make_shard, stored, a, z, part(a, z)) for a, z in missing)
                for (a, z), _ in zip(missing, cluster.run(tasks), strict=True):
                    self.progress(stage, z, n)
                    yield stored.load(a, z)
                return
            for a, z in missing:
                made = part(a, z)(self.workers, self._within(a, n))
                stored.save(a, z, made)
                yield made

        return self._in_parts(stage, _bounds(n), produce, merge)

    def in_blocks(
        self,
        stage: str,
        n: int,
        compute: Callable[[Container[int], Progress], Iterator[T]],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The same for n blocks that are computed in one go: `compute(skip, progress)` of all but some."""

        def produce(stored: Shards, missing: Bounds) -> Iterator[T]:
            skip = set(range(n)) - {a for a, _ in missing}
            blocks = compute(skip, lambda label, done, _: self.progress(label, len(skip) + done, n))
            for (a, z), made in zip(missing, blocks, strict=True):
                stored.save(a, z, made)
                yield made

        return self._in_parts(stage, [(i, i + 1) for i in range(n)], produce, merge)

    def _in_parts(
        self,
        stage: str,
        bounds: Bounds,
        produce: Callable[[Shards, Bounds], Iterator[T]],
        merge: Callable[[Sequence[T]], T],
    ) -> T:
        """The result that is merged of parts; `produce` makes and saves those that are missing or damaged."""

        def make() -> None:
            stored = self.store.shards(stage, self.keys[stage])
            parts: dict[tuple[int, int], T] = dict(self._intact(stored, bounds))
            missing = [part for part in bounds if part not in parts]
            with self._timed(stage, shards=len(bounds), shards_reused=len(parts)):
                parts |= zip(missing, produce(stored, missing), strict=True)
                self.store.save(stage, self.keys[stage], merge([parts[part] for part in bounds]))

        found: T = self._stored(stage, make)
        return found

    def _intact(self, stored: Shards, bounds: Bounds) -> Iterator[tuple[tuple[int, int], Any]]:
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
        part: Callable[[int, int], Part[NDArray[Any]]],
        wrap: Callable[[NDArray[Any]], T],
        *,
        name: str = "X",
    ) -> T:
        """The same for one large array, (n_rows, width): item i has rows offsets[i] to offsets[i + 1].

        `wrap(array)` is the record, and `name` the name of the array in it.
        """

        def make() -> None:
            rows = self.store.rows(stage, self.keys[stage], name, (int(offsets[-1]), width), dtype)
            n = len(offsets) - 1
            bounds = _bounds(n)
            missing = [(a, z) for a, z in bounds if not rows.has(a, z)]

            def place(a: int, z: int) -> Place:
                return rows.place(a, z, int(offsets[a]), int(offsets[z] - offsets[a]))

            with self._timed(stage, shards=len(bounds), shards_reused=len(bounds) - len(missing)):
                if cluster := current_cluster():
                    tasks = (partial(_make_rows, place(a, z), part(a, z)) for a, z in missing)
                    for (a, z), block in zip(missing, cluster.run(tasks), strict=True):
                        self.progress(stage, z, n)
                        rows.list_block(a, z, block)
                else:
                    for a, z in missing:
                        X = part(a, z)(self.workers, self._within(a, n))
                        rows.list_block(a, z, place(a, z).write(X))
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


def _make_shard(stored: Shards, a: int, z: int, part: Part[Any]) -> None:
    """On a worker of a cluster: compute a shard and save it."""
    stored.save(a, z, part(1, silent))


def _make_rows(place: Place, part: Part[NDArray[Any]]) -> Block:
    """On a worker of a cluster: compute rows and write them; what is to be listed of them."""
    return place.write(part(1, silent))


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
