"""The store's promises: whole or absent, killed or not, full disk or not."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests._toys import contents, events

from tag2box.cover.greedy import Cover
from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.arrays import write_array
from tag2box.runtime.files import append_line, locked
from tag2box.runtime.packing import pack, unpack
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, existing, stage_key
from tag2box.windows.search import Windows

KEY = stage_key("windows", 1, {"a": 1})


def some_windows(n=5):
    return Windows(np.arange(4 * n, dtype=np.float32).reshape(n, 4), np.array([0, 2, n]), np.full((2, 2), 99))


def test_records_of_records_come_back_the_same():
    empty = np.empty(0, np.int64)
    cover = Cover(empty, np.ones(2), empty, empty.astype(np.int32), empty, 1.5, 2.0, 3, "why")
    value = (
        cover,
        {"a b/ü": np.eye(2), "a_b/ü": np.ones(1)},
        [some_windows(), None, "text", True, np.float32(0.5)],
    )
    data, arrays = pack(value)
    again = unpack(json.loads(json.dumps(data)), arrays)
    assert again[0].message == "why"
    assert again[0].gains.tolist() == [1, 1]
    assert again[1]["a b/ü"].tolist() == [[1, 0], [0, 1]]
    assert again[1]["a_b/ü"].tolist() == [1]
    assert again[2][0].xyxy.dtype == np.float32
    assert again[2][1:] == (None, "text", True, 0.5)
    assert all("/" not in name and " " not in name for name in arrays)


@pytest.mark.parametrize("name", ["os:system", "tag2box.errors:InputError", "tag2box.windows.search:missing"])
def test_only_our_records_are_ever_made(name):
    with pytest.raises(Tag2BoxError, match="unknown record"):
        unpack({"record": name, "fields": {}}, {})


def test_a_key_depends_on_everything_it_is_made_of():
    keys = {
        stage_key(stage, version, config, *inputs)
        for stage in ("a", "b")
        for version in (1, 2)
        for config in ({"x": 1}, {"x": 2})
        for inputs in (("k",), ("k", "l"))
    }
    assert len(keys) == 16
    assert stage_key("a", 1, {"x": 1, "y": 2}) == stage_key("a", 1, {"y": 2.0, "x": 1})


def test_a_result_is_computed_once(tmp_path):
    run, calls = Runner(Store(tmp_path / "run")), []
    run.keys["windows"] = KEY
    for _ in range(2):
        found = run.result("windows", lambda: calls.append(1) or some_windows())
        assert found.xyxy.tolist() == some_windows().xyxy.tolist()
    assert len(calls) == 1
    assert [e["event"] for e in events(run.store.folder)] == ["started", "finished", "reused"]


def test_a_stage_that_fails_leaves_nothing(tmp_path):
    run = Runner(Store(tmp_path))
    run.keys["windows"] = KEY
    with pytest.raises(TypeError, match="cannot be stored"):
        run.result("windows", object)
    assert contents(tmp_path) == {}
    assert not run.store.has("windows", KEY)


def test_damage_is_one_line(tmp_path):
    store = Store(tmp_path)
    store.save("windows", KEY, some_windows())
    file = tmp_path / "windows" / KEY[:12] / "xyxy.npy"
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(Tag2BoxError, match=r"is damaged .*run the command that made it again"):
        store.load("windows", KEY)
    with pytest.raises(InputError, match="is no run folder"):
        existing(tmp_path)


def test_clean_keeps_what_is_named(tmp_path):
    store, other = Store(tmp_path), stage_key("windows", 2, {})
    store.save("windows", KEY, some_windows())
    store.save("windows", other, some_windows())
    store.shards("features", KEY).save(0, 1, some_windows())
    store.write("config.toml", "")
    removed = store.unused([("windows", KEY)])
    store.remove(removed)
    assert sorted(p.name for p in removed) == sorted([other[:12], f".{KEY[:12]}.part"])
    assert store.has("windows", KEY)
    assert (tmp_path / "config.toml").is_file()


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with Store(tmp_path).lock():
        code = f"from tag2box.runtime.store import Store\nwith Store({str(tmp_path)!r}).lock(): pass"
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another run is at work" in second.stderr
    with Store(tmp_path).lock():  # and free again
        pass


def test_a_killed_run_leaves_no_lock(tmp_path):
    code = f"""
