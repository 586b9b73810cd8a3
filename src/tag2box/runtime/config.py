"""Settings: frozen dataclasses beside the stages, changed by a TOML file and by `stage.key=value`.

Names, types and ranges are checked: a key that does not exist is refused with the nearest that does, a value
with what its field declares (`runtime/checks.py`). `none` (a word, in quotes in TOML) is None, which TOML
cannot say.
"""

import difflib
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from tag2box.errors import InputError
from tag2box.runtime.checks import conform
from tag2box.runtime.files import refuse_special

C = TypeVar("C")


class Settings:
    """What every dataclass of settings is: its values are those that its fields declare, or it is refused.

    20 becomes the 20.0 of a float, and a list a tuple, so that equal settings are equal in every file.
    """

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            object.__setattr__(self, name, conform(getattr(self, name), kind, name))


def read_settings(config: C, path: Path | None = None, sets: Sequence[str] = ()) -> C:
    """`config` with the values of the TOML file `path`, and then those of `sets`, each `stage.key=value`."""
    if path is not None:
        refuse_special(path)
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers without end
            raise InputError(f"{path} is not TOML: {error}") from error
        config = override(config, given)
    for item in sets:
        config = override(config, _parsed(item))
    return config


def read_resolved(config: C, text: str) -> C:
    """The settings that a run has noted by `to_toml`."""
    return override(config, tomllib.loads(text))


def override(config: C, given: Mapping[str, Any], place: str = "") -> C:
    """`config` with some of its values replaced, by name; nested dataclasses take nested mappings."""
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
            changes[name] = value
    try:
        return replace(config, **changes)  # type: ignore[type-var]
    except InputError as error:  # it begins with the name of the setting
        raise InputError(f"{place}{error}") from None


def declarations(config: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting below `config` as ("stage.key", what its field declares)."""
    for name, kind in get_type_hints(type(config), include_extras=True).items():
        value = getattr(config, name)
        if is_dataclass(value):
            yield from declarations(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", kind


def settings(config: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting below `config` as ("stage.key", value)."""
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            yield from settings(value, f"{place}{f.name}.")
        else:
            yield f"{place}{f.name}", value


def to_toml(config: Any) -> str:
    """All settings of a dataclass of dataclasses as TOML, with a checksum. `read_settings` reads it back."""
    alone, groups = [], []
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            lines = [f"{name} = {toml_value(each)}" for name, each in settings(value)]
            groups.append("\n".join([f"[{f.name}]", *lines]))
        else:
            alone.append(f"{f.name} = {toml_value(value)}")
    return _sealed("\n\n".join(["\n".join(alone), *groups] if alone else groups) + "\n")


def _sealed(toml: str) -> str:
    return f"{toml}\n# checksum {zlib.crc32(toml.encode()):08x}: change settings in a file of your own\n"


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
    except (ValueError, RecursionError):
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
