"""Negative mining (Siva, Russell and Xiang 2012), the other initializer, as a `Cover`.

In each positive image it takes the window whose nearest neighbor among all negative windows is farthest.
"""

import numpy as np
from numpy.typing import ArrayLike

from tag2box.cover.graph import as_mask
from tag2box.cover.greedy import Cover
from tag2box.errors import InputError
from tag2box.neighbors.search import Neighbors


def negative_mining(neighbors: Neighbors, positive: ArrayLike, negative: ArrayLike | None = None) -> Cover:
    """Take the window of each positive image that is farthest from all negative images (Siva et al. 2012).

    Parameters
    ----------
    neighbors : Neighbors
        The nearest images of each window, from `group_neighbors`.
    positive : array-like of int or bool
        The positive images: their indices, or a mask over all images.
    negative : array-like of int or bool, default=None
        The negative images. None stands for all others.

    Returns
    -------
    Cover
        One window per positive image, the farthest first. F counts images.

    Notes
    -----
    A window with no negative image among its neighbors is farther than the farthest listed and goes before
    the others; of such windows, the one whose list reaches farther comes first. Ties go to the smaller row.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> X = np.array([[0.0], [5.0], [1.0], [9.0], [0.5], [7.0]], np.float32)
    >>> neighbors = t2b.group_neighbors(X, [0, 2, 4, 6], queries=np.arange(6), k=3, workers=1)
    >>> t2b.negative_mining(neighbors, positive=[0, 2]).selected.tolist()
    [1, 5]
    """
    if neighbors.own is None or neighbors.queries is None:
        raise InputError("negative mining needs to know each query's image: take a table of group_neighbors")
    n_images = int(max(neighbors.image.max(initial=-1), neighbors.own.max(initial=-1))) + 1
    is_positive = as_mask(positive, n_images, "positive")
    others = ~is_positive if negative is None else as_mask(negative, n_images, "negative")
    rows = np.flatnonzero(is_positive[neighbors.own])
    hits = others[neighbors.image[rows]]  # (n_rows, k)
    listed = hits.any(axis=1)
    column = np.where(listed, hits.argmax(axis=1), hits.shape[1] - 1)
    to_negative = neighbors.distance[rows, column]
    order = np.lexsort((neighbors.queries[rows], -to_negative, listed))
    own = neighbors.own[rows[order]]
    first = np.sort(np.unique(own, return_index=True)[1])
    selected = neighbors.queries[rows[order[first]]].astype(np.int64)
    missed = int(is_positive.sum()) - len(selected)
    return Cover(
        selected=selected,
        gains=np.ones(len(selected)),
        covered=selected,
        image=own[first].astype(np.int32),
        by=np.arange(len(selected)),
        F_S=float(len(selected)),
        F_V=float(len(selected)),
        at_least=len(selected),
        message=f"{missed} of {int(is_positive.sum())} positive images have no window" if missed else "",
    )
