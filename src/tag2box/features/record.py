"""`Features`: one vector per window."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.packing import stored
from tag2box.windows.record import ByImage

__all__ = ["Features"]


@stored
@dataclass(frozen=True)
class Features(ByImage):
    """One vector per window.

    Parameters
    ----------
    X : ndarray of float16 or float32 of shape (n, d)
        The vectors of all windows; it may be mapped from a file.
    offsets : ndarray of int64 of shape (n_images + 1,)
        Where the rows of each image start.

    See Also
    --------
    find_features : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> features = t2b.Features(np.zeros((5, 8), np.float32), np.array([0, 2, 5]))
    >>> features.counts.tolist()
    [2, 3]
    """

    X: NDArray[np.floating]
    offsets: NDArray[np.int64]
