"""Losses of the margin m = y f(x): each returns its value and its derivative.

`hinge` is that of the latent SVM. The others are smooth, as the smoothed latent SVM needs: `squared_hinge`
as in scikit-learn's `LinearSVC`, `logistic`, and `smooth_hinge`, the generalized smooth hinge of Rennie
and Srebro (2005), which becomes the hinge as its sharpness grows; 100 is that of the authors' release.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.floating[Any]]
Loss = Callable[[Floats], tuple[Floats, Floats]]

SHARPNESS = 100.0


def hinge(m: Floats) -> tuple[Floats, Floats]:
    """max(0, 1 - m); its derivative at m = 1 is taken as 0."""
    slack = 1 - m
    return np.maximum(slack, 0), np.where(slack > 0, -1.0, 0.0)


def squared_hinge(m: Floats) -> tuple[Floats, Floats]:
    """max(0, 1 - m)²."""
    slack = np.maximum(1 - m, 0)
    return slack**2, -2 * slack


def logistic(m: Floats) -> tuple[Floats, Floats]:
    """log(1 + exp(-m))."""
    return np.logaddexp(0, -m), -expit(-m)


def smooth_hinge(m: Floats, sharpness: float = SHARPNESS) -> tuple[Floats, Floats]:
    """With a = sharpness: a/(a+1) - m below 0, m^(a+1)/(a+1) - m + a/(a+1) on [0, 1], and 0 above 1."""
    a = sharpness
    inside = np.clip(m, 0, 1)
    power = inside**a
    value = power * inside / (a + 1) - np.minimum(m, 1) + a / (a + 1)
    return value, power - 1


LOSSES: dict[str, Loss] = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "logistic": logistic,
    "smooth_hinge": smooth_hinge,
}
# Losses with a continuous derivative, which L-BFGS needs.
SMOOTH = ("squared_hinge", "logistic", "smooth_hinge")
