"""How processes start and end: what a child is given, why a worker died, a run that is told to stop.

A child of ours imports nothing from the folder that it is started in: people work in folders of data that
others made, and there a `json.py` is a file like any other. Python would run it in the place of its own.

What a run has finished is whole on the disk at any moment. So it may end at once, and goes on another time.
"""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache

# Python's word for: modules are not looked for in the current folder.
SAFE = {"PYTHONSAFEPATH": "1"}
# Libraries inside a worker are held to one thread each: workers must not fight for the cores.
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}

# What is likely behind a signal, and what to do about it.
CAUSES = {
    "SIGKILL": "the system ended it, most likely because memory ran out: use fewer workers",
    "SIGILL": "a library used an instruction that this processor does not have: set the environment variable "
    "ONEDNN_MAX_CPU_ISA=AVX2 and run again",
    "SIGBUS": "a file under it was cut short, or the disk is full: make room and run again",
    "SIGTERM": "somebody ended it: run again to go on",
}
CRASH = "a library crashed, and its traceback is above: run again to go on, with --workers 1 if it dies again"
UNKNOWN = "run again to go on, with fewer workers if memory ran out"
ENDED = "tag2box: ended by SIGTERM; what was finished is kept: the same command goes on from there\n"
# joblib's helper process tidies up behind one that has ended, and need not warn of it.
TIDYING = "ignore:resource_tracker"

# The value of the variable in SAFE before each `safe_children` that lasts.
_before: list[str | None] = []


def child_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every process that we start: this one's, `more`, and no modules of a stranger."""
    return os.environ | SAFE | dict(more or {})


@contextmanager
def safe_children() -> Iterator[None]:
    """While this lasts, processes that a library starts get it too, where it lets nobody say so.

    The program that we are a library of has its environment back afterwards.
    """
    ((name, value),) = SAFE.items()
    _before.append(os.environ.get(name))
    os.environ[name] = value
    try:
        yield
    finally:
        # Of several threads, the last to leave takes what the first has found.
        before = _before.pop()
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def why_it_died(message: str) -> str:
    """One line about a worker that died, out of joblib's message, which ends in such as {SIGKILL(-9)}."""
    names = set(re.findall(r"(SIG[A-Z0-9]+)\(-\d+\)", message))
    # When one has died, loky ends the others by SIGTERM or SIGKILL: another signal is the first cause.
    first = sorted(names - {"SIGTERM", "SIGKILL"}) or sorted(names & {"SIGKILL"}) or sorted(names)
    if not first:
        status = re.search(r"EXIT\((?!0\))(\d+)\)", message)
        return f"a worker process ended{f' with status {status[1]}' if status else ''}: {UNKNOWN}"
    return f"a worker process died of {first[0]}: {CAUSES.get(first[0], CRASH)}"


@cache
def follow_parent(parent: int) -> None:
    """In a worker: end with the process `parent`, however that ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """While this lasts, SIGTERM ends this process and its workers at once, with one line and status 143.

    A thread waits for it: Python's own handlers would wait for the main thread to leave a kernel.
    """
    if not _gets_signals():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    threading.Thread(target=_wait_for_sigterm, args=(receiver,), daemon=True).start()
    sys.warnoptions.append(TIDYING)
    try:
        with _sigterm(lambda *_: None, sender):
            yield
    finally:
        sys.warnoptions.remove(TIDYING)
        os.close(sender)  # the thread reads the end of the pipe, and ends


@contextmanager
def unwinds_on_sigterm() -> Iterator[None]:
    """While this lasts, SIGTERM is as Ctrl+C: a server has folders and processes to put away."""
    with _sigterm(_unwind, -1) if _gets_signals() else nullcontext():
        yield


def _gets_signals() -> bool:
    return sys.platform != "win32" and threading.current_thread() is threading.main_thread()


@contextmanager
def _sigterm(handler: Callable[..., None], sender: int) -> Iterator[None]:
    """What SIGTERM does; sender: where its number is written to as well."""
    before = signal.signal(signal.SIGTERM, handler), signal.set_wakeup_fd(sender)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before[1])
        signal.signal(signal.SIGTERM, before[0])


def _unwind(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    os.write(2, b"tag2box: ended by SIGTERM\n")
    raise SystemExit(128 + signal.SIGTERM)


def _wait_for_sigterm(receiver: int) -> None:
    while received := os.read(receiver, 1):
        if received[0] == signal.SIGTERM:
            _end()
    os.close(receiver)


def _end() -> None:
    """End this process and its workers; nothing here lets another thread speak in between."""
    try:
        cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides it
        os.write(2, f"{cursor}{ENDED}".encode())
        for worker in multiprocessing.active_children():
            if worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
    finally:
        os._exit(128 + signal.SIGTERM)
