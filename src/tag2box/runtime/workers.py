"""Worker processes on this machine: loky's, which joblib carries, used directly.

joblib would pickle the function anew for every item, and ask for results only every hundredth of a second.
Ours may carry a whole detector, and the map of a photo is made in two hundredths.
"""

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pickle import loads
from typing import Any, TypeVar

from joblib.externals.loky import get_reusable_executor, process_executor
from joblib.externals.loky.backend import resource_tracker
from joblib.externals.loky.backend.reduction import dumps
from joblib.externals.loky.backend.utils import kill_process_tree

from tag2box.runtime.processes import ONE_THREAD, SAFE, follow_parent, safe_children

T = TypeVar("T")
R = TypeVar("R")

# Items that are on their way for each worker, the one that it works on among them.
AHEAD = 4
# Seconds after which workers that have nothing to do end, as joblib has it.
IDLE = 300
# A function of more bytes is sent to a worker once, and named from then on.
LARGE = 1 << 14
# Bytes that a pipe may hold: a result that fits is sent at once, and its worker goes on.
PIPE = 1 << 20

_NUMBERS = count()
_MISSING = "tag2box: this worker was not given that function yet"
_held: dict[object, Callable[[Any], Any]] = {}  # in a worker: the functions that it was given last
_size = [0]  # the workers of the last pool


def in_workers(
    function: Callable[[T], R], items: Iterable[T], size: int, most: int | None = None
) -> Iterator[R]:
    """Yield `function(item)` of each of `items`, in order, from `size` processes.

    most: how many processes there may be; those of an earlier call are kept then, though there is no work
    for all of them now: starting one takes longer than most items.
    """
    pool = _pool(size, most or size)
    name, packed = (os.getpid(), next(_NUMBERS)), bytes(dumps(function))
    folder = _current_folder()

    def send(item: T, *, whole: bool) -> Future[Any]:
        content = packed if whole or len(packed) < LARGE else None
        task: Future[Any] = pool.submit(_call, name, content, folder, item)
        return task

    def receive(item: T, sent: Future[Any]) -> R:
        result = sent.result()
        if isinstance(result, str) and result == _MISSING:
            result = send(item, whole=True).result()
        received: R = result
        return received

    waiting: deque[tuple[T, Future[Any]]] = deque()
    try:
        for i, item in enumerate(items):
            waiting.append((item, send(item, whole=i < size)))
            if len(waiting) >= AHEAD * size:
                yield receive(*waiting.popleft())
        while waiting:
            yield receive(*waiting.popleft())
    except Exception:
        _cancel(waiting)
        raise
    except BaseException:  # Ctrl-C, or a caller that has had enough: nobody waits for what is under way
        _cancel(waiting)
        for worker in list(pool._processes.values()):
            kill_process_tree(worker)
        pool.shutdown()
        raise


def _current_folder() -> str | None:
    """The folder of relative paths, in which workers of an earlier call may not be; None if it is removed."""
    with suppress(FileNotFoundError):
        return os.getcwd()
    return None


def _cancel(waiting: Iterable[tuple[object, Future[Any]]]) -> None:
    for _, task in waiting:
        task.cancel()


def _pool(size: int, most: int) -> Any:
    """At least `size` and at most `most` worker processes, those of an earlier call where they are alive."""
    _size[0] = min(max(size, _size[0]), most)
    _start_trackers()
    pool = get_reusable_executor(
        _size[0], timeout=IDLE, initializer=_start, initargs=(os.getpid(),), env=ONE_THREAD | SAFE
    )
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError, AttributeError):  # the system allows less: then it takes a little longer
            fcntl.fcntl(pool._result_queue._reader.fileno(), fcntl.F_SETPIPE_SZ, PIPE)
    return pool


def _start_trackers() -> None:
    """The processes that tidy up behind workers, loky's and Python's, which take no environment of ours."""
    with safe_children():
        resource_tracker.ensure_running()
        if os.name == "posix":
            from multiprocessing import resource_tracker as pythons

            pythons.ensure_running()


def _start(parent: int) -> None:
    """In a worker, first of all."""
    follow_parent(parent)
    # After a task loky would collect garbage (a tenth of a second here, as there are so many objects), or,
    # where psutil is installed, replace a worker that has grown since its first task by compiling a network.
    process_executor._MEMORY_LEAK_CHECK_DELAY = math.inf


def _call(name: object, content: bytes | None, folder: str | None, item: Any) -> Any:
    """In a worker: call the function of that name, which is in `content` the first time."""
    if folder is not None:
        with suppress(OSError):  # removed meanwhile: what has its whole path is found all the same
            os.chdir(folder)
    if content is not None and name not in _held:
        while len(_held) > 1:  # two callers may take turns
            del _held[next(iter(_held))]
        _held[name] = loads(content)
    function = _held.get(name)
    return _MISSING if function is None else function(item)
