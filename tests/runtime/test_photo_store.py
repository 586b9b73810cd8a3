"""What is kept of photos: whole or absent, killed or not, damaged or not, in any order."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tag2box.errors import Tag2BoxError
from tag2box.runtime import photo_store
from tag2box.runtime.index import DamagedError
from tag2box.runtime.photo_store import PhotoRows
from tag2box.runtime.store import Store


def rows_of(i):
    """What is made of photo i: some rows, perhaps none, and one row."""
    rng = np.random.default_rng(i)
    return {"X": rng.random((i % 4, 3)).astype(np.float16), "size": np.array([[i, 2 * i]])}


def fill(folder, names):
    photos = Store(folder).photos("made")
    for i in names:
        if f"{i}" not in photos:
            photos.add(f"{i}", rows_of(i))
    photos.close()


def check(folder, names):
    loaded = Store(folder).photos("made").load([f"{i}" for i in names])
    X = loaded["X"]
    expected = np.concatenate([np.empty((0, 3), np.float16), *(rows_of(i)["X"] for i in names)])
    np.testing.assert_array_equal(X[:], expected)
    np.testing.assert_array_equal(loaded["size"][:], np.array([[i, 2 * i] for i in names]).reshape(-1, 2))
    return X


def test_rows_come_back_in_any_order_and_after_any_growth(tmp_path):
    fill(tmp_path, range(7))
    assert isinstance(check(tmp_path, range(7)), np.ndarray)  # mapped as it lies
    fill(tmp_path, [20, 3, 30])
    for names in ([20, 0, 5, 30], [6, 5, 4], [], [8 % 7, 1]):
        check(tmp_path, names)


def test_rows_that_lie_apart_are_indexed_as_an_array_is():
    array = np.arange(40).reshape(20, 2)
    starts, counts = np.array([12, 0, 5]), np.array([3, 4, 0])
    apart, plain = PhotoRows(array, starts, counts), np.concatenate([array[12:15], array[0:4]])
    assert (apart.shape, len(apart), apart.dtype) == (plain.shape, len(plain), plain.dtype)
    rng = np.random.default_rng(0)
    for index in (
        *(slice(a, z) for a in range(8) for z in range(8)),
        slice(None, None, 2),
        slice(-3, None),
        rng.integers(-7, 7, 20),
        rng.random(7) > 0.5,
        3,
        (slice(2, 6), 1),
    ):
        np.testing.assert_array_equal(apart[index], plain[index], str(index))
    np.testing.assert_array_equal(np.asarray(apart), plain)


def test_what_is_not_committed_does_not_count_and_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(photo_store, "SOME", 3)
    fill(tmp_path / "whole", range(8))
    photos = Store(tmp_path / "killed").photos("made")
    for i in range(5):
        photos.add(f"{i}", rows_of(i))
    for file in photos._open.values():
        file.flush()  # the bytes of photo 3 and 4 are there, and nobody knows of them
        file.close()
    again = Store(tmp_path / "killed").photos("made")
    assert [f"{i}" in again for i in range(5)] == [True] * 3 + [False] * 2
    fill(tmp_path / "killed", range(8))
    check(tmp_path / "killed", range(8))
    for name in ("X.bin", "size.bin"):
        one, other = (tmp_path / which / "arrays/made" / name for which in ("whole", "killed"))
        assert one.read_bytes() == other.read_bytes()


WORK = """
import sys, time
from tests.runtime.test_photo_store import rows_of
from tag2box.runtime import photo_store
from tag2box.runtime.store import Store
photo_store.SOME = 2
photos = Store(sys.argv[1]).photos("made")
print("ready", flush=True)
for i in range(40):
    if f"{i}" not in photos:
        photos.add(f"{i}", rows_of(i))
        time.sleep(float(sys.argv[2]))
photos.close()
"""


def work(folder, pause, **options):
    command = [sys.executable, "-c", WORK, str(folder), str(pause)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": Path(__file__).parents[2]}
    return subprocess.Popen(command, text=True, **pipes, **options)


def test_killed_at_any_moment_it_ends_with_the_same_rows(tmp_path):
    rng = random.Random(0)
    for _ in range(4):
        with work(tmp_path, 0.01) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.15))
            process.kill()
    with work(tmp_path, 0) as last:
        assert last.wait() == 0, last.stderr.read()
    check(tmp_path, range(40))
    assert (tmp_path / "arrays/made/X.bin").stat().st_size == 6 * sum(i % 4 for i in range(40))


@pytest.mark.parametrize("size", [100, 300, 40_000])
def test_no_room_is_one_line_and_a_whole_store(tmp_path, size):
    """No file may grow beyond `size` bytes: writes fail as on a full disk, in the kernel."""
    resource = pytest.importorskip("resource")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with work(tmp_path, 0, preexec_fn=limit) as process:
        error = process.communicate()[1]
        assert process.returncode == 1
    assert error.strip().splitlines()[-1].startswith("tag2box.errors.Tag2BoxError: cannot write")
    with work(tmp_path, 0) as again:
        assert again.wait() == 0
    check(tmp_path, range(40))


def test_damage_is_noticed_and_costs_only_the_photos_that_it_hit(tmp_path):
    fill(tmp_path, range(12))
    file = tmp_path / "arrays/made/X.bin"
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    with pytest.raises(DamagedError, match="computed anew"):
        check(tmp_path, range(12))
    check(tmp_path, range(11))  # the others are intact
    photos = Store(tmp_path).photos("made")
    assert photos.check() == ["11"]
    assert "11" not in photos
    fill(tmp_path, range(12))
    check(tmp_path, range(12))


@pytest.mark.parametrize("how", ["cut", "gone", "longer"])
def test_files_that_are_no_longer_what_they_were(tmp_path, how):
    fill(tmp_path, range(12))
    file = tmp_path / "arrays/made/X.bin"
    if how == "gone":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size + (100 if how == "longer" else -20))
    assert len(Store(tmp_path).photos("made").check()) == {"cut": 2, "gone": 12 - 3, "longer": 0}[how]
    fill(tmp_path, range(12))
    check(tmp_path, range(12))


def test_a_copied_folder_is_checked_once_and_trusted_then(tmp_path, monkeypatch):
    import shutil

    fill(tmp_path / "one", range(12))
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    calls = []
    real = photo_store._is_intact
    monkeypatch.setattr(photo_store, "_is_intact", lambda *a: calls.append(1) or real(*a))
    assert Store(tmp_path / "two").photos("made").check() == []
    assert calls
    calls.clear()
    check(tmp_path / "two", range(12))
    assert calls == []


def test_the_room_of_photos_that_are_gone_is_given_back(tmp_path):
    fill(tmp_path, range(12))
    Store(tmp_path).photos("made").compact(["7", "2", "11"])
    check(tmp_path, [7, 2, 11])
    check(tmp_path, [2, 7])
    assert sum(path.stat().st_size for path in tmp_path.rglob("X*.bin")) == 6 * (3 + 2 + 3)
    fill(tmp_path, range(12))
    check(tmp_path, range(12))


def test_other_rows_than_those_before_are_refused(tmp_path):
    fill(tmp_path, [1])
    with pytest.raises((ValueError, Tag2BoxError)):
        Store(tmp_path).photos("made").add("2", {**rows_of(2), "X": np.zeros((1, 4), np.float16)})
