"""A record as plain data and arrays, and back: what the store writes as JSON and `.npy`, with no pickle.

Records are our own frozen dataclasses of arrays, numbers, text, and tuples, dictionaries and records of such.
A class that may be stored is decorated with `@stored`. Files hold its bare name, not its module, so that code
can move without breaking run folders that exist.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import Tag2BoxError

Array = NDArray[Any]
Record = TypeVar("Record", bound=type)

# Every class that a file may name, by its bare name.
_RECORDS: dict[str, type] = {}


def stored(record: Record) -> Record:
    """Register a dataclass, so that `pack` and `unpack` take it."""
    if _RECORDS.setdefault(record.__name__, record).__module__ != record.__module__:
        raise TypeError(f"two stored records are called {record.__name__}")
    return record


def pack(value: Any) -> tuple[Any, dict[str, Array]]:
    """`value` as data for JSON, in which arrays are named by their place, and those arrays."""
    arrays: dict[str, Array] = {}
    return _pack(value, "", arrays), arrays


def _pack(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        name = place or "value"
        while name in arrays:  # two names that differ only in what a file name cannot hold
            name += "_"
        arrays[name] = value
        return {"array": name}
    if _RECORDS.get(type(value).__name__) is type(value) and is_dataclass(value):
        parts = {f.name: _pack(getattr(value, f.name), _at(place, f.name), arrays) for f in fields(value)}
        return {"record": type(value).__name__, "fields": parts}
    if isinstance(value, tuple | list):
        return {"tuple": [_pack(item, _at(place, str(i)), arrays) for i, item in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"dict": {str(k): _pack(item, _at(place, str(k)), arrays) for k, item in value.items()}}
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def _at(place: str, name: str) -> str:
    """The name of an array: `covers.0.gains`; what a file name cannot hold is left out."""
    safe = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name)
    return f"{place}.{safe}" if place else safe


def unpack(data: Any, arrays: Mapping[str, Array]) -> Any:
    """What `pack` was given; lists come back as tuples."""
    if not isinstance(data, dict):
        return data
    if "array" in data:
        return arrays[data["array"]]
    if "tuple" in data:
        return tuple(unpack(item, arrays) for item in data["tuple"])
    if "dict" in data:
        return {name: unpack(item, arrays) for name, item in data["dict"].items()}
    parts = {name: unpack(item, arrays) for name, item in data["fields"].items()}
    return record_named(data["record"])(**parts)


def record_named(name: str) -> Any:
    """The class registered by that name: only ours are ever made, whatever a stranger's file says."""
    if name not in _RECORDS:
        raise Tag2BoxError(f"the stored result names an unknown record {name!r}: was it made by tag2box?")
    return _RECORDS[name]
