import numpy as np
import pytest
from numba import njit
from numba.extending import intrinsic

from tag2box.neighbors import distance


@pytest.mark.parametrize("spelled_out", [False, True])
@pytest.mark.parametrize("d", [1, 16])
def test_every_half_float_is_read_as_what_it_is(monkeypatch, spelled_out, d):
    """With the processor's instruction, and spelled out for those without it."""
    if distance.SPELLED_OUT and not spelled_out:
        pytest.skip("this processor has no instruction for half floats")
    monkeypatch.setattr(distance, "SPELLED_OUT", spelled_out)
    squared = intrinsic(distance._squared_typing)

    @njit
    def from_the_first(X):
        return np.array([squared(X, 0, i) for i in range(len(X))])

    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    X = np.zeros((2**16, d), np.float16)
    X[:, -1] = np.where(np.isfinite(halves), halves, 0)  # the first is 0
    found = from_the_first(distance.as_rows(X))
    np.testing.assert_array_equal(found, X[:, -1].astype(np.float64) ** 2)
