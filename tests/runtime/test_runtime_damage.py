"""Files of a run folder that something has damaged: noticed, said in one line, computed again."""

import json
import os
import shutil
import zipfile

import numpy as np
import pytest
from tests import _stages
from tests._stages import Items, run_stages
from tests._toys import contents, events

from tag2box.errors import Tag2BoxError
from tag2box.runtime import parts, stages
from tag2box.runtime.arrays import npy_header, npz_bytes, read_array, read_npz, sealed, write_array
from tag2box.runtime.files import MACHINE, to_json, write_whole
from tag2box.runtime.keys import call_key
from tag2box.runtime.parts import DamagedError
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

STAGES = ("fitted", "windows", "described")
ITEMS = Items((3, 0, 4, 5))
SAMPLED = [f"sample {i}" for i in range(3)]


class Work:
    """Three small stages of the three kinds, in shards of one item, and what was computed of them."""

    def __init__(self, folder):
        self.store, self.computed, self.last = Store(folder), [], None
        self.keys = {}

    def __call__(self, items=ITEMS):
        self.computed.clear()
        run = Run(self.store, workers=1)
        try:
            return run_stages(run, items)
        finally:
            self.keys = run.keys

    def watch(self, what):
        stage, _, first = what.partition(" ")
        if self.last and stage == self.last[0] and int(first.split()[0]) > self.last[1]:
            raise KeyboardInterrupt
        self.computed.append(what)

    def stop(self, stage, after):
        """Stop behind item `after` of a stage."""
        self.last = stage, after
        with pytest.raises(KeyboardInterrupt):
            self()
        self.last = None

    def home(self, stage, state=""):
        key = self.keys[stage][:12]
        return self.store.folder / stage / (f".{key}{state}" if state else key)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "SHARD", 1)
    made = Work(tmp_path / "run")
    monkeypatch.setattr(_stages, "watch", made.watch)
    return made


def of_result(home):
    """The files of a result, but for the parts that it was made of: those are read only to repair it."""
    return [path for path in sorted(home.iterdir()) if path.suffix != ".npz"]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("stage", STAGES)
def test_any_flipped_byte_is_noticed_and_the_result_made_again(work, stage):
    work()
    whole = contents(work.store.folder)
    for path in of_result(work.home(stage)):
        for at in np.linspace(0, path.stat().st_size - 1, 12).astype(int):
            flip(path, at)
            with pytest.raises(DamagedError, match=r"is damaged .* run the command that made it again"):
                work.store.load(stage, work.keys[stage])
            work()
            made = {name.partition(" ")[0] for name in work.computed}
            assert made <= ({stage, "sample"} if stage == "fitted" else {stage})
            assert contents(work.store.folder) == whole, (path.name, at)


@pytest.mark.parametrize("maps", [True, False])
def test_of_a_large_array_only_the_damaged_rows_are_made_again(work, maps):
    items = Items(ITEMS.counts, maps=maps)
    work(items)
    whole = contents(work.store.folder)
    X = work.home("described") / "X.npy"
    flip(X, X.stat().st_size - 6 * 4 * 2)  # six windows from the end: in the middle of item 2
    work(items)
    assert work.computed == ["described 2"]
    flip(work.home("described") / "record.json", 20)
    work(items)
    assert work.computed == []
    flip(work.home("described") / "windows.xyxy.npy", -1)
    work(items)
    assert work.computed == []
    assert contents(work.store.folder) == whole
    assert [e["event"] for e in events(work.store.folder)].count("damaged") == 3


def test_a_damaged_part_costs_nothing_until_it_is_needed(work):
    work()
    whole = contents(work.store.folder)
    flip(work.home("described") / "000002-000003.npz", 300)
    work()
    assert work.computed == []
    flip(work.home("described") / "X.npy", -1)  # item 3
    work()
    assert work.computed == ["described 2", "described 3"]
    assert contents(work.store.folder) == whole


