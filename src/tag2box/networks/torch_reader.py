"""Read the tensors of an old-style torch file (before torch 1.6: pickles, then raw storages) without torch.

A pickle can run anything. This one cannot: the file's sha256 must be the known one, and the unpickler knows
three names, an ordered dict, a tensor and a float or integer storage, and refuses every other. The layout:
a magic number, the protocol version, a dict of machine facts, the state dict, the keys of the storages in
order, then for each storage its length (int64) and its numbers, all little endian.
"""

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Callable
from io import BytesIO
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
    stream = BytesIO(data)
    try:
        magic, _version, machine = (_Nothing(stream).load() for _ in range(3))
        if magic != MAGIC or not machine["little_endian"]:
            raise InputError("not an old-style little-endian torch file: its magic number is another")
        unpickler = _Tensors(stream)
        tensors = unpickler.load()
        storages = {key: _storage(stream, *unpickler.storages[key]) for key in _Nothing(stream).load()}
        return {name: tensor(storages) for name, tensor in tensors.items()}
    except InputError:
        raise
    except Exception as error:  # a broken pickle may raise anything
        raise InputError(f"not a torch file of plain tensors: {error!r}") from error


class _Nothing(pickle.Unpickler):
    """Numbers, strings, lists and dicts; no name at all."""

    def find_class(self, module: str, name: str) -> Any:
        raise InputError(f"the torch file asks for {module}.{name}: only tensors are read")


class _Tensors(_Nothing):
    """A state dict whose tensors are still functions of the storages, which come later in the file."""

    def __init__(self, stream: BytesIO) -> None:
        super().__init__(stream)
        self.storages: dict[str, tuple[np.dtype[Any], int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in DTYPES:
            return name
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> str:
        _kind, storage, key, _device, length, _view = pid
        self.storages[key] = (DTYPES[storage], length)
        return str(key)


def _tensor(
    key: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_unused: Any
) -> Callable[[State], NDArray[Any]]:
    def view(storages: State) -> NDArray[Any]:
        storage = storages[key]
        size = storage.itemsize
        # NumPy refuses what would reach outside of the storage.
        tensor: NDArray[Any] = np.ndarray(
            shape, storage.dtype, storage, offset * size, tuple(step * size for step in strides)
        )
        return tensor.copy(order="C")

    return view


def _storage(stream: BytesIO, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    written = int.from_bytes(stream.read(8), "little")
    data = stream.read(length * dtype.itemsize)
    if written != length or len(data) != length * dtype.itemsize:
        raise InputError("the torch file ends before its numbers do: install its package again")
    return np.frombuffer(data, dtype)
