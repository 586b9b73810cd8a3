"""Activations: which class a cell of the map speaks for, learned from the tags. Beyond the paper.

A logistic regression on the mean x̄ of a photo's cells,

    P(photo has class c) = σ(u_cᵀx̄ + d_c)

is linear, so u_cᵀx says what each cell x adds to it (class activation maps, Zhou et al. 2016).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.description.record import Described
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage

Floats = NDArray[np.float32]

# Inverse strength of the regression's penalty, on standardized means. Between 0.01 and 0.1 the windows that
# the maps then choose are right equally often (docs/experiments).
C = 0.03


@stored
@dataclass(frozen=True)
class Activations:
    """The regression of each class: U: (n_classes, c); d: (n_classes,)."""

    U: Floats
    d: Floats

    def tags(self, map_: NDArray[np.floating]) -> Floats:
        """The logit of each tag of a photo, (n_classes,), from its last map (h, w, c)."""
        return np.asarray(np.asarray(map_, np.float32).mean(axis=(0, 1)) @ self.U.T + self.d, np.float32)

    def shares(self, map_: NDArray[np.floating], classes: NDArray[np.intp]) -> Floats:
        """How `classes` share each cell of a photo among them, (len(classes), h, w)."""
        above = np.asarray(map_, np.float32) @ self.U[classes].T  # (h, w, n)
        above -= above.mean(axis=(0, 1))
        power = np.exp(above - above.max(axis=-1, keepdims=True))
        return np.ascontiguousarray((power / power.sum(axis=-1, keepdims=True)).transpose(2, 0, 1))


@stage("activations", version=1)
def fit_activations(described: Described, tags: NDArray[np.int8]) -> Activations:
    """The regression of each class on the means of the photos' cells; zeros where only one tag is there.

    Memory: 8 c bytes a photo, twice; a third time where some tags are unknown.
    """
    from sklearn.linear_model import LogisticRegression

    maps = described.maps
    assert maps is not None
    means = np.empty((len(tags), maps.X.shape[1]))
    for i in range(len(tags)):
        means[i] = np.asarray(maps[i], np.float64).mean(axis=(0, 1))
    mean, spread = means.mean(axis=0), means.std(axis=0)
    spread[spread == 0] = 1
    means -= mean
    means /= spread
    U, d = np.zeros((tags.shape[1], means.shape[1])), np.zeros(tags.shape[1])
    for c, column in enumerate(tags.T):
        known = slice(None) if column.all() else column != 0  # a slice copies nothing
        if len(np.unique(column[known])) == 2:
            with one_thread():
                fit = LogisticRegression(C=C, max_iter=500).fit(means[known], column[known])
            U[c] = fit.coef_[0] / spread
            d[c] = fit.intercept_[0] - U[c] @ mean
    return Activations(U.astype(np.float32), d.astype(np.float32))
