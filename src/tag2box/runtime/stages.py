"""`@stage` and `Run`: a stage is a plain function; a run loads its result, or computes and saves it.

    @stage("initial", version=1)
    def train_initial(known: Known, covers: tuple[Cover, ...], settings: InitialConfig) -> Weights: ...

    run = Run(Store("runs/photos"))
    weights = run(train_initial, known, covers, config.initial)

The key of a result is made from the stage's name and version and from what the call is given
(`runtime.keys`): so a stage cannot read a setting that its key does not hold, and nobody keeps a table of
what depends on what.

`run.per_photo` does the same for a stage whose result is that of some photos after that of others, shard by
shard: a run that was killed repeats no finished one. `workers` and `progress` are given to stages that have
these parameters; no result depends on them.
"""

import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import _lru_cache_wrapper, cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from tag2box.runtime.executor import current_cluster, n_workers
from tag2box.runtime.keys import call_key
from tag2box.runtime.parts import Bounds, DamagedError, Parts
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import Store

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# Photos in a shard: some seconds of work, lost at most when a run is killed.
SHARD = 32


def stage(name: str, *, version: int) -> Callable[[F], F]:
    """Declare a function as a stage. version: raised when its code changes its result.

    What older code stored is then computed anew.
    """

    def declare(function: F) -> F:
        function.stage = name, version  # type: ignore[attr-defined]
        return function

    return declare


@dataclass(frozen=True, eq=False)
class Later:
    """A result that is computed when a stage that needs it is, and not before; `Run.drop` removes it."""

    stage: tuple[str, str]  # name, key
    result: "_lru_cache_wrapper[Any]"


