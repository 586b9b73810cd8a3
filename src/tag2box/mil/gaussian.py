"""An SVM with a Gaussian kernel on distances that are computed once for many widths."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

Floats = NDArray[np.float64]


class Distances(TransformerMixin, BaseEstimator):
    """Rows to squared distances from the rows of the fit."""

    def fit(self, X: Any, y: Any = None) -> "Distances":  # noqa: ARG002
        """Keep the rows."""
        self.rows_ = X
        return self

    def transform(self, X: Any) -> Floats:
        """(n, n_fitted) distances."""
        return np.asarray(euclidean_distances(X, self.rows_, squared=True), dtype=np.float64)


class GaussianSVC(SVC):
    """`SVC` with the kernel exp(-gamma · D), D the squared distances of `Distances`."""

    def __init__(self, gamma: float = 1.0, C: float = 1.0) -> None:
        super().__init__(C=C, kernel="precomputed", gamma=gamma)

    def fit(self, D: Floats, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "GaussianSVC":
        """Learn from (n, n) distances."""
        super().fit(np.exp(-self.gamma * D), y, sample_weight)
        return self

    def decision_function(self, D: Floats) -> Any:
        """Decisions from (n, n_fitted) distances."""
        return super().decision_function(np.exp(-self.gamma * D))

    def predict(self, D: Floats) -> Any:
        """Labels from (n, n_fitted) distances."""
        return super().predict(np.exp(-self.gamma * D))
