"""`Store`: the results of a run on disk, each under a key that says what it was made from.

    RUN/windows/4be1c0ffee12/record.json, xyxy.npy, ...     a finished result, whole
    RUN/windows/.4be1c0ffee12.part/                         what is done of one that was stopped

A key is the hash of the stage's name, its version, its settings and the keys of what it was made from. It
holds no path: the run folder and the photos may move. Arrays are `.npy` files that can be mapped.
"""

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.files import append_line, locked, sync_folder, write_whole, writing
from tag2box.runtime.packing import pack, unpack

__all__ = ["Rows", "Shards", "Store", "stage_key"]

# Arrays above this many bytes are mapped from the disk, not read.
MAPPED = 1 << 26
RESULT = re.compile(r"[0-9a-f]{12}|\.[0-9a-f]{12}\.(part|new|journal)")


def stage_key(stage: str, version: int, config: Any, *inputs: str) -> str:
    """The key of a stage's result: 64 hexadecimal digits, of which 12 name its folder."""
    content = json.dumps([stage, version, _plain(config), inputs], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Settings for JSON; 10.0 and 10 are the same setting."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Store:
    """A run folder; nothing else touches what is in it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def lock(self) -> AbstractContextManager[None]:
        """Hold this folder against other runs."""
        return locked(
            self.folder / ".lock",
            f"another run is at work in {self.folder}: wait for it, or choose another folder with --out",
        )

    def has(self, stage: str, key: str) -> bool:
        """Whether the result is there."""
        return (self._home(stage, key) / "record.json").is_file()

    def load(self, stage: str, key: str) -> Any:
        """The stored record; its large arrays are mapped, read-only."""
        home = self._home(stage, key)
        try:
            stored = json.loads((home / "record.json").read_text(encoding="utf-8"))
            if stored["key"] != key:
                raise Tag2BoxError(f"{home} holds the result of other settings: remove it and run again")
            arrays = {name: _read(home / f"{name}.npy") for name in stored["arrays"]}
            return unpack(stored["content"], arrays)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Tag2BoxError(f"{home} is damaged ({error}): remove that folder and run again") from error

    def save(self, stage: str, key: str, record: Any) -> None:
        """Write the result beside its place and move it there in one step."""
        new = self._home(stage, key, ".new")
        with writing(new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        try:
            self._finish(new, stage, key, record)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self.tidy(stage, key)

    def shards(self, stage: str, key: str) -> "Shards":
        """The finished shards of a result that is being made."""
        return Shards(self._home(stage, key, ".part"))

    def rows(self, stage: str, key: str, shape: tuple[int, int], dtype: DTypeLike) -> "Rows":
        """One large array that is being made, shard by shard, in its final file."""
        return Rows(self._home(stage, key, ".part"), shape, np.dtype(dtype))

    def save_rows(self, stage: str, key: str, rows: "Rows", record: Any) -> None:
        """Finish a result whose array X was made with `rows`: the file moves, it is not copied."""
        self._finish(rows.folder, stage, key, record, written=("X",))
        self.tidy(stage, key)

    def tidy(self, stage: str, key: str) -> None:
        """Remove what a finished result was made from; a run that was killed may have left it."""
        for state in (".part", ".new"):
            shutil.rmtree(self._home(stage, key, state), ignore_errors=True)
        self._home(stage, key, ".journal").unlink(missing_ok=True)

    def _finish(self, folder: Path, stage: str, key: str, record: Any, written: tuple[str, ...] = ()) -> None:
        """`record` into `folder`, its JSON last, and then the folder to its place."""
        content, arrays = pack(record)
        home = self._home(stage, key)
        with writing(home):
            for name in arrays.keys() - set(written):
                _write(folder / f"{name}.npy", arrays[name])
            stored = {"stage": stage, "key": key, "arrays": sorted(arrays), "content": content}
            write_whole(folder / "record.json", json.dumps(stored, ensure_ascii=False) + "\n")
            folder.rename(home)
            sync_folder(home.parent)

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the run itself, such as its resolved settings."""
        write_whole(self.folder / name, content)
        return self.folder / name

    def log(self, event: Mapping[str, Any]) -> None:
        """Add one line to `events.jsonl`."""
        append_line(self.folder / "events.jsonl", json.dumps(event, ensure_ascii=False))

    def results(self) -> list[tuple[str, Path]]:
        """Every result and unfinished result: its stage, its folder."""
        folders = (p for stage in self.folder.iterdir() if stage.is_dir() for p in stage.iterdir())
        return sorted((p.parent.name, p) for p in folders if RESULT.fullmatch(p.name))

    def unused(self, used: Iterable[tuple[str, str]]) -> list[Path]:
        """Every result, finished or not, but those with a (stage, key) in `used`."""
        kept = {self._home(stage, key) for stage, key in used}
        return [path for _, path in self.results() if path not in kept]

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove results for good."""
        for path in paths:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _home(self, stage: str, key: str, state: str = "") -> Path:
        return self.folder / stage / (f".{key[:12]}{state}" if state else key[:12])


class Shards:
    """Parts of a result, one file each: `a-z.npz` is that of items a to z."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, a: int, z: int) -> bool:
        """Whether the part of items a to z is finished."""
        return self._path(a, z).is_file()

    def save(self, a: int, z: int, record: Any) -> None:
        """Write a part, whole or not at all."""
        content, arrays = pack(record)
        data = io.BytesIO()
        packed = np.frombuffer(json.dumps(content, ensure_ascii=False).encode(), np.uint8)
        np.savez(data, allow_pickle=False, __record__=packed, **arrays)
        write_whole(self._path(a, z), data.getvalue())

    def load(self, a: int, z: int) -> Any:
        """A finished part."""
        with np.load(self._path(a, z), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return unpack(json.loads(arrays.pop("__record__").tobytes()), arrays)

    def _path(self, a: int, z: int) -> Path:
        return self.folder / f"{a:06d}-{z:06d}.npz"


class Rows:
    """An array (n, d) in `X.npy`, allocated at once and filled in any order; a journal lists what is in it.

    Data reach the disk before the journal's line does, so what it lists is there, whenever a run is killed.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.folder, self.file, self.dtype = folder, folder / "X.npy", dtype
        self.journal = folder.with_suffix(".journal")
        header = _header(shape, dtype)
        self.start, self.row = len(header), shape[1] * dtype.itemsize
        size = self.start + shape[0] * self.row
        with writing(self.file):
            started = self.file.is_file() and self.journal.is_file()
            if not started or self.file.stat().st_size != size:
                self._allocate(header, size)
            # A line without its end was cut short by a kill: what it would have listed is made again.
            lines = self.journal.read_text().split("\n")[:-1] if self.journal.is_file() else []
        self.done = set(lines)

    def _allocate(self, header: bytes, size: int) -> None:
        """Room for all rows now: a full disk is found before the work, not after hours."""
        self.journal.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.file.open("wb") as file:
            file.write(header)
            file.flush()
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, size)
            file.truncate(size)
            os.fsync(file.fileno())

    def has(self, a: int, z: int) -> bool:
        """Whether the rows of items a to z are there."""
        return f"{a}-{z}" in self.done

    def save(self, a: int, z: int, first: int, X: NDArray[Any]) -> None:
        """Write the rows of items a to z, from row `first` on; then say so in the journal."""
        with writing(self.file), self.file.open("r+b") as file:
            file.seek(self.start + first * self.row)
            file.write(np.ascontiguousarray(X, self.dtype).data)
            file.flush()
            os.fsync(file.fileno())
        append_line(self.journal, f"{a}-{z}")
        self.done.add(f"{a}-{z}")

    def array(self) -> NDArray[Any]:
        """The array, mapped."""
        return _read(self.file)


def _read(path: Path) -> NDArray[Any]:
    mapped = path.stat().st_size > MAPPED
    found: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    return found


def _write(path: Path, array: NDArray[Any]) -> None:
    array = np.asarray(array, order="C")
    with path.open("wb") as file:
        file.write(_header(array.shape, array.dtype))
        file.write(array.data)  # np.save would swallow what the system says when the disk is full
        file.flush()
        os.fsync(file.fileno())


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    header = io.BytesIO()
    content = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, content)
    return header.getvalue()


def existing(folder: str | Path) -> Store:
    """The store of a run that was made before; a folder without one is refused."""
    if not (Path(folder) / "config.toml").is_file():
        raise InputError(f"{folder} is no run folder: make one with `tag2box run DATA --out {folder}`")
    return Store(folder)
