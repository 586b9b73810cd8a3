"""`map_ordered`: a pure function over many items, in this process, in several, or on many machines.

Order in, order out: what is computed does not depend on the number of workers, or on where they are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from joblib import cpu_count

from tag2box.errors import Tag2BoxError
from tag2box.runtime.blas import one_thread
from tag2box.runtime.checks import check_at_least
from tag2box.runtime.processes import why_it_died
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.workers import in_workers

if TYPE_CHECKING:
    from tag2box.runtime.cluster import Cluster

T = TypeVar("T")
R = TypeVar("R")

# Items that a worker of a cluster is given at a time, at most.
BATCH = 32
_CLUSTER: ContextVar["Cluster | None"] = ContextVar("cluster", default=None)


def n_workers(workers: int | None) -> int:
    """The number of processes to use: `None` means one per core that this process may run on."""
    if workers is None:
        return int(cpu_count())
    check_at_least(1, workers=workers)
    return workers


def map_ordered(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = 1,
    progress: Progress = silent,
    label: str = "",
    n: int | None = None,
) -> Iterator[R]:
    """Yield `function(item)` for each of `items`, in their order, from `workers` processes.

    Only a few results wait at a time, so memory is bounded by the consumer. Libraries inside a worker are
    held to one thread each, so that workers do not fight for the cores.
    Within `on_cluster` the workers are those of the cluster. n: how many items there are, at most, where they
    have no length.
    """
    n = len(items) if n is None and isinstance(items, Sequence) else n or 0
    count = min(n_workers(workers), max(n, 1))
    results: Iterable[R]
    if cluster := current_cluster():
        size, rest = min(max(n // (8 * cluster.size), 1), BATCH), iter(items)
        tasks = (partial(_each, function, some) for some in iter(lambda: list(islice(rest, size)), []))
        results = chain.from_iterable(cluster.run(tasks))
    elif count == 1:
        results = map(function, items)
    else:
        results = in_workers(function, items, count, n_workers(workers))
    progress(label, 0, n)
    try:
        for done, result in enumerate(results, start=1):
            progress(label, done, n)
            yield result
    except BrokenProcessPool as error:
        raise Tag2BoxError(why_it_died(str(error))) from error


def map_threads(function: Callable[[T], R], items: Iterable[T], *, workers: int | None = 1) -> Iterator[R]:
    """The same in `workers` threads, for functions that leave Python: products, and kernels.

    BLAS is held to one thread meanwhile: so bits depend on `items` alone. Results that wait are at most two a
    thread.
    """
    if cluster := current_cluster():
        yield from cluster.run(partial(function, item) for item in items)
        return
    count = n_workers(workers)
    with one_thread(), ThreadPoolExecutor(count) as threads:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(threads.submit(function, item))
            if len(waiting) > 2 * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def on_cluster(cluster: "Cluster | None") -> Iterator[None]:
    """While this lasts, work is spread over the workers of `cluster`, where there is one."""
    before = _CLUSTER.set(cluster)
    try:
        yield
    finally:
        _CLUSTER.reset(before)


def current_cluster() -> "Cluster | None":
    """The cluster that work is spread over now."""
    return _CLUSTER.get()


def _each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]
