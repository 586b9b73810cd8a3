"""Files of a run folder that something has damaged: noticed, said in one line, computed again."""

import json
import os
import shutil
import zipfile

import numpy as np
import pytest
from tests._toys import contents, events

from tag2box.errors import Tag2BoxError
from tag2box.runtime import runner as runner_module
from tag2box.runtime.arrays import npy_header, npz_bytes, read_array, read_npz, sealed, write_array
from tag2box.runtime.files import MACHINE, to_json, write_whole
from tag2box.runtime.parts import DamagedError
from tag2box.runtime.stages import Runner
from tag2box.runtime.store import Store, stage_key

STAGES = ("cover", "windows", "features")
OFFSETS = np.array([0, 3, 3, 7, 12])


class Work:
    """Three small stages of the three kinds, in shards of one item, and what was computed of them."""

    def __init__(self, folder):
        self.run, self.computed = Runner(Store(folder), workers=1), []
        self.run.keys = {stage: stage_key(stage, 1, {}) for stage in STAGES}

    def __call__(self):
        self.computed.clear()
        n = len(OFFSETS) - 1
        return (
            self.run.result("cover", lambda: self.note("cover", {"a": np.arange(9), "b": 1.5})),
            self.run.in_shards("windows", n, self.shard, lambda parts: {"x": np.concatenate(parts)}),
            self.run.in_rows("features", OFFSETS, 4, "float16", self.rows, lambda X: {"X": X, "o": OFFSETS}),
        )

    def note(self, what, value):
        self.computed.append(what)
        return value

    def shard(self, a, z):
        return lambda workers, progress: self.note(f"windows {a}", np.full(5, a))

    def rows(self, a, z):
        X = np.random.default_rng(a).random((OFFSETS[z] - OFFSETS[a], 4))
        return lambda workers, progress: self.note(f"features {a}", X)

    def home(self, stage, state=""):
        key = self.run.keys[stage][:12]
        return self.run.store.folder / stage / (f".{key}{state}" if state else key)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SHARD", 1)
    return Work(tmp_path / "run")


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("stage", STAGES)
def test_any_flipped_byte_is_noticed_and_the_result_made_again(work, stage):
    work()
    whole = contents(work.run.store.folder)
    for path in sorted(work.home(stage).iterdir()):
        for at in np.linspace(0, path.stat().st_size - 1, 12).astype(int):
            flip(path, at)
            with pytest.raises(DamagedError, match=r"is damaged .* run the command that made it again"):
                work.run.store.load(stage, work.run.keys[stage])
            work()
            assert {name.partition(" ")[0] for name in work.computed} <= {stage}
            assert contents(work.run.store.folder) == whole, (path.name, at)


def test_of_a_large_array_only_the_damaged_rows_are_made_again(work):
    work()
    flip(work.home("features") / "X.npy", -1)
    work()
    assert work.computed == ["features 3"]
    flip(work.home("features") / "record.json", 20)
    work()
    assert work.computed == []
    assert [e["event"] for e in events(work.run.store.folder)].count("damaged") == 2


@pytest.mark.parametrize("how", ["empty", "cut", "missing", "text"])
def test_files_that_are_no_longer_what_they_were(work, how):
    work()
    whole = contents(work.run.store.folder)
    for stage in STAGES:
        for path in sorted(work.home(stage).iterdir()):
            if how == "missing":
                path.unlink()
            else:
                path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-3], "text": b"\xff[" * 9999}[how])
            work()
            assert contents(work.run.store.folder) == whole, path


@pytest.mark.parametrize("content", ["[]", "{}", "7", "[" * 100_000, '{"crc": 1}'])
def test_a_record_that_is_other_json_is_damaged(work, content):
    work()
    (work.home("cover") / "record.json").write_text(content)
    with pytest.raises(DamagedError):
        work.run.store.load("cover", work.run.keys["cover"])
    work()
    assert work.computed == ["cover"]


def stopped(work, stage, after):
    """Stop `work` behind item `after` of a stage."""

    def stop(a, z):
        if a > after:
            raise KeyboardInterrupt
        return kept(a, z)

    name = "shard" if stage == "windows" else "rows"
    kept = getattr(work, name)
    setattr(work, name, stop)
    with pytest.raises(KeyboardInterrupt):
        work()
    setattr(work, name, kept)


def test_a_damaged_shard_of_a_stopped_stage_is_made_again(work):
    stopped(work, "windows", 2)
    part = work.home("windows", ".part")
    flip(part / "000001-000002.npz", 90)
    (part / "000000-000001.npz").write_bytes(b"")
    work()
    assert [name for name in work.computed if "windows" in name] == ["windows 0", "windows 1", "windows 3"]


def test_damaged_rows_of_a_stopped_stage_are_made_again(work):
    stopped(work, "features", 2)
    part = work.home("features", ".part")
    flip(part / "X.npy", 130)
    with (part / "X.blocks").open("ab") as file:
        file.write(b"\xff\xfe not a line\n3-4 " + b"9" * 5000 + b" 1 00000000\n")
    work()
    assert [name for name in work.computed if "features" in name] == ["features 0", "features 3"]


def test_a_stopped_removal_blocks_nothing(work):
    work()
    (work.home("cover") / "record.json").unlink()  # as an older tag2box left it
    work()
    assert work.computed == ["cover"]
    work.home("cover").rename(work.home("cover", ".old"))  # as this one does
    work()
    assert work.computed == ["cover"]
    assert not work.home("cover", ".old").exists()


def test_clean_keeps_what_is_unfinished_of_the_settings_in_use(work):
    stopped(work, "features", 1)
    store, used = work.run.store, list(work.run.keys.items())
    other = stage_key("features", 9, {})
    store.rows("features", other, "X", (3, 3), "float32")
    store.shards("windows", other).save(0, 1, 1)
    work.home("cover", ".new").mkdir()
    left = {f".{other[:12]}.part", work.home("cover", ".new").name}
    assert {path.name for path in store.unused(used)} == left
    store.remove(store.unused(used))
    work()
    assert work.computed == ["features 2", "features 3"]


def test_clean_removes_nothing_outside(work, tmp_path):
    work()
    elsewhere = shutil.move(work.home("cover").parent, tmp_path / "elsewhere")
    (work.run.store.folder / "cover").symlink_to(elsewhere)
    linked = work.home("windows").parent / ("0" * 12)
    linked.symlink_to(elsewhere)
    before = contents(elsewhere)
    store = work.run.store
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
        work.run.store.remove([work.home("cover")])


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
