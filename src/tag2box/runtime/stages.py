"""`@stage` and `Run`: a stage is a plain function; a run loads its result, or computes and saves it.

    @stage("initial", version=1)
    def train_initial(known: Known, covers: tuple[Cover, ...], settings: InitialConfig) -> Weights: ...

    run = Run(Store("runs/photos"))
    weights = run(train_initial, known, covers, config.initial)

The key of a result is made from the stage's name and version and from what the call is given
(`runtime.keys`): so a stage cannot read a setting that its key does not hold, and nobody keeps a table of
what depends on what.

`run.per_photo` does the same for a stage whose result is that of some photos after that of others, shard by
shard: a run that was killed repeats no finished one. `run.photos` holds what is made of single photos, under
the hash of each. `workers` and `progress` are given to stages that have these parameters; no result depends
on them.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import _lru_cache_wrapper, cache, partial
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

from tag2box.runtime.executor import current_cluster, n_workers
from tag2box.runtime.keys import call_key
from tag2box.runtime.photo_store import PhotoStore
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import DamagedError, Store

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

    result: "_lru_cache_wrapper[Any]"
    drop: Callable[[], None]


class Run:
    """Runs stages: the store, the number of workers, and who is told of the progress.

    keys: of each stage that was called, under its name; kinds: of what was made of single photos. costs:
    whether it was reused, else its seconds. note_key: called when a stage begins or is reused, before any
    of it is in the store.
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
        self.kinds: dict[str, str] = {}
        self.costs: dict[str, dict[str, Any]] = {}
        self._note_key = note_key
        self._made: dict[int, tuple[Any, str]] = {}  # results that are in use, and their keys

    def __call__(self, function: Callable[..., T], *given: Any) -> T:
        """The stored result of a stage, computed and saved first where it is missing or damaged."""
        name, key = self._key(function, given)

        def make() -> None:
            at_hand = [each.result() if isinstance(each, Later) else each for each in given]
            self.keys[name] = key  # one of these may be of the same stage
            with self.timed(name, key):
                self.store.save(name, key, _call(function, at_hand, self.workers, self.progress))

        result: T = self._stored(name, make)
        return result

    def per_photo(self, function: Callable[..., T], photos: Any, *given: Any) -> T:
        """The same, shard by shard: the result of a shard is that of its `photos`, as `part(a, z)` gives.

        photos: a record with `part`, an array, or a tuple of such. What the stage returns has `to_rows` and
        `of_rows`: its rows may be larger than the memory. On a cluster a worker computes a shard.
        """
        name, key = self._key(function, (photos, *given))
        record: Any = get_type_hints(function)["return"]
        n = len(photos[0] if isinstance(photos, tuple) else photos)
        store = self.store.photos(f"{name}-{key[:12]}")
        for shard in store.check():
            self.note("damaged", stage=name, shard=shard)
        whole = self.store.shards(store.kind)  # once they are all there, they stay as they were cut
        names = whole or [f"{a:06d}-{z:06d}" for a, z in pairwise([*range(0, n, SHARD), n])]
        bounds = {shard: (int(shard[:6]), int(shard[7:])) for shard in names}
        missing = {shard: each for shard, each in bounds.items() if shard not in store}
        if missing:
            counts = {"shards": len(bounds), "shards_reused": len(bounds) - len(missing)}
            with self.timed(name, key, **counts), closing(store):
                tasks = [partial(_call, function, (_part(photos, a, z), *given)) for a, z in missing.values()]
                made = self._computed(name, list(missing.values()), tasks, n)
                for shard, part in zip(missing, made, strict=True):
                    store.add(shard, part.to_rows())
                    store.commit()
        else:
            self.costs[name] = {"reused": True}
            self.note("reused", stage=name, key=key[:12])
        if not whole:
            self.store.mark_whole(store.kind, record, names)
        result: T = record.of_rows(store.load(list(bounds)))
        self._made[id(result)] = result, key
        return result

    def later(self, function: Callable[..., Any], before: Later | None, *given: Any) -> Later:
        """A stage, but only if another that needs it is computed; `before` is given to it, then dropped."""
        given = given if before is None else (before, *given)

        def call() -> Any:
            result = self(function, *given)
            if before is not None:
                self.drop(before)
            return result

        name, version = function.stage  # type: ignore[attr-defined]
        key = call_key(name, version, given, self._made_by)
        return self._promise(key, call, lambda: self._drop(name, key))

    def later_photos(self, kind: str, made_by: Any, load: Callable[[PhotoStore], Any]) -> Later:
        """What is made of single photos, but only if a stage that needs it is computed.

        load: makes what is missing in the store, and returns the record.
        """
        key = call_key(kind, 0, [made_by], self._made_by)
        return self._promise(key, lambda: load(self.photos(kind, made_by)), lambda: self.drop_photos(kind))

    def _promise(self, key: str, compute: Callable[[], Any], drop: Callable[[], None]) -> Later:
        promise = Later(cache(compute), drop)
        self._made[id(promise)] = promise, key
        return promise

    def drop(self, promise: Later) -> None:
        """Remove what was computed: what needed it is stored."""
        # Nobody holds its files open: they give their room back, and every system lets them be removed.
        promise.result.cache_clear()
        promise.drop()

    def _drop(self, name: str, key: str) -> None:
        self.keys.pop(name, None)
        self._made = {at: made for at, made in self._made.items() if made[1] != key}
        self.store.drop(name, key)

    def _computed(
        self,
        name: str,
        missing: Sequence[tuple[int, int]],
        tasks: Sequence[Callable[[int | None, Progress], Any]],
        n: int,
    ) -> Iterator[Any]:
        """What each of the tasks makes, in their order."""
        if cluster := current_cluster():
            for (_, z), part in zip(missing, cluster.run(partial(t, 1, silent) for t in tasks), strict=True):
                self.progress(name, z, n)
                yield part
            return
        for (a, _), task in zip(missing, tasks, strict=True):
            yield task(self.workers, self._within(a, n))

    def photos(self, kind: str, *made_by: Any) -> PhotoStore:
        """What was made of single photos so far. kind: what; made_by: what else decides how it looks."""
        key = call_key(kind, 0, made_by, self._made_by)
        self.kinds[kind] = f"{kind}-{key[:12]}"
        return self.store.photos(self.kinds[kind])

    def drop_photos(self, kind: str) -> None:
        """Remove what was made of photos, when nobody needs it any more."""
        if kind in self.kinds:
            self.store.remove([self.store.folder / "arrays" / self.kinds.pop(kind)])

    def count_photos(self, kind: str, new: int, n: int, seconds: float) -> None:
        """What it cost to see `n` photos, of which `new` ones were not known."""
        cost = {"reused": not new, "photos": n, "photos_reused": n - new, "seconds": round(seconds, 3)}
        self.costs[kind] = cost if new else {"reused": True}
        self.note("finished" if new else "reused", stage=kind, key=self.kinds[kind], **cost)

    def made(self, record: T, *values: Any) -> T:
        """`record`, known by the values that it was made of, and no longer by its content."""
        self._made[id(record)] = record, self.key_of(*values)
        return record

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
    def timed(self, name: str, key: str, **counts: int) -> Iterator[None]:
        """What a stage costs, for the log and `costs`."""
        self.note("started", stage=name, key=key[:12], **counts)
        start = time.monotonic()
        yield
        seconds = round(time.monotonic() - start, 3)
        self.costs[name] = {"reused": False, "seconds": seconds, **counts, **_peak_memory()}
        self.note("finished", stage=name, key=key[:12], **self.costs[name])

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
    """The most memory that this process has held so far, in MB, where the system tells."""
    try:
        import resource
    except ImportError:  # Windows
        return {}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_mb": round(most / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)}
