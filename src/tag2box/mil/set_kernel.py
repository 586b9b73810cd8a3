"""Bags compared by their instances: the normalised set kernel, and MILES.

The set kernel (Gärtner, Flach, Kowalczyk and Smola 2002) compares all instances of two bags:

    k(A, B) = Σ_{a in A} Σ_{b in B} κ(a, b)

divided by √(k(A, A) k(B, B)) ("feature": bags of length 1 in feature space) or |A| |B| ("averaging").

MILES (Chen, Bi and Wang 2006) describes a bag by its similarity to each instance of the training bags:

    φ(B)_k = max_j exp(-γ ‖x_j - c_k‖²),    c_k each instance of the bags of the fit

A sparse linear classifier behind it chooses the instances that count: `LinearSVC(penalty="l1", dual=False)`.
"""

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from tag2box.mil.bag_statistics import segment_mean
from tag2box.mil.bags import Bags, is_sparse
from tag2box.mil.base import BagTransformer
from tag2box.mil.validation import check_choice, check_positive

Floats = NDArray[np.float64]
NORMALIZATIONS = ("feature", "averaging")
# Numbers of κ that are held at once (128 MB).
BLOCK = 1 << 24


def resolve_gamma(gamma: Any, X: Any) -> float:
    """`gamma`, or with "scale" 1 / (n_features · variance of all numbers), as in scikit-learn's `SVC`."""
    if gamma != "scale":
        check_positive("gamma", gamma)
        return float(gamma)
    variance = X.multiply(X).mean() - X.mean() ** 2 if is_sparse(X) else np.var(X, dtype=np.float64)
    return float(1 / (X.shape[1] * variance)) if variance > 0 else 1.0


def blocks_of(bags: Bags, n_columns: int) -> list[slice]:
    """Runs of whole bags, each with at most `BLOCK` numbers against `n_columns`, or one bag."""
    rows = max(BLOCK // n_columns, 1)
    ends = [0]
    while ends[-1] < len(bags):
        reached = int(np.searchsorted(bags.offsets, bags.offsets[ends[-1]] + rows, side="right")) - 1
        ends.append(max(reached, ends[-1] + 1))
    return [slice(a, b) for a, b in pairwise(ends)]


@dataclass(eq=False, repr=False)
class SetKernel(ClassNamePrefixFeaturesOutMixin, BagTransformer):
    """The normalised set kernel (NSK): bags to a kernel matrix, for `SVC(kernel="precomputed")`.

    Parameters
    ----------
    kernel : str, default="rbf"
        The kernel of two instances, one of scikit-learn's `pairwise_kernels`: "rbf", "linear", "poly", ...
    gamma : float or "scale", default="scale"
        The gamma of that kernel; "scale" as in scikit-learn's `SVC`.
    degree : float, default=3
        The degree of "poly".
    coef0 : float, default=1
        The constant of "poly" and "sigmoid".
    normalization : {"feature", "averaging"}, default="feature"
        Whether bags are scaled to length 1 in feature space, or by their sizes.

    Attributes
    ----------
    bags_ : Bags
        The bags that others are compared with.
    gamma_ : float
        The gamma that was taken.

    Notes
    -----
    Every pair of instances is compared, in blocks of 128 MB.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from tag2box.mil import SetKernel, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> model = make_pipeline(SetKernel(gamma=0.1), SVC(C=10, kernel="precomputed"))
    >>> bool(model.fit(bags[:40], y[:40]).score(bags[40:], y[40:]) > 0.5)
    True
    """

    kernel: str = "rbf"
    _: KW_ONLY
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1
    normalization: str = "feature"

    def _fit(self, bags: Bags) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        self.bags_, self._n_features_out = bags, len(bags)
        self.gamma_ = resolve_gamma(self.gamma, bags.X)
        self._lengths = self._lengths_of(bags)

    def _transform(self, bags: Bags) -> Floats:
        if self.kernel == "linear":  # the sum over pairs is the product of sums
            K = _sums(bags) @ _sums(self.bags_).T
            return _array(K) / self._lengths_of(bags)[:, None] / self._lengths
        starts = self.bags_.offsets[:-1]
        parts = []
        for block in blocks_of(bags, self.bags_.n_instances):
            part = bags[block]
            by_instance = np.add.reduceat(self._kappa(part.X, self.bags_.X), starts, axis=1)
            parts.append(np.add.reduceat(by_instance, part.offsets[:-1], axis=0))
        return np.asarray(np.vstack(parts) / self._lengths_of(bags)[:, None] / self._lengths)

    def _kappa(self, A: Any, B: Any) -> Floats:
        parameters = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        K = pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **parameters)
        return _array(K)

    def _lengths_of(self, bags: Bags) -> Floats:
        """What each bag is divided by: √k(B, B), or |B|."""
        if self.normalization == "averaging":
            return bags.sizes.astype(np.float64)
        if self.kernel == "linear":
            sums = _sums(bags)
            squares = np.ravel(_array((sums.multiply(sums) if is_sparse(sums) else sums**2).sum(axis=1)))
        else:
            squares = np.array([self._kappa(bag, bag).sum() for bag in bags])
        return np.sqrt(np.where(squares > 0, squares, 1.0))


@dataclass(eq=False, repr=False)
class MILES(ClassNamePrefixFeaturesOutMixin, BagTransformer):
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

    gamma: Any = "scale"

    def _fit(self, bags: Bags) -> None:
        self.instances_, self._n_features_out = bags.X, bags.n_instances
        self.gamma_ = resolve_gamma(self.gamma, bags.X)

    def _transform(self, bags: Bags) -> Floats:
        parts = []
        for block in blocks_of(bags, self._n_features_out):
            part = bags[block]
            similarity = rbf_kernel(part.X, self.instances_, gamma=self.gamma_)
            parts.append(np.maximum.reduceat(similarity, part.offsets[:-1], axis=0))
        return np.asarray(np.vstack(parts), dtype=np.float64)


def _sums(bags: Bags) -> Any:
    return sparse.diags_array(bags.sizes.astype(np.float64)) @ segment_mean(bags)


def _array(K: Any) -> Floats:
    return np.asarray(K.toarray() if is_sparse(K) else K, dtype=np.float64)
