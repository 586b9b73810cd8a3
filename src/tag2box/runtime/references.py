"""A task as bytes, in which large arrays are named by their files: what is sent to a cluster stays small.

Arrays that are mapped from a file go by its name and place. Other large ones are written to a folder first,
once for each content. Who reads the bytes maps them again: both sides see the same folders. Paths become
absolute.
"""

import hashlib
import io
import mmap
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.arrays import npy_header, read_array
from tag2box.runtime.files import write_whole

# Arrays above this many bytes go by a file.
LARGE = 1 << 16


def to_bytes(task: Any, folder: Path) -> bytes:
    """`task`, a call of our functions with our records; `folder`: where large arrays are written."""
    buffer = io.BytesIO()
    _Pickler(buffer, folder).dump(task)
    return buffer.getvalue()


def from_bytes(content: bytes) -> Any:
    """What `to_bytes` was given. The bytes come from the run's own process, never from a file."""
    return pickle.loads(content)


def shared(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """The same array, mapped: from its own file, or from one in `folder`."""
    if array.nbytes <= LARGE or (isinstance(array, np.memmap) and array.flags.c_contiguous):
        return array
    mapped: NDArray[Any] = np.load(_written(array, folder), mmap_mode="r")
    return mapped


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, folder: Path) -> None:
        super().__init__(buffer, protocol=5)
        self.folder = folder

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Path) and not value.is_absolute():  # workers have another folder of their own
            return Path, (str(value.absolute()),)
        if not isinstance(value, np.ndarray) or value.nbytes <= LARGE or value.dtype.hasobject:
            return NotImplemented
        if isinstance(value, np.memmap) and value.flags.c_contiguous:
            return _mapped, (
                os.path.abspath(value.filename or ""),
                _offset(value),
                value.dtype.str,
                value.shape,
            )
        return _read, (str(_written(value, self.folder)),)


def _offset(array: "np.memmap[Any, Any]") -> int:
    """Where the first byte of a mapped array, or of a part of one, is in its file."""
    whole: Any = array._mmap  # type: ignore[attr-defined]
    begin = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
    skipped = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    return int(skipped + array.__array_interface__["data"][0] - begin)


def _written(array: NDArray[Any], folder: Path) -> Path:
    """The file of an array in `folder`, written where it is not there yet."""
    content = npy_header(array.shape, array.dtype) + np.ascontiguousarray(array).tobytes()
    path = folder / f"{hashlib.sha256(content).hexdigest()[:32]}.npy"
    if not path.is_file():
        write_whole(path, content)
    return path


def _mapped(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.memmap(path, np.dtype(dtype), "r", offset, shape)


def _read(path: str) -> NDArray[Any]:
    return read_array(Path(path))
