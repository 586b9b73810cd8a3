"""Work on a Dask cluster: the same bytes, whoever dies; one line where it cannot be."""

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests._toys import FAST, contents, events, make_toys

from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.errors import InputError, Tag2BoxError
from tag2box.run.fitting import fit_run
from tag2box.runtime import stages
from tag2box.runtime.cluster import Cluster, using
from tag2box.runtime.config import read_settings
from tag2box.runtime.executor import map_ordered, on_cluster
from tag2box.runtime.references import from_bytes, to_bytes

distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")

# Dask's own threads and sockets close when they like.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        distributed.Client(workers) as found,
    ):
        yield found


@pytest.fixture
def cluster(client, tmp_path):
    return Cluster(client, tmp_path)


@pytest.fixture(autouse=True)
def no_client_is_left():
    """One that nobody answered closes when it is collected: while another starts, both wait for ever."""
    yield
    gc.collect()


def square(x):
    return x * x


def test_results_come_in_order(cluster):
    with on_cluster(cluster):
        shown = []
        found = list(map_ordered(square, range(70), progress=lambda *each: shown.append(each), label="x"))
    assert found == [x * x for x in range(70)]
    assert shown[-1] == ("x", 70, 70)


def fail(x):
    raise InputError(f"{x} is wrong")


def test_an_error_of_a_task_is_that_of_the_caller(cluster):
    with on_cluster(cluster), pytest.raises(InputError, match="3 is wrong"):
        list(map_ordered(fail, [3, 4]))


def die_once(folder, x):
    mark = folder / f"{x}"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_worker_that_is_killed_costs_only_its_task(cluster, tmp_path):
    tasks = [partial(die_once, tmp_path, x) if x == 2 else partial(square, x) for x in range(5)]
    assert list(cluster.run(tasks)) == [0, 1, 2, 9, 16]


def test_large_arrays_go_by_their_files(tmp_path):
    big = np.arange(100_000, dtype=np.float32).reshape(-1, 10)
    np.save(tmp_path / "mapped.npy", big)
    mapped = np.load(tmp_path / "mapped.npy", mmap_mode="r")
    for array in (big, big.T, mapped, mapped[200:9000], mapped[::2], mapped[3:7]):
        content = to_bytes({"a": array}, tmp_path / "folder")
        assert len(content) < 1000
        np.testing.assert_array_equal(from_bytes(content)["a"], array)
    assert len(list((tmp_path / "folder").iterdir())) == 3  # the parts of a file are not written again


def test_paths_are_absolute(tmp_path):
    assert from_bytes(to_bytes(Path("photo.jpg"), tmp_path)) == Path.cwd() / "photo.jpg"


def test_a_worker_that_does_not_see_the_folder_is_one_line(cluster, monkeypatch):
    monkeypatch.setattr(cluster, "folder", Path("/proc/nobody"))
    monkeypatch.setattr("tag2box.runtime.cluster.write_whole", lambda *_: None)
    with pytest.raises(InputError, match="must be on a file system that all machines share"):
        cluster.check()


@pytest.mark.parametrize("wrong", ["local:0", "local:x", "host", "tcp://127.0.0.1:1", "tls://127.0.0.1:1"])
def test_bad_addresses_are_one_line(wrong, tmp_path, monkeypatch):
    monkeypatch.setattr("tag2box.runtime.cluster.PATIENCE", 1)
    with (
        pytest.raises(InputError, match=r"cluster takes an address|no Dask scheduler answers"),
        using(wrong, tmp_path),
    ):
        pass


def listening_at(pids):
    """Addresses at which these processes listen, by what Linux says."""
    open_files = set()
    for link in (link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):  # it was closed in the meantime
            open_files.add(os.readlink(link))
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    rows = [line.split() for line in lines]
    return {tuple(row[1].split(":")) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in open_files}


def is_let_in(address, **security):
    try:
        with distributed.Client(address, timeout=3, **security):
            return True
    except Exception:  # Dask has many words for it
        return False
    finally:
        gc.collect()  # before the next one starts, as in `no_client_is_left`


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux who listens where")
def test_a_cluster_here_takes_orders_from_its_owner_alone(tmp_path):
    """Nobody without its certificate is let in, at any port; there are no pages, and no other address."""
    before = listening_at([os.getpid()])
    with using("local:1", tmp_path):
        client = distributed.default_client()
        places = listening_at([os.getpid(), *client.run(os.getpid).values()]) - before
        assert len(places) > 3
        assert {host for host, _ in places} == {"0100007F"}  # 127.0.0.1
        strangers = ({}, {"security": distributed.Security.temporary()})
        addresses = [client.scheduler.address, *client.scheduler_info()["workers"]]
        assert all(address.startswith("tls://") for address in addresses)
        for address in (*addresses, addresses[0].replace("tls", "tcp")):
            assert not any(is_let_in(address, **more) for more in strangers)
        pages = [client.cluster.scheduler.http_server.port]
        pages += [worker["services"]["dashboard"] for worker in client.scheduler_info()["workers"].values()]
        for port in pages:
            for page in ("status", "info/main/workers.html", "metrics", "health", "json/counts.json"):
                assert httpx.get(f"http://127.0.0.1:{port}/{page}").status_code == 404


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    return read_images(folder, make_toys(folder, n=10))


