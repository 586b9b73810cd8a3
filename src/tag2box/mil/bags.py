"""`Bags`: instances in one matrix `X`, dense or CSR, and the offsets where each bag begins.

Bags are indexed by bag, so scikit-learn's splitters, searches and pipelines take them as samples.
"""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tag2box.errors import InputError


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def as_csr(X: Any) -> Any:
    """A sparse X as CSR with 32-bit indices where they suffice: scikit-learn's SVMs take no others."""
    X = X.tocsr()
    if X.indices.dtype == np.int32 or max(*X.shape, X.nnz) > np.iinfo(np.int32).max:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


class Bags:
    """Bags of instances: one matrix, and where each bag begins in it.

    Bag i is `X[offsets[i]:offsets[i + 1]]`. A bag is a sample to scikit-learn: `cross_val_score`,
    `GridSearchCV` and the splitters take bags as they take arrays. `bags[3]` is the matrix of one bag;
    `bags[2:5]`, `bags[[4, 1]]` and `bags[mask]` are bags again.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_instances, n_features)
        The instances of all bags. Sparse matrices are kept as CSR. float32 stays float32, everything else
        becomes float64.
    offsets : array-like of shape (n_bags + 1,)
        Where each bag begins: from 0 to n_instances, strictly rising, so that no bag is empty.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.

    Examples
    --------
    >>> from tag2box.mil import Bags
    >>> bags = Bags([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], offsets=[0, 2, 3])
    >>> bags
    Bags(2 bags, 3 instances, 2 features, dense)
    >>> bags[1].tolist()
    [[4.0, 5.0]]
    >>> bags.sizes.tolist()
    [2, 1]
    """

    def __init__(self, X: Any, offsets: ArrayLike) -> None:
        self.X = _matrix(X)
        self.offsets = _offsets(offsets, self.X.shape[0])

    @classmethod
    def from_list(cls, matrices: Iterable[Any]) -> "Bags":
        """Make bags from one matrix per bag.

        Parameters
        ----------
        matrices : iterable of array-like or sparse matrix, each of shape (n_i, n_features)
            The instances of each bag, all dense or all sparse.

        Returns
        -------
        Bags
            One bag per matrix.
        """
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
        """Make bags from instances that name their bag.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_instances, n_features)
            The instances, in any order.
        bag_ids : array-like of shape (n_instances,)
            The bag of each instance.

        Returns
        -------
        Bags
            The bags in order of their first appearance.
        """
        X = _matrix(X)
        ids = np.asarray(bag_ids)
        if ids.shape != (X.shape[0],):
            raise InputError(
                f"ids must have one entry per instance, ({X.shape[0]},), but their shape is {ids.shape}"
            )
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))[inverse]  # (n_instances,) bag of each row
        order = np.argsort(place, kind="stable")
        return cls(X[order], np.concatenate([[0], np.cumsum(np.bincount(place))]))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of bags and of features: a bag is a sample."""
        return len(self), self.X.shape[1]

    @property
    def n_instances(self) -> int:
        """The number of instances in all bags."""
        return int(self.X.shape[0])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of instances in each bag, an array of shape (n_bags,)."""
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
        bags.X, bags.offsets = as_csr(X) if is_sparse(X) else X, offsets.astype(np.int64)
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


def _matrix(X: Any) -> Any:
    if is_sparse(X):
        X = as_csr(X)
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
    if (np.diff(out) < 1).any():
        i = int(np.argmax(np.diff(out) < 1))
        raise InputError(f"bag {i} is empty, or offsets fall after it: leave it out, with its label")
    return out
