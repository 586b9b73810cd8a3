"""Arrays in files: `.npy` that can be mapped, `.npz`, and checksums that tell when either is damaged.

No header is believed: what it claims must be in the file. Nothing is ever unpickled. An `.npz` file ends in a
checksum of all of it, as the comment that an archive may have: numpy reads it as any other.
"""

import io
import json
import os
import re
import struct
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.files import open_itself

Array = NDArray[Any]

# Arrays above this many bytes are mapped from the disk, not read.
MAPPED = 1 << 26
CHUNK = 1 << 20
# The last bytes of an `.npz` file of ours: the length of a comment, as archives have it, and the comment.
SEAL = struct.Struct("<H16s")
# The start of a `.npy` file, and the text behind it: numpy would evaluate it, and has many errors for it.
MAGIC = struct.Struct("<8sH")
HEADER = re.compile(
    rb"\{'descr': '([<>|][biufc]\d{1,2})', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
# What zipfile raises for a file that is no archive, a damaged one, or one of a kind that it cannot read.
UNREADABLE = (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, OverflowError, struct.error)


def write_array(path: Path, array: Array) -> int:
    """Write a `.npy` file and wait until it is on the disk; returns its checksum."""
    array = np.asarray(array, order="C")
    header = npy_header(array.shape, array.dtype)
    with open_itself(path, "wb") as file:
        file.write(header)
        file.write(array.data)  # np.save would swallow what the system says when the disk is full
        file.flush()
        os.fsync(file.fileno())
    return zlib.crc32(array.data, zlib.crc32(header))


def read_array(path: Path) -> Array:
    """The array of a `.npy` file; a large one is mapped, read-only."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        shape, dtype = _claimed(file, size)
        start = file.tell()
    if size > MAPPED:
        return np.memmap(path, dtype, "r", start, shape)
    return np.fromfile(path, dtype, offset=start).reshape(shape)


def checksum(file: IO[bytes], start: int = 0, end: int | None = None, before: bytes = b"") -> int:
    """CRC-32 of `before` and of the bytes from `start` to `end`: 2.4 GB a second, BLAKE2 makes 0.5."""
    file.seek(start)
    left = os.fstat(file.fileno()).st_size - start if end is None else end - start
    crc = zlib.crc32(before)
    while left > 0 and (chunk := file.read(min(left, CHUNK))):
        crc = zlib.crc32(chunk, crc)
        left -= len(chunk)
    return crc


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """What stands before the numbers in a `.npy` file."""
    header = io.BytesIO()
    content = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, content)
    return header.getvalue()


def npz_bytes(**arrays: Array) -> bytes:
    """The content of an `.npz` file, sealed."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **{name: np.asarray(a, order="C") for name, a in arrays.items()})
    return sealed(data.getvalue())


def sealed(archive: bytes) -> bytes:
    """An archive without a comment, with the checksum of its bytes for a comment."""
    content = archive[:-2]  # the length of the comment is the last that an archive has
    return content + _seal(content)


def _seal(content: bytes) -> bytes:
    comment = f"tag2box {zlib.crc32(content):08x}".encode()
    return SEAL.pack(len(comment), comment)


def with_header(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """The content of an `.npz` file of arrays and one record of JSON."""
    return npz_bytes(header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


def read_with_header(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `with_header` was given; raises what `read_npz` and `json.loads` do, and KeyError."""
    arrays = read_npz(path)
    return dict(json.loads(arrays.pop("header").tobytes())), arrays


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an `.npz` file that `npz_bytes` made; `ValueError` where it is damaged, or none."""
    data = path.read_bytes()
    if data[-SEAL.size :] != _seal(data[: -SEAL.size]):
        raise ValueError("its checksum is another")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {
                entry.filename.removesuffix(".npy"): _member(archive, entry) for entry in archive.infolist()
            }
    except UNREADABLE as error:
        raise ValueError(str(error)) from error


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    if entry.compress_type != zipfile.ZIP_STORED:  # ours never are: what is read is no larger than the file
        raise ValueError(f"{entry.filename} is compressed")
    content = bytearray(archive.read(entry))
    file = io.BytesIO(content)
    shape, dtype = _claimed(file, len(content))
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)


def _claimed(file: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type of an array in a file of `size` bytes, which must hold just that."""
    shape, dtype = read_npy_header(file)
    if size != file.tell() + prod(shape) * dtype.itemsize:
        raise ValueError(f"{size} bytes cannot be an array {shape} of {dtype}")
    return shape, dtype


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type that the start of a `.npy` file names; `ValueError` where it names none."""
    head = file.read(MAGIC.size)
    start, length = MAGIC.unpack(head) if len(head) == MAGIC.size else (b"", 0)
    if start != np.lib.format.magic(1, 0):
        raise ValueError("no array, or one of another format")
    if not (header := HEADER.fullmatch(file.read(length))):
        raise ValueError("not an array of numbers in rows")
    shape = tuple(int(side) for side in header[2].split(b",") if side.strip())
    try:
        dtype = np.dtype(header[1].decode())
    except TypeError as error:
        raise ValueError(str(error)) from error
    return shape, dtype
