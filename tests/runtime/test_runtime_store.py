"""The store's promises: whole or absent, killed or not, full disk or not."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests._toys import events

from tag2box.cover.greedy import Cover
from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.files import append_line, locked
from tag2box.runtime.keys import call_key
from tag2box.runtime.packing import pack, unpack
from tag2box.runtime.stages import Run, stage
from tag2box.runtime.store import Store, existing
from tag2box.windows.record import Windows

KEY = call_key("windows", 1, [{"a": 1}])


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


@stage("windows", version=1)
def find_windows(n: int) -> Windows:
    CALLS.append(n)
    return some_windows(n)


CALLS: list[int] = []


def test_a_result_is_computed_once(tmp_path):
    run = Run(Store(tmp_path / "run"))
    CALLS.clear()
    for _ in range(2):
        assert run(find_windows, 5).xyxy.tolist() == some_windows().xyxy.tolist()
    assert CALLS == [5]
    assert [e["event"] for e in events(run.store.folder)] == ["started", "finished", "reused"]


@stage("windows", version=1)
def make_nothing_storable() -> object:
    return object()


def test_a_stage_that_fails_leaves_nothing(tmp_path):
    run = Run(Store(tmp_path))
    with pytest.raises(TypeError, match="cannot be stored"):
        run(make_nothing_storable)
    assert not list(tmp_path.glob("windows/*"))
    assert not run.store.has("windows", run.keys["windows"])


def test_damage_is_one_line(tmp_path):
    store = Store(tmp_path)
    store.save("windows", KEY, some_windows())
    file = tmp_path / "windows" / KEY[:12] / "xyxy.npy"
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(Tag2BoxError, match=r"is damaged .*run the command that made it again"):
        store.load("windows", KEY)
    with pytest.raises(InputError, match="is no run folder"):
        existing(tmp_path)


def test_who_gives_no_run_is_told_of_those_that_are_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="make one with `tag2box run DATA`, which says where"):
        existing("photos")
    for name in "abcd":
        Store(f"runs/{name}").write("config.toml", "")
    with pytest.raises(InputError) as error:
        existing("photos")
    runs = ", ".join(str(Path("runs", name)) for name in "abc")
    assert f"photos is no run folder: give one ({runs}, ...)" in str(error.value)


def test_clean_keeps_what_is_named(tmp_path):
    store, other = Store(tmp_path), call_key("windows", 2, [])
    store.save("windows", KEY, some_windows())
    store.save("windows", other, some_windows())
    for kind in ("described-1", "described-2"):
        photos = store.photos(kind)
        photos.add("ab", {"X": np.ones((2, 2))})
        photos.close()
    store.write("config.toml", "")
    removed = store.unused([("windows", KEY)], ["described-2"])
    store.remove(removed)
    assert sorted(p.name for p in removed) == sorted([other[:12], "described-1"])
    assert "ab" in store.photos("described-2")
    assert "ab" not in store.photos("described-1")
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


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for use in (
        lambda store: store.lock().__enter__(),
        lambda store: store.save("windows", KEY, some_windows()),
        lambda store: store.photos("described").add("ab", {"X": np.zeros((1, 1))}),
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
    store = run.photos("described")
    (run.folder / "arrays/described").mkdir(parents=True)
    for link in ("events.jsonl", "index.sqlite", "settings.toml", "arrays/described/X.bin"):
        (run.folder / link).symlink_to(precious)
    with pytest.raises(Tag2BoxError, match=r"events.jsonl is a symbolic link, and is not followed"):
        run.log({"stage": "windows"})
    with pytest.raises(Tag2BoxError, match=r"index.sqlite is a symbolic link"), run.index.writing():
        pass
    with pytest.raises(Tag2BoxError, match="cannot write"):
        store.add("ab", {"X": np.zeros((1, 1), np.float32)})
    run.write("settings.toml", "ours")
    assert precious.read_text() == "mine"