@pytest.mark.parametrize("how", ["empty", "cut", "missing", "text"])
def test_files_that_are_no_longer_what_they_were(work, how):
    work()
    whole = contents(work.store.folder)
    for stage in STAGES:
        for path in of_result(work.home(stage)):
            if how == "missing":
                path.unlink()
            else:
                path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-3], "text": b"\xff[" * 9999}[how])
            work()
            assert contents(work.store.folder) == whole, path


def test_lines_cut_from_the_list_of_blocks_cost_their_blocks(work):
    work()
    whole = contents(work.store.folder)
    lists = work.home("described") / "X.blocks"
    lines = lists.read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        lists.write_text("".join(lines[:kept]) + lines[kept][:-9])
        work()
        # Without the header nobody knows what the bytes are.
        assert work.computed == [f"described {i}" for i in range(max(kept - 1, 0), 4)]
        assert contents(work.store.folder) == whole


@pytest.mark.parametrize("content", ["[]", "{}", "7", "[" * 100_000, '{"crc": 1}'])
def test_a_record_that_is_other_json_is_damaged(work, content):
    work()
    (work.home("fitted") / "record.json").write_text(content)
    with pytest.raises(DamagedError):
        work.store.load("fitted", work.keys["fitted"])
    work()
    assert work.computed == [*SAMPLED, "fitted"]


def test_a_damaged_shard_of_a_stopped_stage_is_made_again(work):
    work.stop("windows", 2)
    part = work.home("windows", ".part")
    flip(part / "000001-000002.npz", 90)
    (part / "000000-000001.npz").write_bytes(b"")
    work()
    assert [name for name in work.computed if "windows" in name] == ["windows 0", "windows 1", "windows 3"]


def test_damaged_rows_of_a_stopped_stage_are_made_again(work):
    work.stop("described", 2)
    part = work.home("described", ".part")
    flip(part / "X.npy", 130)
    with (part / "X.blocks").open("ab") as file:
        file.write(b"\xff\xfe not a line\n3-4 " + b"9" * 5000 + b" 1 00000000\n")
    work()
    assert work.computed == ["described 0 by the sample", "described 3 by the sample"]


@pytest.mark.parametrize("maps", [True, False])
def test_a_stopped_stage_goes_on_behind_its_last_shard(work, maps):
    items = Items(ITEMS.counts, maps=maps)
    work.last = "described", 1
    with pytest.raises(KeyboardInterrupt):
        work(items)
    work.last = None
    work(items)
    assert work.computed == ["described 2 by the sample", "described 3 by the sample"]


class Killed(BaseException):
    """Nothing behind it is done, as when a process is killed."""


def writes(monkeypatch, last):
    """Let the functions by which a run changes its folder be called `last` times, and then no more."""
    count = [0]

    def counted(function):
        def call(*args, **kwargs):
            count[0] += 1
            if count[0] > last:
                raise Killed
            return function(*args, **kwargs)

        return call

    for owner, name in (
        *((os, name) for name in ("fsync", "truncate", "replace", "rename", "mkdir", "rmdir", "unlink")),
        (parts, "append_line"),
    ):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return count


