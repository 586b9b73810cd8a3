"""Work on many machines, by Dask: `Cluster` runs tasks on the workers of a scheduler.

A task is a call of one of our functions. It reads photos and writes its part of a result itself, into the run
folder, which all machines must see under the same name. A worker that dies has its tasks run elsewhere. What
is finished when the scheduler is lost is in the run folder: any later run goes on from there.
"""

import logging
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from numpy.typing import NDArray

from tag2box._version import __version__
from tag2box.errors import InputError, Tag2BoxError, install_command
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import on_cluster
from tag2box.runtime.files import write_whole
from tag2box.runtime.processes import safe_children
from tag2box.runtime.references import from_bytes, shared, to_bytes

R = TypeVar("R")

INSTALL = f"--cluster needs Dask: {install_command('dask')}"
# Seconds within which a scheduler answers, or is taken for lost.
PATIENCE = 20
# Tasks that wait at a worker beside the one that it works on; and how often one is tried that died with it.
WAITING, TRIES = 2, 5
# Pages about the cluster, which a run does not need: every user of the machine could read them.
NO_PAGES: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
# A network that is loaded serves one caller at a time.
_ALONE = threading.Lock()


class Cluster:
    """The workers of a Dask client. folder: where both sides exchange files, below the run folder."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client, self.folder = client, folder.absolute() / ".cluster"

    @property
    def size(self) -> int:
        """How many workers there are now, at least one."""
        return max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)

    def run(self, tasks: Iterable[Callable[[], R]]) -> Iterator[R]:
        """What each of the tasks returns, in their order; only a few of them wait at a time."""
        waiting: deque[Any] = deque()
        try:
            with self._reachable():
                for task in tasks:
                    waiting.append(self._submit(task))
                    if len(waiting) >= (1 + WAITING) * self.size:
                        yield self._result(waiting.popleft())
                while waiting:
                    yield self._result(waiting.popleft())
        finally:  # also when the caller has had enough, or was interrupted
            if waiting:
                with suppress(Exception):
                    self.client.cancel(list(waiting))

    def shared(self, array: NDArray[Any]) -> NDArray[Any]:
        """The same array, mapped from a file that workers see: for what many tasks need."""
        return shared(array, self.folder)

    def _submit(self, task: Callable[[], Any]) -> Any:
        content = to_bytes(task, self.folder)
        return self.client.submit(_call, content, str(self.folder), pure=False, retries=TRIES)

    def _result(self, future: Any) -> Any:
        """What a task returned; its large arrays come by files, which are read and removed."""
        name, content = future.result()
        result = from_bytes(content)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return result

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Say in one line what it means when the scheduler is gone, or a task kills every worker it gets."""
        from distributed import KilledWorker

        try:
            yield
        except KilledWorker as error:
            raise Tag2BoxError(
                f"a task ended {TRIES} workers of the cluster, most likely because memory ran out ({error}): "
                "give them more memory, or start fewer on each machine"
            ) from error
        except (CancelledError, OSError, TimeoutError) as error:
            if self.client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise Tag2BoxError(
                "the scheduler of the cluster is gone; what was finished is kept: the same command goes on "
                "from there, with a cluster or without"
            ) from error

    def check(self) -> None:
        """Refuse a cluster whose workers do not see the run folder, or have another version."""
        with self._reachable():
            self.client.wait_for_workers(1, timeout=PATIENCE)
            write_whole(self.folder / "probe", "of the run\n")
            answers = self.client.run(_probe, str(self.folder))
        for worker, (version, fault) in answers.items():
            if version != __version__:
                raise InputError(
                    f"worker {worker} has tag2box {version}, here is {__version__}: install the same"
                )
            arrived = (self.folder / f"probe-{_safe(worker)}").is_file()
            if fault or not arrived:
                raise InputError(
                    f"worker {worker}: {fault or f'what it writes to {self.folder} does not arrive here'}; "
                    "the run folder and the photos must be on a file system that all machines share, under "
                    "the same name"
                )


def _call(content: bytes, folder: str) -> tuple[str, bytes]:
    """On a worker: what the task returns, and the name of the folder that its large arrays are in."""
    with _ALONE, one_thread():
        result = from_bytes(content)()
    name = uuid4().hex
    return name, to_bytes(result, Path(folder) / name)


def _probe(folder: str, dask_worker: Any = None) -> tuple[str, str]:
    """On a worker: its version of tag2box, and what it cannot do."""
    place = Path(folder)
    try:
        (place / "probe").read_bytes()
        write_whole(place / f"probe-{_safe(dask_worker.address)}", "of a worker\n")
    except (OSError, Tag2BoxError) as error:
        return __version__, f"cannot use {folder} ({error})"
    return __version__, ""


def _safe(address: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in address)


@contextmanager
def using(where: Any, folder: str | Path) -> Iterator[None]:
    """While this lasts, work is spread over a cluster, for a run in `folder`.

    where: the address of a scheduler, "tcp://host:8786"; "local:4", workers on this machine; a Dask client;
    or None for no cluster.
    """
    if where is None:
        yield
        return
    with _client(where) as client:
        cluster = Cluster(client, Path(folder))
        try:
            cluster.check()
            with on_cluster(cluster):
                yield
        finally:
            shutil.rmtree(cluster.folder, ignore_errors=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C: whoever started them does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _local_workers(n: int) -> Iterator[Any]:
    """`n` Dask workers on this machine, which obey this process alone.

    A scheduler does whatever those tell it who can connect, and every user of a machine can connect to its
    ports. So both sides show a certificate that is made for this cluster alone, and kept nowhere.
    """
    try:
        import dask
        from distributed import LocalCluster, Security

        security = Security.temporary()
    except ImportError:
        raise InputError(INSTALL) from None
    with TemporaryDirectory(prefix="tag2box-") as scratch, safe_children():
        with _without_interrupts(), dask.config.set(NO_PAGES):
            workers = LocalCluster(
                n_workers=n,
                threads_per_worker=1,
                security=security,
                dashboard_address=None,
                # Even without pages there is a server for them: on any free port, for a second cluster here.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                local_directory=scratch,
                silence_logs=logging.ERROR,
            )
        with workers:
            yield workers


@contextmanager
def _client(where: Any) -> Iterator[Any]:
    if not isinstance(where, str):
        yield where
        return
    try:
        from distributed import Client
    except ImportError:
        raise InputError(INSTALL) from None
    kind, _, rest = where.partition(":")
    if kind == "local" and rest.isdecimal() and int(rest) > 0:
        with _local_workers(int(rest)) as workers, Client(workers) as client:
            yield client
        return
    if "://" not in where:
        raise InputError(
            f"--cluster takes an address such as tcp://host:8786, or local:4, but it is {where!r}"
        )
    try:
        client = Client(where, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:  # the last: tls:// without certificates
        raise InputError(f"no Dask scheduler answers at {where}: {error}") from error
    with client:
        yield client
