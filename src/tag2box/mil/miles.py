"""MILES (Chen, Bi and Wang 2006): a bag is described by its similarity to each instance of the training bags.

    φ(B)_k = max_j exp(-γ ‖x_j - c_k‖²),    c_k each instance of the bags of the fit

A sparse linear machine behind it chooses the instances that count: `LinearSVC(penalty="l1", dual=False)`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.validation import check_is_fitted

from tag2box.mil.bag_estimator import finite_bags, known_bags
from tag2box.mil.set_kernel import blocks_of, resolve_gamma

Floats = NDArray[np.float64]


class MILES(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Describe each bag by its similarity to the instances of the training bags (MILES).

    Parameters
    ----------
    gamma : float or "scale", default="scale"
        The width of the similarity exp(-gamma · distance²); "scale" as in scikit-learn's `SVC`.

    Attributes
    ----------
    instances_ : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances that bags are compared with.
    gamma_ : float
        The gamma that was taken.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    SetKernel : Compares all instances of two bags.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import LinearSVC
    >>> from tag2box.mil import MILES, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> svm = LinearSVC(penalty="l1", dual=False, random_state=0, max_iter=100_000)
    >>> model = make_pipeline(MILES(gamma=0.1), svm)
    >>> bool(model.fit(bags, y).score(bags, y) > 0.8)
    True
    """

    def __init__(self, gamma: Any = "scale") -> None:
        self.gamma = gamma

    def fit(self, bags: Any, y: Any = None) -> "MILES":  # noqa: ARG002
        """Keep the instances that bags will be compared with.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : None
            Ignored, present for scikit-learn's sake.

        Returns
        -------
        MILES
            The fitted transformer.
        """
        self.instances_ = finite_bags(bags).X
        self._n_features_out, self.n_features_in_ = self.instances_.shape
        self.gamma_ = resolve_gamma(self.gamma, self.instances_)
        return self

    def transform(self, bags: Any) -> Floats:
        """Compare bags with the instances of the fit.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_instances_fitted)
            The similarity of each bag's nearest instance to each instance of the fit.
        """
        check_is_fitted(self)
        bags = known_bags(bags, self.n_features_in_)
        parts = []
        for block in blocks_of(bags, self._n_features_out):
            part = bags[block]
            similarity = rbf_kernel(part.X, self.instances_, gamma=self.gamma_)
            parts.append(np.maximum.reduceat(similarity, part.offsets[:-1], axis=0))
        return np.asarray(np.vstack(parts), dtype=np.float64)
