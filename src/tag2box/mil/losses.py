"""Losses of the margin m = y f(x): value and derivative together, as L-BFGS wants them.

`hinge` is the latent SVM's. The others are smooth, as the smoothed latent SVM needs: `squared_hinge` as in
scikit-learn's `LinearSVC`, `logistic`, and `smooth_hinge`, the generalized smooth hinge of Rennie and
Srebro (2005), which becomes the hinge as its sharpness grows; 100 is what the authors' release uses.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.checks import check_choice
from tag2box.runtime.compiled import kernel

Floats = NDArray[np.floating[Any]]
Loss = Callable[[Floats], tuple[Floats, Floats]]

SHARPNESS = 100.0
# For compiled code.
HINGE, SQUARED_HINGE, LOGISTIC, SMOOTH_HINGE = range(4)
CODES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC, "smooth_hinge": SMOOTH_HINGE}


def hinge(m: Floats) -> tuple[Floats, Floats]:
    """max(0, 1 - m); at m = 1, where there is no derivative, 0."""
    slack = 1 - m
    return np.maximum(slack, 0), np.where(slack > 0, -1.0, 0.0)


def squared_hinge(m: Floats) -> tuple[Floats, Floats]:
    """max(0, 1 - m)²."""
    slack = np.maximum(1 - m, 0)
    return slack**2, -2 * slack


def logistic(m: Floats) -> tuple[Floats, Floats]:
    """log(1 + exp(-m)), without overflow on either side."""
    tail = np.exp(-np.abs(m))
    return np.maximum(-m, 0) + np.log1p(tail), -np.where(m > 0, tail, 1.0) / (1 + tail)


def smooth_hinge(m: Floats, sharpness: float = SHARPNESS) -> tuple[Floats, Floats]:
    """With a = sharpness: a/(a+1) - m below 0, m^(a+1)/(a+1) - m + a/(a+1) on [0, 1], and 0 above 1."""
    a = sharpness
    inside = np.clip(m, 0, 1)
    power = inside**a
    value = power * inside / (a + 1) - np.minimum(m, 1) + a / (a + 1)
    return value, power - 1


@kernel
def loss_at(m: float, loss: int) -> tuple[float, float]:
    """The same of one margin, compiled; loss: one of CODES."""
    if loss == HINGE:
        return max(1 - m, 0.0), -1.0 if m < 1 else 0.0
    if loss == SQUARED_HINGE:
        slack = max(1 - m, 0.0)
        return slack * slack, -2 * slack
    if loss == LOGISTIC:
        tail = np.exp(-abs(m))
        return max(-m, 0.0) + np.log1p(tail), -(tail if m > 0 else 1.0) / (1 + tail)
    inside = min(max(m, 0.0), 1.0)
    power = inside**SHARPNESS
    return power * inside / (SHARPNESS + 1) - min(m, 1.0) + SHARPNESS / (SHARPNESS + 1), power - 1


LOSSES: dict[str, Loss] = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "logistic": logistic,
    "smooth_hinge": smooth_hinge,
}
# What L-BFGS takes.
SMOOTH = ("squared_hinge", "logistic", "smooth_hinge")


def loss_named(name: str, allowed: tuple[str, ...]) -> Loss:
    """The loss called `name`, or an `InputError` that lists those `allowed` here."""
    check_choice("loss", name, allowed)
    return LOSSES[name]
