"""Unfinished results: parts that a stopped run leaves for the next one, each with its checksum."""

import json
import os
import re
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import Tag2BoxError
from tag2box.runtime.arrays import checksum, npy_header, npz_bytes, read_npz
from tag2box.runtime.files import append_line, open_itself, to_json, write_whole, writing
from tag2box.runtime.packing import pack, unpack

__all__ = ["BROKEN", "Block", "DamagedError", "Place", "Rows", "Shards", "intact_rows", "rows_are_intact"]

# What reading a file that something has damaged can raise.
BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, Tag2BoxError)
# A line of the list of blocks: name, first byte, the byte after the last, CRC-32 of the line and the bytes.
LINE = re.compile(r"(header|\d+-\d+) (\d{1,15}) (\d{1,15}) ([0-9a-f]{8})")

Block = tuple[int, int, int]  # first byte, the byte after the last, CRC-32


class DamagedError(Tag2BoxError):
    """What is stored is not what was written: it has to be computed again."""


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
        packed = np.frombuffer(to_json(content).encode(), np.uint8)
        write_whole(self._path(a, z), npz_bytes(__record__=packed, **arrays))

    def load(self, a: int, z: int) -> Any:
        """A finished part."""
        try:
            arrays = read_npz(self._path(a, z))
            return unpack(json.loads(arrays.pop("__record__").tobytes()), arrays)
        except BROKEN as error:
            raise DamagedError(f"{self._path(a, z)} is damaged ({error}): remove it and run again") from error

    def _path(self, a: int, z: int) -> Path:
        return self.folder / f"{a:06d}-{z:06d}.npz"


class Rows:
    """An array (n, d) in `NAME.npy`, allocated at once and filled in any order.

    `NAME.blocks` lists what is in it.

    Data reach the disk before their line in that list does, so what it lists is there, whenever a run is
    killed. What was damaged in the meantime is found by its checksum and is not counted as there.
    """

    def __init__(self, folder: Path, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.folder, self.name = folder, name
        self.file, self.list = folder / f"{name}.npy", folder / f"{name}.blocks"
        self.shape, self.dtype = shape, dtype
        self.header = npy_header(shape, dtype)
        self.row = shape[1] * dtype.itemsize
        self.size = len(self.header) + shape[0] * self.row
        with writing(self.file):
            self.done = intact_rows(folder, name)
            if self.done.get("header") != self._head() or self.file.stat().st_size != self.size:
                self._allocate()
                self.done = {"header": self._head()}
            self._write_list()

    def _head(self) -> Block:
        return _block("header", 0, memoryview(self.header))

    def _allocate(self) -> None:
        """Room for all rows now: a full disk is found before the work, not after hours."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with open_itself(self.file, "wb") as file:
            file.write(self.header)
            file.flush()
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, self.size)
            file.truncate(self.size)
            os.fsync(file.fileno())

    def has(self, a: int, z: int) -> bool:
        """Whether the rows of items a to z are there."""
        return f"{a}-{z}" in self.done

    def place(self, a: int, z: int, first: int, n: int) -> "Place":
        """Where the rows of items a to z go: n rows from row `first` on."""
        start = len(self.header) + first * self.row
        return Place(self.file.absolute(), f"{a}-{z}", start, (n, self.shape[1]), self.dtype.str)

    def list_block(self, a: int, z: int, block: Block) -> None:
        """The rows of items a to z are there, as `Place.write` says: list them."""
        self.done[f"{a}-{z}"] = block
        append_line(self.list, _line(f"{a}-{z}", block))

    def finish(self) -> None:
        """All rows are there: list them in their order, in which a run that was never killed lists them."""
        self._write_list()

    def _write_list(self) -> None:
        write_whole(self.list, _listed(self.done))

    def outline(self) -> NDArray[Any]:
        """An array of the shape and type of this one, without its numbers: no file is open, it can move."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


@dataclass(frozen=True)
class Place:
    """Room for some rows in the file of `Rows`; whoever made them writes them there, on any machine."""

    file: Path
    name: str
    start: int
    shape: tuple[int, int]
    dtype: str

    def write(self, X: NDArray[Any]) -> Block:
        """Write the rows, and wait until they are on the disk; what is to be listed of them."""
        if X.shape != self.shape:
            raise Tag2BoxError(
                f"{self.file.parent.parent.name} of items {self.name.replace('-', ' to ')} are {X.shape}, "
                f"where {self.shape} was expected"
            )
        data = np.ascontiguousarray(X, self.dtype).data
        with writing(self.file), open_itself(self.file, "r+b") as file:
            file.seek(self.start)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return _block(self.name, self.start, data)


def _block(name: str, start: int, data: memoryview) -> Block:
    end = start + data.nbytes
    return start, end, zlib.crc32(data, zlib.crc32(_place(name, start, end)))


def _place(name: str, start: int, end: int) -> bytes:
    return f"{name} {start} {end}".encode()


def _line(name: str, block: Block) -> str:
    start, end, crc = block
    return f"{name} {start} {end} {crc:08x}"


def _listed(blocks: dict[str, Block]) -> str:
    in_order = sorted((block, name) for name, block in blocks.items())
    return "".join(f"{_line(name, block)}\n" for block, name in in_order)


def rows_are_intact(folder: Path, name: str) -> bool:
    """Whether every byte of `NAME.npy` is as it was written, and of the list of its blocks."""
    blocks = intact_rows(folder, name)
    size = sum(end - start for start, end, _ in blocks.values())
    return (
        size == (folder / f"{name}.npy").stat().st_size
        and _listed(blocks).encode() == (folder / f"{name}.blocks").read_bytes()
    )


def intact_rows(folder: Path, name: str) -> dict[str, Block]:
    """The blocks of `NAME.npy` in `folder` that are as they were written; none where it is missing."""
    try:
        # A line without its end was cut short by a kill: what it would have listed is made again.
        lines = (folder / f"{name}.blocks").read_text("ascii", errors="replace").split("\n")[:-1]
        with (folder / f"{name}.npy").open("rb") as file:
            return dict(found for line in lines if (found := _intact(file, line)))
    except FileNotFoundError:
        return {}


def _intact(file: IO[bytes], line: str) -> tuple[str, Block] | None:
    if not (match := LINE.fullmatch(line)):
        return None
    name, start, end, crc = match[1], int(match[2]), int(match[3]), int(match[4], 16)
    same = checksum(file, start, end, _place(name, start, end)) == crc
    return (name, (start, end, crc)) if same else None
