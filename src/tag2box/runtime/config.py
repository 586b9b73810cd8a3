"""Settings: frozen dataclasses beside the stages, changed by a TOML file and by `stage.key=value`.

Names and types are checked: a key that does not exist is refused with the nearest that does. `none` (a word,
in quotes in TOML) is None, which TOML cannot say.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tag2box.errors import InputError

__all__ = ["override", "read_settings", "settings", "to_toml", "toml_value", "typed"]

C = TypeVar("C")


def read_settings(config: C, path: Path | None = None, sets: Sequence[str] = ()) -> C:
    """`config` with the values of the TOML file `path`, and then those of `sets`, each `stage.key=value`."""
    if path is not None:
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not TOML: {error}") from error
        config = override(config, given)
    for item in sets:
        config = override(config, _parsed(item))
    return config


def override(config: C, given: Mapping[str, Any], place: str = "") -> C:
    """`config` with some of its values replaced, by name; nested dataclasses take nested mappings."""
    types = get_type_hints(type(config))
    names = [f.name for f in fields(config)]  # type: ignore[arg-type]
    changes = {}
    for name, value in given.items():
        if name not in names:
            raise InputError(_unknown(config, place, name))
        old, where = getattr(config, name), f"{place}{name}"
        if is_dataclass(old):
            if not isinstance(value, Mapping):
                raise InputError(
                    f"{where} is a group of settings: set one of them, as {_example(old, where)}"
                )
            changes[name] = override(old, value, f"{where}.")
        else:
            changes[name] = _checked(value, types[name], where)
    try:
        return replace(config, **changes)  # type: ignore[type-var]
    except InputError as error:
        raise InputError(f"{place.rstrip('.')}: {error}" if place else str(error)) from None


def typed(config: C) -> C:
    """`config` with every value of the type of its field: 20 given in Python is the 20.0 that TOML gives."""
    return override(config, asdict(config))  # type: ignore[call-overload]


def settings(config: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting below `config` as ("stage.key", value)."""
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            yield from settings(value, f"{place}{f.name}.")
        else:
            yield f"{place}{f.name}", value


def to_toml(config: Any) -> str:
    """All settings of a dataclass of dataclasses as TOML, which `read_settings` reads back."""
    alone, groups = [], []
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            lines = [f"{name} = {toml_value(each)}" for name, each in settings(value)]
            groups.append("\n".join([f"[{f.name}]", *lines]))
        else:
            alone.append(f"{f.name} = {toml_value(value)}")
    return "\n\n".join(["\n".join(alone), *groups] if alone else groups) + "\n"


def toml_value(value: Any) -> str:
    """One value as TOML writes it; None is "none"."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # inf and nan are TOML's words too
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'


def _parsed(item: str) -> dict[str, Any]:
    """`a.b=value` as nested dictionaries; what is no TOML value is taken as text."""
    name, equals, text = (part.strip() for part in item.partition("="))
    if not equals or not name:
        raise InputError(f"--set takes stage.key=value, for example windows.max_windows=200, not {item!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def _unknown(config: Any, place: str, name: str) -> str:
    known = dict.fromkeys(f"{place}{f.name}" for f in fields(config))
    near = difflib.get_close_matches(f"{place}{name}", list(known), n=1, cutoff=0.0)
    return f"no setting {place}{name}: did you mean {near[0]}? Known are {', '.join(known)}"


def _example(group: Any, where: str) -> str:
    name, value = next(settings(group))
    return f"{where}.{name}={value}"


def _checked(value: Any, expected: Any, where: str) -> Any:
    """`value` as the type of its field; whole numbers serve as floats, lists as tuples, "none" as None."""
    kinds = get_args(expected) if isinstance(expected, UnionType) else (expected,)
    if NoneType in kinds and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    for kind in kinds:
        if get_origin(kind) is tuple and isinstance(value, list | tuple):
            return tuple(_checked(item, get_args(kind)[0], where) for item in value)
        if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if kind is int and type(value) is not bool and isinstance(value, Integral):
            return int(value)  # of Python, or of NumPy
        if isinstance(kind, type) and type(value) is kind:
            return value
    raise InputError(f"{where} must be {' or '.join(map(_named, kinds))}, but it is {value!r}")


def _named(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: '"none"'}
    if get_origin(kind) is tuple:
        return f"a list, each {_named(get_args(kind)[0])}"
    return words.get(kind, str(kind))
