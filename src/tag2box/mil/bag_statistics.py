"""Statistics of the instances of a bag, feature by feature: a bag becomes one row.

    φ(B) = (mean_j x_j, min_j x_j, max_j x_j, std_j x_j),    or some of these

In front of an SVM with a Gaussian kernel this is the statistic kernel of Gärtner et al. (2002).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tag2box.errors import InputError
from tag2box.mil.bags import Bags, as_csr, is_sparse
from tag2box.mil.base import BagTransformer
from tag2box.mil.validation import check_choice


def segment_mean(bags: Bags) -> Any:
    """(n_bags, n_features) means of the bags; CSR stays CSR."""
    weights = np.repeat(1 / bags.sizes, bags.sizes)
    mean = sparse.csr_array((weights, np.arange(bags.n_instances), bags.offsets)) @ bags.X
    return as_csr(mean) if is_sparse(mean) else mean


def _std(bags: Bags) -> Any:
    mean = segment_mean(bags)
    if not is_sparse(mean):
        offset = bags.X - np.repeat(mean, bags.sizes, axis=0)
        return np.sqrt(segment_mean(Bags(offset**2, bags.offsets)))
    square = segment_mean(Bags(bags.X.multiply(bags.X), bags.offsets))
    variance = as_csr(square - mean.multiply(mean))
    variance.data = np.sqrt(np.maximum(variance.data, 0))
    return variance


def _max(bags: Bags) -> Any:
    if not is_sparse(bags.X):
        return np.maximum.reduceat(bags.X, bags.offsets[:-1], axis=0)
    return as_csr(sparse.vstack([bag.max(axis=0).reshape((1, -1)) for bag in bags]))


def _min(bags: Bags) -> Any:
    return -_max(Bags(-bags.X, bags.offsets))


STATISTICS = {"mean": segment_mean, "min": _min, "max": _max, "std": _std}


@dataclass(eq=False, repr=False)
class BagStatistics(BagTransformer):
    """Describe each bag by statistics of its instances, one row per bag: CSR if the bags are.

    Parameters
    ----------
    statistics : tuple of {"mean", "min", "max", "std"}, default=("mean", "min", "max")
        The statistics of each feature, side by side.

    Attributes
    ----------
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from tag2box.mil import BagStatistics, make_bags
    >>> bags, y = make_bags(60, random_state=0)
    >>> model = make_pipeline(BagStatistics(("min", "max")), StandardScaler(), SVC())
    >>> bool(model.fit(bags, y).score(bags, y) > 0.8)
    True
    """

    statistics: tuple[str, ...] = ("mean", "min", "max")

    def _fit(self, bags: Bags) -> None:  # noqa: ARG002
        if not self.statistics:
            raise InputError(f"no statistics: name some of {', '.join(STATISTICS)}")
        for name in self.statistics:
            check_choice("statistics", name, STATISTICS)

    def _transform(self, bags: Bags) -> Any:
        parts = [STATISTICS[name](bags) for name in self.statistics]
        return as_csr(sparse.hstack(parts)) if is_sparse(bags.X) else np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Name the columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            The names of the features; x0, x1, ... where there are none.

        Returns
        -------
        ndarray of str
            "mean_x0" and so on.
        """
        check_is_fitted(self)
        names = [f"x{i}" for i in range(self.n_features_in_)] if input_features is None else input_features
        return np.array([f"{statistic}_{name}" for statistic in self.statistics for name in names], object)
