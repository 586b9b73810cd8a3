"""What the windows of an image say together: the best share of them, and the map of their votes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.cover.votes import CELLS, best_share, vote_map
from tag2box.errors import InputError


def boxes_of_cells(seed, n):
    """Boxes of whole cells of a CELLS x CELLS image, the first one the whole of it; and their degrees."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, CELLS - 1, (n, 2))
    size = rng.integers(1, CELLS, (n, 2))
    xyxy = np.hstack([corner, np.minimum(corner + size, CELLS)]).astype(np.float32)
    xyxy[0] = 0, 0, CELLS, CELLS
    return xyxy, rng.uniform(-0.2, 0.6, n)


def slow_map(xyxy, vote):
    """The mean vote of the windows over each cell: one layer per window, which is NaN beside it."""
    layers = np.full((len(xyxy), CELLS, CELLS), np.nan)
    for layer, (x1, y1, x2, y2), v in zip(layers, xyxy.astype(int), vote, strict=True):
        layer[y1:y2, x1:x2] = v
    return np.nanmean(layers, axis=0)  # the first window is over every cell


@given(st.integers(0, 10_000), st.sampled_from([1.0, 3.0]))
def test_the_map_is_the_slow_one(seed, power):
    xyxy, degree = boxes_of_cells(seed, 6)
    expected = slow_map(xyxy, np.maximum(degree, 0) ** power)
    np.testing.assert_allclose(vote_map(xyxy, degree, power)[0], expected, atol=1e-12)
    larger, cell = vote_map(7 * xyxy, degree, power)
    np.testing.assert_allclose(larger, expected, atol=1e-12)
    assert cell == 7


def test_windows_below_chance_have_no_vote():
    xyxy, degree = boxes_of_cells(3, 9)
    assert not vote_map(xyxy, -np.abs(degree))[0].any()


def test_the_best_share_of_each_image():
    kept = best_share([3, 1, 3, 2, 5], [0, 4, 4, 5], 0.5)
    assert np.flatnonzero(kept).tolist() == [0, 2, 4]
    with pytest.raises(InputError, match="share"):
        best_share([1], [0, 1], 0)
