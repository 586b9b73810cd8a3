"""Files and arrays: swept up behind the killed, believed in nothing; what `clean` removes, and what not."""

import json
import os
import shutil
import zipfile

import numpy as np
import pytest

from tag2box.errors import Tag2BoxError
from tag2box.runtime.arrays import npy_header, npz_bytes, read_array, read_npz, sealed, write_array
from tag2box.runtime.files import MACHINE, to_json, write_whole
from tag2box.runtime.keys import call_key
from tag2box.runtime.store import Store

KEYS = [call_key(name, 1, []) for name in "ab"]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "run")
    for key in KEYS:
        store.save("fitted", key, {"a": np.arange(9)})
    return store


@pytest.mark.parametrize("at", [0, 40, -1])
def test_any_flipped_byte_is_noticed_and_the_result_made_again(store, at):
    home = store.folder / "fitted" / KEYS[0][:12]
    for path in sorted(home.iterdir()):
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(Tag2BoxError, match="computed anew"):
            store.load("fitted", KEYS[0])
        path.write_bytes(whole)
    assert store.load("fitted", KEYS[0])["a"].tolist() == list(range(9))


def test_clean_removes_nothing_outside(store, tmp_path):
    elsewhere = shutil.copytree(store.folder / "fitted", tmp_path / "elsewhere")
    (store.folder / "linked").symlink_to(elsewhere)
    linked = store.folder / "fitted" / ("0" * 12)
    linked.symlink_to(elsewhere)
    (store.folder / "arrays").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    store.remove(store.unused([], []))
    assert sorted(elsewhere.rglob("*")) == before
    assert not linked.is_symlink()
    assert not (store.folder / "fitted" / KEYS[0][:12]).exists()


def test_an_old_result_that_cannot_be_removed_is_one_line(store, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(Tag2BoxError, match=r"cannot remove .*: Permission denied"):
        store.remove([store.folder / "fitted" / KEYS[0][:12]])


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
