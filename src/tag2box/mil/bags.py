"""`Bags`: instances in one matrix `X`, dense or CSR, and the offsets where each bag begins.

Bags are indexed by bag, so scikit-learn's splitters, searches and pipelines take them as samples.
"""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from tag2box.errors import InputError
from tag2box.mil.affine import is_sparse

__all__ = ["Bags", "PerInstance", "as_bags"]


class Bags:
    """`n` bags of instances: bag i is the rows `X[offsets[i]:offsets[i + 1]]`.

    X: (n_instances, d), an array or any scipy sparse matrix (kept as CSR); float32 stays float32, anything
    else becomes float64. offsets: (n_bags + 1,), from 0 to n_instances, strictly rising: no bag is empty.

    `bags[3]` is the matrix of one bag; `bags[2:5]`, `bags[[4, 1]]` and `bags[mask]` are bags again.
    """

    def __init__(self, X: Any, offsets: ArrayLike) -> None:
        self.X = _matrix(X)
        self.offsets = _offsets(offsets, self.X.shape[0])

    @classmethod
    def from_list(cls, matrices: Iterable[Any]) -> "Bags":
        """One matrix (n_i, d) per bag, all dense or all sparse."""
        parts: list[Any] = [m if is_sparse(m) else np.atleast_2d(np.asarray(m)) for m in matrices]
        if not parts:
            raise InputError("no bags: give a list of matrices, one per bag")
        for i, part in enumerate(parts):
            if 0 in part.shape:
                raise InputError(f"bag {i} is empty: leave it out, with its label")
            if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
                raise InputError(
                    f"bag {i} has the shape {part.shape}, but bag 0 has {parts[0].shape[1]} features: "
                    "give every bag as a matrix of instances with the same features"
                )
        stack: Any = sparse.vstack if any(is_sparse(p) for p in parts) else np.concatenate
        return cls(stack(parts), np.cumsum([0, *(p.shape[0] for p in parts)]))

    @classmethod
    def from_instances(cls, X: Any, bag_ids: ArrayLike) -> "Bags":
        """Group the rows of `X` by `bag_ids` (n_instances,); bags come in order of first appearance."""
        X = _matrix(X)
        ids = np.asarray(bag_ids)
        if ids.shape != (X.shape[0],):
            raise InputError(f"one bag id per instance, please: {X.shape[0]} instances, ids {ids.shape}")
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))[inverse]  # (n_instances,) bag of each row
        order = np.argsort(place, kind="stable")
        return cls(X[order], np.concatenate([[0], np.cumsum(np.bincount(place))]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_bags, n_features): a bag is a sample."""
        return len(self), self.X.shape[1]

    @property
    def n_instances(self) -> int:
        """Instances in all bags."""
        return int(self.X.shape[0])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Instances in each bag, (n_bags,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        kind = "CSR" if is_sparse(self.X) else "dense"
        return f"Bags({len(self)} bags, {self.n_instances} instances, {self.X.shape[1]} features, {kind})"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn asks for bags[rows, ...]
        if isinstance(key, Integral):
            i = range(len(self))[int(key)]
            return self.X[self.offsets[i] : self.offsets[i + 1]]
        chosen = np.arange(len(self))[key]
        if chosen.ndim != 1:
            raise InputError("bags are indexed along one axis: give an index, a slice, a list or a mask")
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return self._like(self.X[rows], offsets)

    def _like(self, X: Any, offsets: NDArray[np.int64]) -> "Bags":
        # What comes out of checked bags needs no second check; no bags at all is a fair slice.
        bags = object.__new__(Bags)
        bags.X, bags.offsets = X, offsets.astype(np.int64)
        return bags


def as_bags(bags: Any) -> Bags:
    """`bags` if they are `Bags`, else made from a list of matrices; anything else is refused."""
    if isinstance(bags, Bags):
        return bags
    if isinstance(bags, (list, tuple)):
        return Bags.from_list(bags)
    raise InputError(
        f"expected Bags or a list of matrices, one per bag, but got {type(bags).__name__}: "
        "wrap it as Bags(X, offsets) or Bags.from_instances(X, bag_ids)"
    )


class PerInstance(TransformerMixin, BaseEstimator):
    """Let any scikit-learn transformer work on the instances of bags, in a `Pipeline` for example.

    >>> make_pipeline(PerInstance(StandardScaler()), SmoothLatentSVC())

    The transformer is fitted without labels: bags have them, instances do not.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, bags: Any, y: Any = None) -> "PerInstance":  # noqa: ARG002
        """Fit a clone of the transformer on all instances."""
        self.transformer_ = clone(self.transformer).fit(as_bags(bags).X)
        return self

    def transform(self, bags: Any) -> Bags:
        """The same bags, their instances transformed."""
        check_is_fitted(self)
        bags = as_bags(bags)
        return Bags(self.transformer_.transform(bags.X), bags.offsets)


def _matrix(X: Any) -> Any:
    if is_sparse(X):
        X = X.tocsr()
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise InputError(f"X must be a matrix (n_instances, n_features), but the shape is {X.shape}")
    if X.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, but its dtype is {X.dtype}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _offsets(offsets: ArrayLike, n: int) -> NDArray[np.int64]:
    out = np.asarray(offsets)
    if out.ndim != 1 or len(out) < 2 or out.dtype.kind not in "iu":
        raise InputError("offsets must be whole numbers, one more than there are bags, and at least two")
    out = out.astype(np.int64)
    if out[0] != 0 or out[-1] != n:
        raise InputError(f"offsets must go from 0 to the {n} instances, but go from {out[0]} to {out[-1]}")
    sizes = np.diff(out)
    if (sizes < 0).any():
        raise InputError(f"offsets must rise, but fall after bag {int(np.argmax(sizes < 0))}")
    if (sizes == 0).any():
        raise InputError(f"bag {int(np.argmax(sizes == 0))} is empty: leave it out, with its label")
    return out
