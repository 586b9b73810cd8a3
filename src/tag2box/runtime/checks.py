"""Checks of settings: an `InputError` of one line, with what is allowed and what was given."""

from collections.abc import Iterable

from tag2box.errors import InputError

__all__ = ["check_above", "check_at_least", "check_choice", "check_share"]


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a name that is not among those allowed."""
    known = tuple(allowed)
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, but it is {value!r}")


def check_above(low: float, **values: float) -> None:
    """Refuse numbers that are not above `low`; a NaN is not."""
    for name, value in values.items():
        if not value > low:
            raise InputError(f"{name} must be above {low}, but it is {value}")


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
