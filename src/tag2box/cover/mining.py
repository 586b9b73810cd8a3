"""Negative mining, the rival initializer (Siva, Russell and Xiang 2012), at the interface of the cover.

In each positive image it takes the window whose nearest neighbor among all negative windows is farthest.
"""

import numpy as np
from numpy.typing import ArrayLike

from tag2box.cover.greedy import Cover, as_mask
from tag2box.errors import InputError
from tag2box.neighbors.search import Neighbors

__all__ = ["negative_mining"]


def negative_mining(neighbors: Neighbors, positive: ArrayLike, negative: ArrayLike | None = None) -> Cover:
    """One window per positive image, the farthest from all negatives, in that order; F counts images.

    `positive`, `negative`: bool masks over the images, or their indices; negative are all others by default.
    A window with no negative image among its neighbors is farther from them than the farthest listed, and
    goes before the others; of such windows the one whose list reaches farther comes first. Ties go to the
    smaller row. `gains` are 1, as one image is covered by each pick.
    """
    if neighbors.own is None or neighbors.queries is None:
        raise InputError("negative mining needs to know each query's image: take a table of group_neighbors")
    n_images = int(max(neighbors.image.max(initial=-1), neighbors.own.max(initial=-1))) + 1
    is_positive = as_mask(positive, n_images, "positive")
    others = ~is_positive if negative is None else as_mask(negative, n_images, "negative")
    rows = np.flatnonzero(is_positive[neighbors.own])
    hits = others[neighbors.image[rows]]  # (n_rows, k)
    found = hits.any(axis=1)
    column = np.where(found, hits.argmax(axis=1), hits.shape[1] - 1)
    farthest = neighbors.distance[rows, column]
    order = np.lexsort((neighbors.queries[rows], -farthest, found))
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
