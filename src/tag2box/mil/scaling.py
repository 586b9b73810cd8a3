"""`PerInstance`: transformers of rows in front of estimators of bags, and `InstanceScaler`, one of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from tag2box.mil.bags import Bags, as_bags, is_sparse
from tag2box.mil.base import BagTransformer
from tag2box.mil.set_kernel import resolve_gamma
from tag2box.mil.validation import check_choice

METHODS = ("normalize", "standardize")
# Rows with fewer numbers than this share that are not 0 are text, or like it.
FEW = 0.1
# A feature that hardly varies in the training part may stand far out elsewhere, and with it its bag.
CLIP = 3.0


def mostly_zeros(X: Any) -> bool:
    """Whether X is sparse by what is in it, in whatever format it is kept."""
    filled = X.nnz if is_sparse(X) else np.count_nonzero(X)
    return bool(filled < FEW * X.shape[0] * X.shape[1])


@dataclass(eq=False, repr=False)
class PerInstance(BagTransformer):
    """Apply a scikit-learn transformer to the instances of bags.

    The transformer is fitted without labels: bags have them, instances do not.

    Parameters
    ----------
    transformer : transformer
        A scikit-learn transformer of matrices, such as `StandardScaler`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from tag2box.mil import Bags, PerInstance, SmoothLatentSVC
    >>> bags = Bags([[0.0], [2.0], [4.0]], offsets=[0, 2, 3])
    >>> PerInstance(StandardScaler(with_std=False)).fit_transform(bags)[1].tolist()
    [[2.0]]
    >>> model = make_pipeline(PerInstance(StandardScaler()), SmoothLatentSVC())
    >>> model.fit(bags, [-1, 1]).predict(bags).tolist()
    [-1, 1]
    """

    transformer: Any

    def _check_first(self, bags: Any) -> Bags:
        return as_bags(bags)  # the transformer may be an imputer

    def _check_bags(self, bags: Any) -> Bags:
        check_is_fitted(self)
        return as_bags(bags)

    def _fit(self, bags: Bags) -> None:
        self.transformer_ = clone(self.transformer).fit(bags.X)

    def _transform(self, bags: Bags) -> Bags:
        return Bags(self.transformer_.transform(bags.X), bags.offsets)

    def set_output(self, *, transform: str | None = None) -> "PerInstance":  # noqa: ARG002
        """Do nothing: bags stay bags in a pipeline whose rows become frames.

        Parameters
        ----------
        transform : str, default=None
            Ignored, as bags are no rows.

        Returns
        -------
        PerInstance
            The transformer.
        """
        return self


@dataclass(eq=False, repr=False)
class InstanceScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale rows: for linear machines, or for kernels whose gamma is a plain number.

    "normalize" centers each feature and scales every row to length 1, as Song et al. (2014) do. "standardize"
    takes z-scores, clipped at 3, and divides all of them by one number, so that a gamma of 1 is what
    scikit-learn's `SVC` calls "scale". Rows that are mostly zeros, as text is, are not centered: both methods
    scale them to length 1. The answer does not depend on whether X is dense or CSR.

    Parameters
    ----------
    method : {"normalize", "standardize"}, default="standardize"
        The scaling.

    Attributes
    ----------
    mostly_zeros_ : bool
        Whether the rows of the fit were mostly zeros.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> from tag2box.mil import InstanceScaler, PerInstance, make_bags
    >>> bags, _ = make_bags(20, random_state=0)
    >>> scaled = PerInstance(InstanceScaler("normalize")).fit_transform(bags)
    >>> bool((abs((scaled.X**2).sum(axis=1) - 1) < 1e-9).all())
    True
    """

    method: str = "standardize"

    def fit(self, X: Any, y: Any = None) -> "InstanceScaler":  # noqa: ARG002
        """Find the center and the scale.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored, present for scikit-learn's sake.

        Returns
        -------
        InstanceScaler
            The fitted transformer.
        """
        check_choice("method", self.method, METHODS)
        X = self._checked(X, reset=True)
        self.mostly_zeros_ = mostly_zeros(X)
        self._scale = 1.0
        if not self.mostly_zeros_:
            self._z_scores = StandardScaler(with_std=self.method == "standardize").fit(_dense(X))
        if self.method == "standardize":
            self._scale = float(np.sqrt(resolve_gamma("scale", self.transform(X))))
        return self

    def transform(self, X: Any) -> Any:
        """Scale rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray or CSR matrix of shape (n_rows, n_features)
            The rows, scaled; sparse if they are mostly zeros and X is sparse.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self.mostly_zeros_:
            return normalize(X) * self._scale
        scores = self._z_scores.transform(_dense(X))
        return normalize(scores) if self.method == "normalize" else np.clip(scores, -CLIP, CLIP) * self._scale

    def _checked(self, X: Any, *, reset: bool) -> Any:
        types = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=types, reset=reset)


def _dense(X: Any) -> NDArray[Any]:
    return np.asarray(X.toarray() if is_sparse(X) else X)