@pytest.mark.parametrize("maps", [True, False])
def test_killed_between_any_two_writes_it_ends_with_the_same_bytes(work, tmp_path, monkeypatch, maps):
    """And repeats no more than the one shard that it was killed in."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power cut, and disks take their time
    items = Items((2, 1, 3), maps=maps)
    with monkeypatch.context() as patch:
        count = writes(patch, 10**9)
        work(items)
    whole, total = contents(work.store.folder), count[0]
    once = len(work.computed)
    for last in range(total):
        work.store = Store(tmp_path / f"killed {last}")
        with monkeypatch.context() as patch:
            writes(patch, last)
            with pytest.raises(Killed):
                work(items)
        begun = len(work.computed)
        work(items)
        # What this process left, the next one sweeps away.
        left = {name: data for name, data in contents(work.store.folder).items() if "tag2box" not in name}
        assert left == whole, last
        assert begun + len(work.computed) <= once + 1, last


def test_a_stopped_removal_blocks_nothing(work):
    work()
    (work.home("fitted") / "record.json").unlink()
    work()
    assert work.computed == [*SAMPLED, "fitted"]
    work.home("fitted").rename(work.home("fitted", ".old"))
    work()
    assert work.computed == [*SAMPLED, "fitted"]
    assert not work.home("fitted", ".old").exists()


def test_clean_keeps_what_is_unfinished_of_the_settings_in_use(work):
    work.stop("described", 1)
    store, used = work.store, list(work.keys.items())
    other = call_key("described", 9, [])
    store.parts("described", other, ("X",))
    store.parts("windows", other, ()).add(0, 1, 1)
    work.home("fitted", ".new").mkdir()
    left = {f".{other[:12]}.part", work.home("fitted", ".new").name}
    assert {path.name for path in store.unused(used)} == left
    store.remove(store.unused(used))
    work()
    assert work.computed == ["described 2 by the sample", "described 3 by the sample"]


def test_clean_removes_nothing_outside(work, tmp_path):
    work()
    elsewhere = shutil.move(work.home("fitted").parent, tmp_path / "elsewhere")
    (work.store.folder / "fitted").symlink_to(elsewhere)
    linked = work.home("windows").parent / ("0" * 12)
    linked.symlink_to(elsewhere)
    before = contents(elsewhere)
    store = work.store
    store.remove(store.unused([]))
    assert contents(elsewhere) == before
    assert not linked.is_symlink()
    assert not work.home("windows").exists()


def test_an_old_result_that_cannot_be_removed_is_one_line(work, monkeypatch):
    work()

    def refused(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(Tag2BoxError, match=r"cannot remove .*: Permission denied"):
        work.store.remove([work.home("fitted")])


def test_what_a_killed_writer_left_is_swept_away(tmp_path):
    ended, mine = 2**22 + 1, os.getpid()  # above Linux's largest process number
    left = [tmp_path / f".file.{pid}-{MACHINE}0000-0.tag2box" for pid in (ended, 10**10 - 1, mine)]
    at_work = tmp_path / f".file.{os.getppid()}-{MACHINE}0000-0.tag2box"
    other = tmp_path / f".file.{ended}-00000000"
    for path in (*left, at_work, other):
        path.touch()
    write_whole(tmp_path / "file", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["file", at_work.name, other.name])


def test_json_holds_any_text():
    assert to_json({"ü": "猫"}) == '{"ü": "猫"}'
    odd = {"half a pair": "\ud83d", "nul": "\0", "ü": 1}
    assert json.loads(to_json(odd).encode()) == odd


@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (3, 5)])
def test_arrays_come_back(tmp_path, shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    write_array(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), array)
    (tmp_path / "a.npz").write_bytes(npz_bytes(a=array, b=np.asfortranarray(array.T)))
    stored = read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(stored["a"], array)
    np.testing.assert_array_equal(stored["b"], array.T)


def test_no_header_is_believed(tmp_path):
    huge = npy_header((10**13,), np.dtype(np.float64))  # 80 TB
    (tmp_path / "huge.npy").write_bytes(huge + bytes(64))
    with pytest.raises(ValueError, match="cannot be an array"):
        read_array(tmp_path / "huge.npy")
    for name, kind in (("stored.npz", zipfile.ZIP_STORED), ("compressed.npz", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(tmp_path / name, "w", kind) as archive:
            archive.writestr("a.npy", huge + bytes(64))
        (tmp_path / name).write_bytes(sealed((tmp_path / name).read_bytes()))
        with pytest.raises(ValueError, match=r"cannot be an array|is compressed"):
            read_npz(tmp_path / name)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="not an array of numbers"):
        read_array(tmp_path / "objects.npy")
