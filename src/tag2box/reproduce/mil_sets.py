"""The 12 multiple-instance sets of Andrews et al. (2003), and the paper's preprocessing of them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import normalize

from tag2box.errors import InputError
from tag2box.mil.affine import is_sparse
from tag2box.mil.bags import Bags, as_bags

__all__ = ["SETS", "CenterAndNormalize", "load_set"]

SETS = (
    *("musk1", "musk2", "fox", "elephant", "tiger"),
    *("trec1", "trec2", "trec3", "trec4", "trec7", "trec9", "trec10"),
)


def load_set(folder: Path, name: str) -> tuple[Bags, NDArray[np.int8]]:
    """Bags and labels of `folder/name.npz`: `offsets`, `y`, and `X` or the parts of a CSR matrix."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise InputError(f"{path} is missing: --data must name the folder with {name}.npz and the others")
    with np.load(path, allow_pickle=False) as parts:
        if "X" in parts:
            X = parts["X"]
        else:
            X = sparse.csr_array(
                (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
            )
        return Bags(X, parts["offsets"]), parts["y"]


class CenterAndNormalize(TransformerMixin, BaseEstimator):
    """Center each feature on the training instances, then scale every instance to length 1.

    A sparse matrix is not centered: it would become dense.
    """

    def fit(self, bags: Bags, y: object = None) -> "CenterAndNormalize":  # noqa: ARG002
        """Find the center."""
        X = as_bags(bags).X
        self.center_ = 0.0 if is_sparse(X) else X.mean(axis=0)
        return self

    def transform(self, bags: Bags) -> Bags:
        """The same bags, centered and normalized."""
        X = bags.X if is_sparse(bags.X) else bags.X - self.center_
        return Bags(normalize(X), bags.offsets)
