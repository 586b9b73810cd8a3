"""However a process ends, its workers end too, one line says why, and the run goes on another time."""

import gc
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
from tests._toys import FAST, make_toys

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime import workers as workers_module
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.processes import ENDED, why_it_died

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no signals")


def square(x):
    return x * x


def end_by(name):
    os.kill(os.getpid(), getattr(signal, name))


def collections_after(seconds):
    time.sleep(seconds)
    return os.getpid(), gc.get_stats()[2]["collections"]


def test_workers_do_not_spend_their_time_on_garbage():
    """loky would collect all of it after every task that ends a second after the last collection."""
    seen = list(map_ordered(collections_after, [0.0] * 4 + [1.1] * 4, workers=2))
    slow = seen[4:]
    assert len(set(slow)) == len({pid for pid, _ in slow})  # in each worker the same count


class Heavy:
    """A function that is expensive to send, and counts how often that is done."""

    sent = 0

    def __reduce__(self):
        Heavy.sent += 1
        return _heavy, (bytes(2 * workers_module.LARGE),)

    def __call__(self, x):
        return x * x


def _heavy(_):
    return Heavy()


def test_a_function_is_pickled_once_for_all_items():
    Heavy.sent = 0
    assert list(map_ordered(Heavy(), range(20), workers=2)) == [x * x for x in range(20)]
    assert Heavy.sent == 1


class Forgetful:
    """A pool whose workers are replaced now and then by some that were given nothing yet."""

    submitted = 0

    def submit(self, function, *arguments):
        Forgetful.submitted += 1
        if Forgetful.submitted % 3 == 0:
            workers_module._held.clear()
        done = Future()
        done.set_result(function(*arguments))
        return done


def test_a_worker_that_lacks_the_function_is_given_it(monkeypatch):
    monkeypatch.setattr(workers_module, "_pool", lambda *_: Forgetful())
    assert list(map_ordered(Heavy(), range(40), workers=2)) == [x * x for x in range(40)]
    assert Forgetful.submitted > 40
    workers_module._held.clear()


def where(_):
    time.sleep(0.05)
    return os.getpid()


def test_workers_are_kept_when_there_is_little_to_do():
    first = set(map_ordered(where, range(12), workers=3))
    list(map_ordered(where, range(2), workers=3))
    assert first & set(map_ordered(where, range(12), workers=3)) == first


def test_relative_paths_are_found_after_the_program_went_elsewhere(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        assert list(map_ordered(Path.read_text, [Path("file")] * 8, workers=2)) == [name] * 8
    (tmp_path / "b/file").unlink()
    (tmp_path / "b").rmdir()
    assert list(map_ordered(square, range(8), workers=2)) == [x * x for x in range(8)]


def refuse_seven(x):
    if x == 7:
        raise InputError("seven is not read")
    return x


def test_an_error_is_raised_as_it_is_and_workers_go_on_afterwards():
    with pytest.raises(InputError, match="seven is not read"):
        list(map_ordered(refuse_seven, range(20), workers=2))
    stopped = map_ordered(time.sleep, [0.0, *[30.0] * 9], workers=2)
    next(stopped)
    stopped.close()  # at once: what is under way is given up
    assert list(map_ordered(square, range(4), workers=2)) == [0, 1, 4, 9]


@posix
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SIGKILL", "memory ran out: use fewer workers"),
        ("SIGILL", "ONEDNN_MAX_CPU_ISA=AVX2 and run again"),
        ("SIGSEGV", "a library crashed"),
    ],
)
def test_a_worker_that_dies_is_named_with_its_signal_and_what_to_do(name, says):
    with pytest.raises(Tag2BoxError, match=f"^a worker process died of {name}: .*{says}"):
        list(map_ordered(end_by, [name] * 4, workers=2))
    assert list(map_ordered(square, range(4), workers=2)) == [0, 1, 4, 9]


@pytest.mark.parametrize(
    ("codes", "line"),
    [
        ("{SIGTERM(-15), SIGILL(-4), SIGKILL(-9)}", "died of SIGILL"),
        ("{SIGTERM(-15), SIGKILL(-9)}", "died of SIGKILL"),
        ("{SIGTERM(-15)}", "died of SIGTERM: somebody ended it"),
        ("{SIGFPE(-8)}", "died of SIGFPE: a library crashed"),
        ("{EXIT(0), EXIT(3)}", "ended with status 3: run again"),
        ("", "ended: run again"),
    ],
)
def test_the_first_cause_is_named(codes, line):
    assert why_it_died(f"A worker was terminated.\nThe exit codes of the workers are {codes}").startswith(
        f"a worker process {line}"
    )


def workers_of(process):
    """The worker processes of `process` that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z" and b"loky" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
    return [pid for pid in found if b"tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what, seconds=60):
    """Wait until `what()`, and return it."""
    end = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return answer


def started(command):
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


linux = pytest.mark.skipif(
    not Path("/proc/self/stat").is_file(), reason="only Linux shows processes as files"
)


@linux
def test_sigterm_ends_a_run_and_its_workers_at_once_and_it_goes_on(tmp_path):
    from tag2box.run.folder import RunFolder  # workers import this file too: the rest of it is light

    make_toys(tmp_path / "toys")
    sets = [word for setting in FAST for word in ("--set", setting)]
    command = [sys.executable, "-m", "tag2box", "run", str(tmp_path / "toys"), "--workers", "2", *sets]
    command += ["--tags", str(tmp_path / "toys" / "tags.csv"), "--out", str(tmp_path / "run")]
    with started(command) as process:
        until((tmp_path / "run" / "events.jsonl").is_file)
        workers = until(lambda: workers_of(process.pid))
        process.terminate()
        said = process.communicate(timeout=20)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert [line for line in said.splitlines() if "/12" not in line] == [ENDED.strip()]
    until(lambda: not any(map(alive, workers)), seconds=0.5)
    assert not (tmp_path / "run" / "detector.npz").exists()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert RunFolder(tmp_path / "run").detector.classes == ("thing",)


ORPHANS = """
import time
from tag2box.runtime.executor import map_ordered
list(map_ordered(time.sleep, [0.01] * 4 + [100] * 4, workers=2))
"""


@linux
def test_workers_end_when_their_parent_is_killed():
    with started([sys.executable, "-c", ORPHANS]) as process:
        workers = until(lambda: len(found := workers_of(process.pid)) == 2 and found)
        time.sleep(1)  # until they are at work
        process.kill()
    until(lambda: not any(map(alive, workers)), seconds=10)