class Run:
    """Runs stages: the store, the number of workers, and who is told of the progress.

    keys: of each stage that was called, under its name. costs: whether it was reused, else its seconds.
    note_key: called when a stage begins or is reused, before anything of it is in the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        workers: int | None = None,
        progress: Progress = silent,
        note_key: Callable[[str, str], None] = lambda _name, _key: None,
    ) -> None:
        self.store, self.workers, self.progress = store, n_workers(workers), progress
        self.keys: dict[str, str] = {}
        self.costs: dict[str, dict[str, Any]] = {}
        self._note_key = note_key
        self._made: dict[int, tuple[Any, str]] = {}  # results that are in use, and their keys

    def __call__(self, function: Callable[..., T], *given: Any) -> T:
        """The stored result of a stage, computed and saved first where it is missing or damaged."""
        name, key = self._key(function, given)

        def make() -> None:
            at_hand = [each.result() if isinstance(each, Later) else each for each in given]
            self.keys[name] = key  # one of these may be of the same stage
            with self._timed(name):
                self.store.save(name, key, _call(function, at_hand, self.workers, self.progress))

        result: T = self._stored(name, make)
        return result

    def per_photo(self, function: Callable[..., T], photos: Any, *given: Any) -> T:
        """The same, shard by shard: the result of a shard is that of its `photos`, as `part(a, z)` gives.

        photos: a record with `part`, or a tuple of such. What the stage returns can be concatenated. Where it
        has an attribute `ROWS`, the arrays that it names may be larger than the memory.
        A `Later` only saves work here: where it was dropped, what is missing is made without it.
        On a cluster a worker computes a shard.
        """
        name, key = self._key(function, (photos, *given))
        kind: Any = get_type_hints(function)["return"]
        n = len(photos[0] if isinstance(photos, tuple) else photos)
        bounds = list(pairwise([*range(0, n, SHARD), n]))

        def make() -> None:
            parts = self.store.parts(name, key, getattr(kind, "ROWS", ()))
            done = dict(parts.intact(bounds, lambda reason: self.note("damaged", reason=reason)))
            missing = [each for each in bounds if each not in done]
            at_hand = [self._if_stored(each) if isinstance(each, Later) else each for each in given]
            with self._timed(name, shards=len(bounds), shards_reused=len(done)):
                tasks = [partial(_call, function, (_part(photos, a, z), *at_hand)) for a, z in missing]
                done |= zip(missing, self._computed(name, parts, missing, tasks, n), strict=True)
                record = kind.concatenate([done[each] for each in bounds])
                self.store.save_parts(name, key, parts, record)

        result: T = self._stored(name, make)
        return result

    def later(self, function: Callable[..., Any], photos: Any, *given: Any) -> Later:
        """`per_photo`, but only if a stage that needs it is computed."""
        return self._promise(function, (photos, *given), self.per_photo)

    def when_needed(self, function: Callable[..., Any], before: Later | None, *given: Any) -> Later:
        """A stage, but only if another that needs it is computed; `before` is given to it, then dropped."""
        given = given if before is None else (before, *given)

        def call(*known: Any) -> Any:
            result = self(*known)
            if before is not None:
                self.drop(before)
            return result

        return self._promise(function, given, call)

    def _promise(self, function: Callable[..., Any], given: Sequence[Any], call: Callable[..., Any]) -> Later:
        name, version = function.stage  # type: ignore[attr-defined]
        key = call_key(name, version, given, self._made_by)
        promise = Later((name, key), cache(lambda: call(function, *given)))
        self._made[id(promise)] = promise, key
        return promise

    def drop(self, promise: Later) -> None:
        """Remove what was computed: what needed it is stored."""
        name, key = promise.stage
        self.keys.pop(name, None)
        # Nobody holds its files open: they give their room back, and every system lets them be removed.
        promise.result.cache_clear()
        self._made = {at: made for at, made in self._made.items() if made[1] != key}
        self.store.drop(name, key)

    def _if_stored(self, promise: Later) -> Any:
        return promise.result() if self.store.has(*promise.stage) else None

    def _computed(
        self,
        name: str,
        parts: Parts,
        missing: Sequence[Bounds],
        tasks: Sequence[Callable[[int | None, Progress], Any]],
        n: int,
    ) -> Iterator[Any]:
        """The parts that are missing, as each is saved."""
        if cluster := current_cluster():
            made = cluster.run(partial(task, 1, silent) for task in tasks)
            for (a, z), record in zip(missing, made, strict=True):
                self.progress(name, z, n)
                yield parts.add(a, z, record)
            return
        for (a, z), task in zip(missing, tasks, strict=True):
            yield parts.add(a, z, task(self.workers, self._within(a, n)))

    def key_of(self, *values: Any) -> str:
        """What a record made of `values` is known by."""
        return call_key("", 0, values, self._made_by)

    def _key(self, function: Callable[..., Any], given: Sequence[Any]) -> tuple[str, str]:
        name, version = function.stage  # type: ignore[attr-defined]
        self.keys[name] = call_key(name, version, given, self._made_by)
        self._note_key(name, self.keys[name])
        return name, self.keys[name]

    def _made_by(self, value: Any) -> str | None:
        made = self._made.get(id(value))
        return made[1] if made and made[0] is value else None

    def _stored(self, name: str, make: Callable[[], None]) -> Any:
        """The stored result; `make` is called where it is missing, and again where it is damaged."""
        key = self.keys[name]
        if fresh := not self.store.has(name, key):
            make()
        try:
            result = self.store.load(name, key)
        except DamagedError as damage:
            self.note("damaged", stage=name, key=key[:12], reason=str(damage))
            self.store.reopen(name, key)
            make()
            result, fresh = self.store.load(name, key), True
        if not fresh:
            self.costs[name] = {"reused": True}
            self.store.tidy(name, key)
            self.note("reused", stage=name, key=key[:12])
        self._made[id(result)] = result, key
        return result

    def note(self, event: str, **more: Any) -> None:
        """One line of `events.jsonl`."""
        self.store.log({"time": round(time.time(), 3), "event": event, **more})

    @contextmanager
    def _timed(self, name: str, **counts: int) -> Iterator[None]:
        self.note("started", stage=name, key=self.keys[name][:12], **counts)
        start = time.monotonic()
        yield
        seconds = round(time.monotonic() - start, 3)
        self.costs[name] = {"reused": False, "seconds": seconds, **counts, **_peak_memory()}
        self.note("finished", stage=name, key=self.keys[name][:12], **self.costs[name])

    def _within(self, first: int, n: int) -> Progress:
        """Progress of a shard that starts at photo `first`, told as that of all n photos."""
        return lambda label, done, _total: self.progress(label, first + done, n)


def _call(function: Callable[..., Any], given: Sequence[Any], workers: int | None, progress: Progress) -> Any:
    """What the stage makes of what it is given."""
    options = {"workers": workers, "progress": progress}
    known = inspect.signature(function).parameters
    return function(*given, **{name: value for name, value in options.items() if name in known})


def _part(photos: Any, a: int, z: int) -> Any:
    """What belongs to the photos from a to z."""
    if isinstance(photos, tuple):
        return tuple(_part(each, a, z) for each in photos)
    return photos.part(a, z) if hasattr(photos, "part") else photos[a:z]


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
