"""The graph of one class: windows of its positive images, joined to their nearest windows in the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tag2box.cover.kernels import Listed, count_edges, fill_edges
from tag2box.errors import InputError
from tag2box.neighbors.search import Neighbors


@dataclass(frozen=True)
class CoverGraph:
    """V, U and the edges, from both sides: `box[indptr[v]:indptr[v + 1]]` are v's boxes, nearest first, and
    `user[start[u]:start[u + 1]]` the windows of box u.

    V: (n_V,) and U: (n_U,) rows of X; image: (n_U,) the image of each box, ascending; total: (n_V,) the sum
    of v's edge distances; k: how many images were looked at; n_positive: how many of all are positive.
    Memory: 8 bytes an edge.
    """

    indptr: NDArray[np.int64]
    box: NDArray[np.int32]
    start: NDArray[np.int64]
    user: NDArray[np.int32]
    V: NDArray[np.int64]
    U: NDArray[np.int64]
    image: NDArray[np.int32]
    total: NDArray[np.float64]
    k: int
    n_positive: int

    @property
    def degree(self) -> NDArray[np.int64]:
        """Positive images among each window's k nearest, (n_V,)."""
        return np.diff(self.indptr)

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each image's boxes start in U, (n_parts + 1,), and each box's part, (n_U,)."""
        first = np.flatnonzero(np.diff(self.image, prepend=-1))
        sizes = np.diff(first, append=len(self.image))
        part = np.repeat(np.arange(len(first), dtype=np.int32), sizes)
        return np.append(first, len(self.image)).astype(np.int64), part


def as_mask(images: ArrayLike, n_images: int, name: str) -> NDArray[np.bool_]:
    """A bool mask over the images, from such a mask or from indices of images."""
    given = np.asarray(images)
    if given.dtype == np.bool_:
        if given.ndim != 1 or len(given) < n_images:
            raise InputError(
                f"{name} as a mask needs one entry per image: {given.shape} for {n_images} images"
            )
        return given
    if given.size and (not np.issubdtype(given.dtype, np.integer) or given.min() < 0):
        raise InputError(f"{name} must be a bool mask over the images, or indices of images")
    mask = np.zeros(max(n_images, int(given.max(initial=-1)) + 1), np.bool_)
    mask[given.astype(np.intp)] = True
    return mask


def cover_graph(
    neighbors: Neighbors, positive: ArrayLike, k: int, seeds: NDArray[np.bool_] | None = None
) -> CoverGraph:
    """Build the graph of one class: the windows of its positive images and their nearest windows in others.

    Parameters
    ----------
    neighbors : Neighbors
        The nearest images of each window. Windows of other images are left out, so that one table serves
        every class.
    positive : array-like of int or bool
        The positive images: their indices, or a mask over all images.
    k : int
        The number of nearest images to use, at most those in the table.
    seeds : ndarray of bool of shape (n,), default=None
        A mask over the rows of X: the windows that may be selected. Any window may be covered.

    Returns
    -------
    CoverGraph
        The graph, for `greedy_cover`.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> X = np.array([[0.0], [5.0], [1.0], [9.0], [0.5], [7.0]], np.float32)
    >>> neighbors = t2b.group_neighbors(X, [0, 2, 4, 6], queries=np.arange(6), k=3, workers=1)
    >>> graph = t2b.cover_graph(neighbors, positive=[0, 2], k=2)
    >>> graph.V.tolist(), graph.degree.tolist()
    ([0, 1, 4, 5], [2, 2, 2, 2])
    """
    if not 1 <= k <= neighbors.image.shape[1]:
        raise InputError(f"k must lie between 1 and the table's {neighbors.image.shape[1]}, but it is {k}")
    mask = as_mask(positive, int(neighbors.image.max(initial=-1)) + 1, "positive")
    rows = np.arange(len(neighbors.image))
    if neighbors.own is not None:
        rows = rows[mask[neighbors.own]]
    queries = np.arange(len(neighbors.image)) if neighbors.queries is None else neighbors.queries
    if seeds is not None:
        rows = rows[np.asarray(seeds, dtype=np.bool_)[queries[rows]]]
    n_boxes = int(neighbors.window.max(initial=-1)) + 1
    table = Listed(neighbors.image, neighbors.window, neighbors.distance, rows, k, mask)
    indptr, home, fault = count_edges(table, n_boxes)
    if fault >= 0:
        raise InputError(
            f"neighbors of query {fault}: an image is listed twice, or a window under two images; "
            "windows are rows of X, one per image"
        )
    seen = np.flatnonzero(home >= 0)
    U = seen[np.argsort(home[seen], kind="stable")]
    number = np.full(n_boxes, -1, np.int32)
    number[U] = np.arange(len(U), dtype=np.int32)
    box, total = fill_edges(table, number, indptr)
    V = queries[rows].astype(np.int64)
    by_box = csr_array((np.ones(len(box), np.bool_), box, indptr), (len(V), len(U))).tocsc()
    edges = indptr, box, by_box.indptr.astype(np.int64), by_box.indices.astype(np.int32)
    return CoverGraph(*edges, V, U, home[U], total, k, int(mask.sum()))