import time
from tag2box.runtime.store import Store
with Store({str(tmp_path)!r}).lock():
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Tag2BoxError, match="another run"), locked(tmp_path / ".lock", "another run"):
            pass
        holder.send_signal(signal.SIGKILL)
    with Store(tmp_path).lock():
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks_is_worked_in_with_a_warning(tmp_path, monkeypatch, code):
    fcntl = pytest.importorskip("fcntl")

    def none_here(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", none_here)
    with (
        pytest.warns(UserWarning, match="without locks: see to it that only one run"),
        Store(tmp_path).lock(),
    ):
        pass


def test_a_line_that_was_cut_short_is_ended(tmp_path):
    file = tmp_path / "lines"
    append_line(file, "one")
    with file.open("ab") as torn:
        torn.write(b"tw")
    append_line(file, "three")
    assert file.read_text() == "one\ntw\nthree\n"


# A run of two sharded stages that notes every shard it computes, and is slow enough to be killed inside.
MADE_UP = """
import sys, time
import numpy as np
from tag2box.runtime import runner as runner_module
from tag2box.runtime.files import append_line
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, stage_key
from functools import partial
from pathlib import Path

folder, notes, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
runner_module.SHARD = 2
n = 30
offsets = np.arange(n + 1) * 50
store = Store(folder)

def windows(a, z, workers, progress):
    append_line(notes, f"windows {a}-{z} begun {store.shards('windows', w).has(a, z)}")
    time.sleep(pause)
    rng = np.random.default_rng(a)
    return {"xyxy": rng.random(((z - a) * 50, 4), np.float32), "text": str(a)}

def features(a, z, workers, progress):
    append_line(notes, f"features {a}-{z}")
    time.sleep(pause)
    return np.random.default_rng(a).random(((z - a) * 50, 64), np.float32)

def joined(parts):
    return {"xyxy": np.concatenate([p["xyxy"] for p in parts]), "texts": [p["text"] for p in parts]}

with store.lock():
    run = Runner(store, workers=1)
    w = stage_key("windows", 1, {})
    print("ready", flush=True)
    run.keys = {"windows": w, "features": stage_key("features", 1, {}, w)}
    run.in_shards("windows", n, lambda a, z: partial(windows, a, z), joined)
    run.in_rows("features", offsets, 64, "float16", lambda a, z: partial(features, a, z), lambda X: {"X": X})
"""


def made_up(folder, notes, pause=0.0, **how):
    return subprocess.Popen(
        [sys.executable, "-c", MADE_UP, str(folder), str(notes), str(pause)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
    )  # fmt: skip


def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path):
    with made_up(tmp_path / "whole", tmp_path / "notes") as whole:
        assert whole.wait() == 0
    rng, killed = random.Random(0), 0
    notes = tmp_path / "killed notes"
    for _ in range(12):
        with made_up(tmp_path / "killed", notes, 0.02) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.25))
            finished = process.poll() is not None
            process.kill()
        killed += not finished
        if finished:
            break
    with made_up(tmp_path / "killed", notes) as last:
        assert last.wait() == 0
    assert killed >= 3
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    # A shard is begun again only if the kill fell into it: fewer repeats than kills.
    begun = notes.read_text().splitlines()
    assert len(begun) - len(set(begun)) <= killed
    assert not any(line.endswith("True") for line in begun)


