"""What a detector in a file must be, made from the types of its own records: a file may come from anybody.

Types say what each value and each array is; that shapes fit each other, `Detector.rehearse`.
"""

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

# No number that was ever learned is larger, and no product of some of these overflows.
LARGEST = 1e12


def check_types(value: Any, kind: Any, place: str = "detector") -> None:
    """A `TypeError` that names the place of the first value that is not of its declared type."""
    if not _is(value, kind, place):
        raise TypeError(f"{place} cannot be {type(value).__name__}")


def _is(value: Any, kind: Any, place: str) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if type(value) is not kind:
            return False
        kinds = get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            check_types(getattr(value, each.name), kinds[each.name], f"{place}.{each.name}")
        return True
    if origin is Annotated:
        return _is(value, inner[0], place)
    if origin in (Union, UnionType):
        return any(_is(value, each, place) for each in inner)
    if origin is np.ndarray:
        return _is_array(value, get_args(inner[1])[0])
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        items = inner[:1] * len(value) if inner[-1] is ... else inner
        return len(value) == len(items) and all(_is(value[i], items[i], place) for i in range(len(items)))
    if origin is dict:
        return isinstance(value, dict) and all(_is(item, inner[1], place) for item in value.values())
    if kind is float:
        return type(value) in (int, float) and (abs(value) <= LARGEST or value == -np.inf)
    return value is None if kind in (None, NoneType) else type(value) is kind


def _is_array(value: Any, kind: Any) -> bool:
    if not isinstance(value, np.ndarray) or not np.issubdtype(value.dtype, kind):
        return False
    return value.dtype.kind != "f" or not (np.abs(value) > LARGEST).any()
