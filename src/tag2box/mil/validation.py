"""Checks of what estimators of bags are given: bags, labels, weights and parameters."""

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.mil.bags import Bags, as_bags, is_sparse

Floats = NDArray[np.float64]


def finite_bags(bags: Any) -> Bags:
    """`bags` as `Bags`; NaN and infinity are refused."""
    checked = as_bags(bags)
    values = checked.X.data if is_sparse(checked.X) else checked.X
    if not np.isfinite(values).all():
        raise InputError("the instances hold a NaN or an infinity: clean or impute them first")
    return checked


def bag_labels(y: ArrayLike, n: int) -> NDArray[Any]:
    """`y` as an array of one label per bag."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y must have one label per bag, ({n},), but its shape is {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("y holds a NaN or an infinity: leave bags without a label out")
    return labels


def bag_weights(sample_weight: ArrayLike, n: int) -> Floats:
    """`sample_weight` as an array of one weight per bag."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight must have one entry per bag, ({n},), but its shape is {weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("sample_weight must be finite and not negative")
    return weights


def one_against_rest(labels: NDArray[Any], classes: NDArray[Any]) -> list[Floats]:
    """For each class +1 and -1 per bag; of two classes for the second alone. Both signs must occur."""
    names = classes if len(classes) > 2 else classes[1:]
    signs = [np.where(labels == name, 1.0, -1.0) for name in names]
    for name, sign in zip(names, signs, strict=True):
        if abs(sign.sum()) == len(sign):
            raise InputError(f"all bags with a weight are on one side of class {name}: add others")
    return signs


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Refuse a name that is not among those allowed."""
    choices = tuple(allowed)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, but it is {value!r}")


def check_at_least(low: float, **values: float) -> None:
    """Refuse numbers below `low`, and NaN."""
    for name, value in values.items():
        if not value >= low:
            raise InputError(f"{name} must be at least {low}, but it is {value}")


def check_positive(name: str, value: Any) -> None:
    """Refuse a parameter that is not a finite number above 0."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise InputError(f"{name} must be greater than 0, but it is {value}")
