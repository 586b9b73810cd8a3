"""Unfinished results: parts that a stopped run leaves for the next one, each with its checksum.

.KEY.part/000032-000064.npz     what was made of items 32 to 64, but for its large arrays
.KEY.part/X.npy, X.blocks       a large array of all items, as far as it is made, and what is in it
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import Tag2BoxError
from tag2box.runtime.arrays import checksum, npy_header, npz_bytes, read_npy_header, read_npz
from tag2box.runtime.files import append_line, open_itself, to_json, write_whole, writing
from tag2box.runtime.packing import pack, unpack

# What reading a file that something has damaged can raise.
BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, Tag2BoxError)
# A line of the list of blocks: name, first byte, the byte after the last, CRC-32 of the line and the bytes.
LINE = re.compile(r"(header|\d+-\d+) (\d{1,15}) (\d{1,15}) ([0-9a-f]{8})")

Block = tuple[int, int, int]  # first byte, the byte after the last, CRC-32
Bounds = tuple[int, int]  # first item, the item after the last
Arrays = dict[str, NDArray[Any]]


class DamagedError(Tag2BoxError):
    """What is stored is not what was written: it has to be computed again."""


class Parts:
    """The finished parts of a result that is being made.

    rows: the arrays that are too large for memory, by their names in the packed record. Rows of all parts go
    into one file each, in the order of the parts; in the parts themselves they have no columns.
    """

    def __init__(self, folder: Path, rows: Sequence[str]) -> None:
        self.folder = folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.rows = {name: Rows(folder, name) for name in rows}

    def intact(self, bounds: Sequence[Bounds], tell: Callable[[str], None]) -> Iterator[tuple[Bounds, Any]]:
        """Every part that is there, whole and as it was written; tell: called for each that is damaged."""
        for rows in self.rows.values():
            rows.keep(bounds)
        for a, z in bounds:
            try:
                if self._path(a, z).is_file():
                    content, arrays = self._load(self._path(a, z))
                    if all(rows.has(a, z) for name, rows in self.rows.items() if name in arrays):
                        yield (a, z), unpack(content, arrays)
            except DamagedError as damage:
                tell(str(damage))

    def add(self, a: int, z: int, record: Any) -> Any:
        """Keep the part of items a to z: after those before it. What is left of it in memory."""
        content, arrays = pack(record)
        for name, rows in self.rows.items():
            if name in arrays:
                rows.add(a, z, arrays[name])
                arrays[name] = np.empty((len(arrays[name]), 0), arrays[name].dtype)
        self._save(self._path(a, z), content, arrays)
        return unpack(content, arrays)

    def finish(self) -> None:
        """All parts are there: the large arrays become files of their own."""
        for rows in self.rows.values():
            rows.finish()

    def _save(self, path: Path, content: Any, arrays: Arrays) -> None:
        packed = np.frombuffer(to_json(content).encode(), np.uint8)
        write_whole(path, npz_bytes(__record__=packed, **arrays))

    def _load(self, path: Path) -> tuple[Any, Arrays]:
        try:
            arrays = read_npz(path)
            return json.loads(arrays.pop("__record__").tobytes()), arrays
        except BROKEN as error:
            raise DamagedError(f"{path} is damaged ({error}): remove it and run again") from error

    def _path(self, a: int, z: int) -> Path:
        return self.folder / f"{a:06d}-{z:06d}.npz"


class Rows:
    """An array (n, d) in `NAME.npy` that grows block by block; `NAME.blocks` lists what is in it.

    Data reach the disk before their line in that list does, so what it lists is there, whenever a run is
    killed. What was damaged in the meantime is found by its checksum and is not counted as there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.file, self.list = folder / f"{name}.npy", folder / f"{name}.blocks"
        self.done = intact_rows(folder, name)
        if "header" not in self.done:  # without it nobody knows what the bytes are
            self.done = {}

    def keep(self, bounds: Sequence[Bounds]) -> None:
        """Forget blocks of other bounds: what is written over them is not what they list."""
        names = {"header", *(f"{a}-{z}" for a, z in bounds)}
        self.done = {name: block for name, block in self.done.items() if name in names}

    def has(self, a: int, z: int) -> bool:
        """Whether the rows of items a to z are there."""
        return f"{a}-{z}" in self.done

    def add(self, a: int, z: int, X: NDArray[Any]) -> None:
        """Write the rows of items a to z behind those of the items before."""
        if not self.done:
            self._begin(X)
        start = max(end for name, (_, end, _) in self.done.items() if name == "header" or _first(name) < a)
        self._write(f"{a}-{z}", start, np.ascontiguousarray(X).data)

    def _begin(self, X: NDArray[Any]) -> None:
        with writing(self.file):
            for path in (self.file, self.list):
                open_itself(path, "wb").close()
        self._write("header", 0, memoryview(npy_header((0, X.shape[1]), X.dtype)))

    def _write(self, name: str, start: int, data: memoryview) -> None:
        self._put(start, data)
        self.done[name] = block = _block(name, start, data)
        append_line(self.list, _line(name, block))

    def _put(self, start: int, data: memoryview) -> None:
        with writing(self.file), open_itself(self.file, "r+b") as file:
            file.seek(start)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """All rows are there: their number goes into the header, and the list into their order."""
        if not self.done:
            return
        with self.file.open("rb") as file:
            (_, width), dtype = read_npy_header(file)
        start, end = self.done["header"][1], max(end for _, end, _ in self.done.values())
        header = memoryview(npy_header(((end - start) // max(width * dtype.itemsize, 1), width), dtype))
        # Listed before it is written: whenever a run is killed, one of the two lines holds.
        self.done["header"] = _block("header", 0, header)
        append_line(self.list, _line("header", self.done["header"]))
        self._put(0, header)
        with writing(self.file):
            os.truncate(self.file, end)
        write_whole(self.list, _listed(self.done))


def _first(name: str) -> int:
    return int(name.partition("-")[0])


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
            return dict(block for line in lines if (block := _intact(file, line)))
    except FileNotFoundError:
        return {}


def _intact(file: IO[bytes], line: str) -> tuple[str, Block] | None:
    if not (match := LINE.fullmatch(line)):
        return None
    name, start, end, crc = match[1], int(match[2]), int(match[3]), int(match[4], 16)
    same = checksum(file, start, end, _place(name, start, end)) == crc
    return (name, (start, end, crc)) if same else None
