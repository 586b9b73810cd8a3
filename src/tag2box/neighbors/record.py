"""`Neighbors`: the nearest images of some windows, and the nearest window in each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.packing import stored


@stored
@dataclass(frozen=True)
class Neighbors:
    """The nearest images of each query, nearest first.

    Parameters
    ----------
    image : ndarray of int32 of shape (n_queries, k)
        The indices of the nearest images.
    window : ndarray of int32 of shape (n_queries, k)
        The window of each of them that is nearest to the query, as a row of X.
    distance : ndarray of float32 of shape (n_queries, k)
        The distance of that window, ascending.
    queries : ndarray of int64 of shape (n_queries,), default=None
        The query windows, as rows of X.
    own : ndarray of int32 of shape (n_queries,), default=None
        The image of each query.

    See Also
    --------
    group_neighbors : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> neighbors = t2b.Neighbors(
    ...     image=np.array([[0, 1]], np.int32),
    ...     window=np.array([[0, 2]], np.int32),
    ...     distance=np.array([[0.0, 1.5]], np.float32),
    ... )
    >>> neighbors.distance.tolist()
    [[0.0, 1.5]]
    """

    image: NDArray[np.int32]
    window: NDArray[np.int32]
    distance: NDArray[np.float32]
    queries: NDArray[np.int64] | None = None
    own: NDArray[np.int32] | None = None
