"""`map_ordered`: a pure function over many items, in this process or in several, results in order.

Order in, order out: what is computed does not depend on the number of workers.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky import process_executor

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.processes import follow_parent, why_it_died
from tag2box.runtime.progress import Progress, silent

__all__ = ["map_ordered", "n_workers"]

T = TypeVar("T")
R = TypeVar("R")


def n_workers(workers: int | None) -> int:
    """The number of processes to use: `None` means one per core that this process may run on."""
    if workers is None:
        return int(cpu_count())
    if workers < 1:
        raise InputError(f"workers must be at least 1, but it is {workers}")
    return workers


def map_ordered(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    workers: int | None = 1,
    progress: Progress = silent,
    label: str = "",
) -> Iterator[R]:
    """Yield `function(item)` for each of `items`, in their order, from `workers` processes.

    Only a few results wait at a time, so memory is bounded by the consumer. Libraries inside a worker are
    held to one thread each (joblib sets that), so that workers do not fight for the cores.
    """
    count = min(n_workers(workers), max(len(items), 1))
    results: Iterable[R]
    if count == 1:
        results = map(function, items)
    else:
        pool = Parallel(
            n_jobs=count,
            return_as="generator",
            pre_dispatch="4*n_jobs",
            batch_size=1,
            inner_max_num_threads=1,
        )
        results = pool(delayed(_in_worker)(os.getpid(), function, item) for item in items)
    progress(label, 0, len(items))
    try:
        for done, result in enumerate(results, start=1):
            progress(label, done, len(items))
            yield result
    except BrokenProcessPool as error:
        raise Tag2BoxError(why_it_died(str(error))) from error


def _in_worker(parent: int, function: Callable[[T], R], item: T) -> R:
    follow_parent(parent)
    # After a task loky would collect garbage (a tenth of a second here, as there are so many objects), or,
    # where psutil is installed, replace a worker that has grown since its first task by compiling a network.
    process_executor._MEMORY_LEAK_CHECK_DELAY = math.inf
    return function(item)