# As the paper learns: neighbors, cover, SVM and refinement.
PAPER = (*FAST, "method=song2014")


def learned(toys, folder, settings=FAST, cluster=None):
    with using(cluster, folder):
        fit_run(toys, read_settings(Config(), None, settings), folder, workers=1)
    return contents(folder)


def small_parts(patch):
    """Work comes in parts of few photos, so that there are several."""
    patch.setattr(stages, "SHARD", 3)
    patch.setattr("tag2box.training.two_stream.SMALL", 3)
    patch.setattr("tag2box.training.known.SMALL", 3)
    patch.setattr("tag2box.training.initial.BLOCK", 32)
    patch.setattr("tag2box.neighbors.search.BLOCK", 16)


@pytest.fixture(scope="module")
def alone(toys, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        small_parts(patch)
        return learned(toys, tmp_path_factory.mktemp("alone"))


def test_a_run_on_a_cluster_has_the_same_bytes(client, toys, alone, tmp_path, monkeypatch):
    small_parts(monkeypatch)
    assert learned(toys, tmp_path, cluster=client) == alone


def test_so_has_the_papers_chain(client, toys, tmp_path, monkeypatch):
    small_parts(monkeypatch)
    there = learned(toys, tmp_path / "there", PAPER, client)
    assert there == learned(toys, tmp_path / "here", PAPER)


@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.torture)]
)
def test_workers_killed_at_any_moment_change_nothing(client, toys, alone, tmp_path, monkeypatch, kills):
    small_parts(monkeypatch)
    rng, killed = np.random.default_rng(kills), []

    def kill(label, done, total):
        if len(killed) < kills and rng.random() < 0.25:
            time.sleep(rng.random() / 10)
            pids = []
            while not pids:  # those that were killed come again
                time.sleep(0.1)
                with suppress(OSError):  # a connection that one of them has closed
                    pids = list(client.run(os.getpid, on_error="ignore").values())
            killed.append(pids[rng.integers(len(pids))])
            os.kill(killed[-1], signal.SIGKILL)

    with using(client, tmp_path):
        fit_run(toys, read_settings(Config(), None, FAST), tmp_path, workers=1, progress=kill)
    assert len(killed) == kills
    assert contents(tmp_path) == alone


def _hear_ctrl_c():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts in the background is deaf to it


@pytest.mark.torture
def test_ctrl_c_is_one_line_and_the_run_goes_on(toys, alone, tmp_path, monkeypatch):
    small_parts(monkeypatch)
    photos, out = toys.paths[0].parent, tmp_path / "run"
    settings = [word for each in FAST for word in ("--set", each)]
    command = [
        sys.executable,
        "-m",
        "tag2box",
        "run",
        photos,
        "--out",
        out,
        "--cluster",
        "local:1",
        *settings,
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    how["preexec_fn"] = _hear_ctrl_c
    with subprocess.Popen(command, start_new_session=True, **how) as process:
        while not (out / "described").exists() and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of them hear it
        error = process.communicate()[1]
    assert process.returncode == 130
    assert "Traceback" not in error
    assert learned(toys, out)["detector.npz"] == alone["detector.npz"]


SCHEDULER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_a_lost_scheduler_is_one_line_and_the_run_goes_on_without(toys, alone, tmp_path, monkeypatch):
    small_parts(monkeypatch)
    script = tmp_path / "scheduler.py"
    script.write_text(SCHEDULER)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    address, folder, done = process.stdout.readline().strip(), tmp_path / "run", []

    def kill(label, n, total):
        if label == "described" and n >= 3 and process.poll() is None:
            process.kill()
            process.wait()
        done.append(label)

    settings = read_settings(Config(), None, FAST)
    monkeypatch.setitem(dask.config.config["distributed"]["comm"]["timeouts"], "connect", "2s")
    with pytest.raises(Tag2BoxError, match="with a cluster or without"), using(address, folder):
        fit_run(toys, settings, folder, workers=1, progress=kill)
    assert "competition" not in done
    assert learned(toys, folder) == alone
    kept = [event for event in events(folder) if event.get("shards_reused") and event["stage"] == "described"]
    assert kept
    process.stdin.close()
    process.stdout.close()
