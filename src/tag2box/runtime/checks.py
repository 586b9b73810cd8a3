"""What a value may be, as a declaration or a call: an `InputError` of one line, with what was given.

A setting declares it beside its type, `Annotated[int, Range(1, 100)]`; `conform` is the one place where such
declarations are checked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from tag2box.errors import InputError


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both of them in it; of a list, its length."""

    low: float
    high: float

    def __contains__(self, value: Any) -> bool:  # no NaN lies in it
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        return f"from {self.ends}"

    @property
    def ends(self) -> str:
        """Both ends in words, or the only number."""
        return f"{self.low} to {self.high}" if self.low < self.high else f"{self.low}"


@dataclass(frozen=True, init=False)
class Choice:
    """One of the values named."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def __contains__(self, value: Any) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.values))}" if len(self.values) > 1 else str(self.values[0])


Seed = Annotated[int, Range(0, 2**32 - 1)]
Share = Annotated[float, Range(1e-6, 1)]
Overlap = Annotated[float, Range(0, 1)]
Pixels = Annotated[int, Range(32, 4096)]

NOUNS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: '"none"'}
LONGEST = 80
NUMBERS = {int: Integral, float: Real}  # of Python, or of NumPy


def conform(value: Any, kind: Any, name: str) -> Any:
    """`value` as the declared `kind` has it; whole numbers serve as floats, lists as tuples, "none" as None.

    A kind is int, float, bool, str, None, a tuple of such, a record or a union; each may have rules.
    """
    for each in sorted(_alternatives(kind), key=lambda each: each is not NoneType):  # "none" is no text then
        if _fits(value, each):
            return _cast(value, each)
    raise InputError(f"{name} must be {allowed(kind)}, but it is {_shown(value)}")


def allowed(kind: Any) -> str:
    """In words what a declared `kind` takes: "a whole number from 1 to 100"."""
    *others, last = map(_words, _alternatives(kind))
    return f"{', '.join(others)} or {last}" if others else last


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _declared(kind: Any) -> tuple[Any, list[Any]]:
    """The type of a declaration, and its rules."""
    if get_origin(kind) is not Annotated:
        return kind, []
    plain, *rules = get_args(kind)
    return plain, rules


def _fits(value: Any, kind: Any) -> bool:
    plain, rules = _declared(kind)
    if get_origin(plain) is tuple:
        items = get_args(plain)[0]
        return (
            isinstance(value, list | tuple)
            and all(len(value) in rule for rule in rules)
            and all(_fits(item, items) for item in value)
        )
    if plain is NoneType:
        return value is None or (isinstance(value, str) and value.lower() == "none")
    if plain in NUMBERS and isinstance(value, bool):
        return False
    return isinstance(value, NUMBERS.get(plain, plain)) and all(value in rule for rule in rules)


def _cast(value: Any, kind: Any) -> Any:
    plain, _ = _declared(kind)
    if get_origin(plain) is tuple:
        return tuple(_cast(item, get_args(plain)[0]) for item in value)
    if plain is NoneType:
        return None
    return value if is_dataclass(plain) else plain(value)


def _words(kind: Any) -> str:
    plain, rules = _declared(kind)
    if get_origin(plain) is tuple:
        length = "".join(f" of {rule.ends} values" for rule in rules)
        return f"a list{length}, each {_words(get_args(plain)[0])}"
    noun = (
        [] if any(isinstance(rule, Choice) for rule in rules) else [NOUNS.get(plain) or f"a {plain.__name__}"]
    )
    return " ".join([*noun, *map(str, rules)])


def _shown(value: Any) -> str:
    """What was given, not longer than a line."""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a name that is not among those allowed."""
    known = tuple(allowed)
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, but it is {value!r}")


def check_at_least(low: float, **values: float) -> None:
    """Refuse numbers below `low`, and NaN."""
    for name, value in values.items():
        if not value >= low:
            raise InputError(f"{name} must be at least {low}, but it is {value}")


def check_share(**values: float) -> None:
    """Refuse numbers that are not above 0 and up to 1."""
    for name, value in values.items():
        if not 0 < value <= 1:
            raise InputError(f"{name} must lie above 0 and up to 1, but it is {value}")
