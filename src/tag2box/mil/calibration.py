"""Probabilities from decisions about bags that were left out (Platt 1999).

P(y = +1 | f) = 1 / (1 + exp(-(a f + b)))
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
# (1 or n_classes, 2) a and b: of the second of two classes, or of each against the rest.
Sigmoids = NDArray[np.float64]


def fit_sigmoids(decisions: Floats, y: NDArray[np.generic], classes: NDArray[np.generic]) -> Sigmoids:
    """The sigmoid of each column of `decisions`, (n_bags,) or (n_bags, n_classes); NaN takes no part."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    known = np.isfinite(columns).all(axis=1)
    names = classes if len(classes) > 2 else classes[1:]
    sides = ((y == name)[known] for name in names)
    return np.array([_sigmoid(f, side) for f, side in zip(columns[known].T, sides, strict=True)])


def log_odds(decisions: Floats, sigmoids: Sigmoids) -> Floats:
    """(n_bags, 1 or n_classes) a f + b."""
    columns = decisions[:, None] if decisions.ndim == 1 else decisions
    return np.asarray(columns * sigmoids[:, 0] + sigmoids[:, 1])


def _sigmoid(f: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Platt's targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), as two weighted copies of every bag."""
    n = int(positive.sum())
    target = np.where(positive, (n + 1) / (n + 2), 1 / (len(f) - n + 2))
    scale = np.abs(f).max() or 1.0  # the solver wants numbers around 1
    side = np.repeat([True, False], len(f))
    model = LogisticRegression(C=1e10, tol=1e-8, max_iter=1000)
    model.fit(np.tile(f / scale, 2)[:, None], side, np.concatenate([target, 1 - target]))
    return float(model.coef_[0, 0] / scale), float(model.intercept_[0])
