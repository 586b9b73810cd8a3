"""What a result is known by: the stage that made it, and everything that the stage was given.

    call_key("described", 1, [photos, description])

A setting counts by its value, an array by its content, a record by its fields, and one that a stage made by
the key it was stored under. A record that is more than its fields, or less, says by `key()` what it is:
photos are what is in their files, wherever these are. So no key holds a path, and the run folder and the
photos may move.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tag2box.runtime.files import to_json


def call_key(
    stage: str, version: int, given: Sequence[Any], made: Callable[[Any], str | None] = lambda _: None
) -> str:
    """64 hexadecimal digits, of which 12 name the folder of the result.

    made: the key of a value that is itself the result of a stage, else None.
    """
    return _hash([stage, version, [_content(value, made) for value in given]])


def _hash(content: Any) -> str:
    return hashlib.sha256(to_json(content, sort_keys=True).encode()).hexdigest()


def _content(value: Any, made: Callable[[Any], str | None]) -> Any:
    """`value` for JSON; 10.0 and 10 are the same setting."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.generic):
        number = value.item() if isinstance(value, np.generic) else value
        return int(number) if isinstance(number, float) and number.is_integer() else number
    if key := made(value):
        return {"made": key}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:  # objects are only addresses
        data = np.ascontiguousarray(value)
        return {"array": [data.dtype.str, data.shape, hashlib.sha256(data.data).hexdigest()]}
    if isinstance(value, list | tuple):
        return [_content(item, made) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _content(item, made) for name, item in value.items()}
    if hasattr(value, "key"):
        return {type(value).__name__: _content(value.key(), made)}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _content(getattr(value, each.name), made) for each in fields(value)}
        return {type(value).__name__: parts}
    raise TypeError(f"a stage cannot be given a {type(value).__name__}: no key would say what is in it")