def test_rows_are_there_if_they_were_listed_to_the_end(tmp_path):
    rows = Store(tmp_path).rows("features", KEY, "X", (4, 2), "float32")
    rows.list_block(0, 1, rows.place(0, 1, 0, 2).write(np.ones((2, 2))))
    with rows.list.open("ab") as torn:
        torn.write(b"1-2 144 160 0")  # the line has no end: its data may be missing
    again = Store(tmp_path).rows("features", KEY, "X", (4, 2), "float32")
    assert again.has(0, 1)
    assert not again.has(1, 2)
    other = Store(tmp_path).rows(
        "features", KEY, "X", (5, 2), "float32"
    )  # another size: nothing of it is used
    assert not other.has(0, 1)


def limited(size):
    """No file may grow beyond `size` bytes: writes fail as on a full disk, in the kernel."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("size", [1000, 20_000, 100_000])
def test_no_room_is_one_line_and_a_whole_store(tmp_path, size):
    with made_up(tmp_path / "whole", tmp_path / "notes") as whole:
        assert whole.wait() == 0
    with made_up(tmp_path / "full", tmp_path / "notes", preexec_fn=limited(size)) as process:
        error = process.communicate()[1]
        assert process.returncode == 1
    last = error.strip().splitlines()[-1]
    assert last.startswith("tag2box.errors.Tag2BoxError: cannot write")
    assert "too large" in last  # EFBIG here; ENOSPC says "No space left on device"
    with made_up(tmp_path / "full", tmp_path / "notes") as again:
        assert again.wait() == 0
    assert contents(tmp_path / "full") == contents(tmp_path / "whole")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for use in (
        lambda store: store.lock().__enter__(),
        lambda store: store.save("windows", KEY, some_windows()),
        lambda store: store.rows("features", KEY, "X", (1, 1), "float32"),
        lambda store: store.log({}),
    ):
        with pytest.raises(Tag2BoxError, match="cannot write"):
            use(Store(tmp_path / "file" / "run"))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "make room or choose another folder"),
        (errno.EROFS, "that folder cannot be written: choose another, or copy the run"),
        (errno.EACCES, "that folder cannot be written"),
    ],
)
def test_what_to_do_depends_on_why_it_was_refused(tmp_path, monkeypatch, code, says):
    def refused(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(Tag2BoxError, match=f"{os.strerror(code)}; .*: {says}"):
        Store(tmp_path / "run").log({})


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="Windows makes links for nobody but administrators")
def test_links_in_a_run_folder_are_not_written_through(tmp_path):
    """A run folder of others may name any file of ours."""
    precious, run = tmp_path / "precious", Store(tmp_path / "run")
    precious.write_text("mine")
    rows = run.rows("features", KEY, "X", (2, 1), "float32")
    for link in (run.folder / "events.jsonl", rows.folder / "classes.npy", run.folder / "settings.toml"):
        link.symlink_to(precious)
    with pytest.raises(Tag2BoxError, match=r"events.jsonl: .*it is a link to a file elsewhere.*: remove it"):
        run.log({"stage": "windows"})
    with pytest.raises(OSError, match="symbolic link"):
        write_array(rows.folder / "classes.npy", np.zeros(3))
    run.write("settings.toml", "ours")
    assert precious.read_text() == "mine"
    assert (run.folder / "settings.toml").read_text() == "ours"
    rows.file.unlink()
    rows.file.symlink_to(precious)
    with pytest.raises(Tag2BoxError, match="it is a link to a file elsewhere"):
        rows.place(0, 1, 0, 1).write(np.zeros((1, 1), np.float32))
    assert precious.read_text() == "mine"


def test_disk_full_while_allocating(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Tag2BoxError, match="No space left on device; what was finished before is whole"):
        Store(tmp_path).rows("features", KEY, "X", (10, 2), "float32")
    monkeypatch.undo()
    rows = Store(tmp_path).rows("features", KEY, "X", (10, 2), "float32")
    assert rows.file.stat().st_size == len(rows.header) + 10 * 2 * 4
