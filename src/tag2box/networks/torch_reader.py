"""Read the tensors of an old-style torch file (before torch 1.6: pickles, then raw storages) without torch.

A pickle can run anything. This one cannot: the file's sha256 must be the known one, and the unpickler knows
an ordered dict, a tensor and a float or integer storage, and refuses every other name. The layout: a magic
number, the protocol version, a dict of machine facts, the state dict, the keys of the storages in order, then
for each storage its length (int64) and its numbers, all little endian.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError

State = dict[str, NDArray[Any]]

MAGIC = 0x1950A86A20F9469CFC6C
DTYPES: dict[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


def read_state_dict(path: Path, sha256: str) -> State:
    """The tensors of the torch file `path` by name, float32 or int64, C-contiguous copies.

    An `InputError` where the file's sha256 is not `sha256`, or where it holds anything but tensors.
    """
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise InputError(
            f"{path.name} is not the file it should be: its sha256 is {digest}, expected {sha256}. "
            f"Install its package again"
        )
    return parse_state(data)


def parse_state(data: bytes) -> State:
    """The tensors in the bytes of a torch file, whatever their sha256."""
    stream = io.BytesIO(data)
    try:
        magic, _version, machine, tensors, keys = (_Tensors(stream).load() for _ in range(5))
        if magic != MAGIC or not machine["little_endian"]:
            raise InputError("not an old-style little-endian torch file: its magic number is another")
        kinds = {key: (dtype, length) for (key, dtype, length), *_ in tensors.values()}
        storages = {key: _storage(stream, *kinds[key]) for key in keys}
        return {name: _tensor(storages[kind[0]], *view) for name, (kind, *view) in tensors.items()}
    except InputError:
        raise
    except Exception as error:  # a broken pickle may raise anything
        raise InputError(f"not a torch file of plain tensors: {error!r}") from error


class _Tensors(pickle.Unpickler):
    """A state dict whose tensors are (storage, offset, shape, strides, ...): the storages come later."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *view: view
        if module == "torch" and name in DTYPES:
            return name
        raise InputError(f"the torch file asks for {module}.{name}: only tensors are read")

    def persistent_load(self, pid: Any) -> tuple[str, np.dtype[Any], int]:
        _kind, storage, key, _device, length, _view = pid
        return str(key), DTYPES[storage], length


def _tensor(
    storage: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_unused: Any
) -> NDArray[Any]:
    size = storage.itemsize  # NumPy refuses what would reach outside of the storage
    tensor: NDArray[Any] = np.ndarray(
        shape, storage.dtype, storage, offset * size, tuple(step * size for step in strides)
    )
    return tensor.copy(order="C")


def _storage(stream: io.BytesIO, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    written = int.from_bytes(stream.read(8), "little")
    data = stream.read(length * dtype.itemsize)
    if written != length or len(data) != length * dtype.itemsize:
        raise InputError("the torch file ends before its numbers do: install its package again")
    return np.frombuffer(data, dtype)
