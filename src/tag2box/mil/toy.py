"""`make_bags`: toy bags of which few instances make the label."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tag2box.errors import InputError
from tag2box.mil.bags import Bags


def make_bags(
    n_bags: int = 100,
    n_features: int = 5,
    *,
    size: tuple[int, int] = (3, 10),
    n_witnesses: int = 1,
    separation: float = 4.0,
    random_state: Any = None,
    return_instances: bool = False,
) -> Any:
    """Make toy bags: Gaussian noise, and in positive bags some instances that are shifted.

    Parameters
    ----------
    n_bags : int, default=100
        The number of bags; every second one is positive.
    n_features : int, default=5
        The number of features; all of them are shifted alike.
    size : tuple of int, default=(3, 10)
        The least and the greatest number of instances in a bag.
    n_witnesses : int, default=1
        The number of shifted instances in a positive bag.
    separation : float, default=4.0
        The length of the shift, in standard deviations of the noise.
    random_state : int, RandomState or None, default=None
        The seed.
    return_instances : bool, default=False
        Whether to return which instances were shifted, too.

    Returns
    -------
    bags : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        1 for positive bags, 0 for negative ones.
    shifted : ndarray of bool of shape (n_instances,)
        The shifted instances; only with `return_instances`.

    Examples
    --------
    >>> from tag2box.mil import make_bags
    >>> bags, y = make_bags(4, random_state=0)
    >>> len(bags), y.tolist()
    (4, [0, 1, 0, 1])
    """
    low, high = size
    if not 1 <= n_witnesses <= low <= high:
        raise InputError(f"size must be (low, high) with {n_witnesses} witnesses or more, but it is {size}")
    rng = check_random_state(random_state)
    y = np.arange(n_bags) % 2
    offsets = np.concatenate([[0], np.cumsum(rng.randint(low, high + 1, size=n_bags))])
    shifted = np.zeros(offsets[-1], dtype=bool)
    for start in offsets[:-1][y == 1]:
        shifted[start : start + n_witnesses] = True
    X = rng.normal(size=(offsets[-1], n_features))
    X[shifted] += separation / np.sqrt(n_features)
    bags = Bags(X, offsets)
    return (bags, y, shifted) if return_instances else (bags, y)
