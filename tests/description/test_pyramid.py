"""Pyramids: maxima over a grid of windows, and parts that are projected each for itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.description.crops import max_pool
from tag2box.description.modes import SIDE, nearest_level
from tag2box.description.projection import PartwiseProjection, Projection, fit_parts


def slow_max_pool(source, box, grid):
    """Part by part, cell by cell."""
    h, w, c = source.shape
    x1, y1, x2, y2 = box
    out = np.empty((grid, grid, c), np.float32)
    for i in range(grid):
        for j in range(grid):
            top = min(max(int(np.floor(y1 + np.float32(i) * (y2 - y1) / grid)), 0), h - 1)
            left = min(max(int(np.floor(x1 + np.float32(j) * (x2 - x1) / grid)), 0), w - 1)
            bottom = min(max(int(np.ceil(y1 + np.float32(i + 1) * (y2 - y1) / grid)), top + 1), h)
            right = min(max(int(np.ceil(x1 + np.float32(j + 1) * (x2 - x1) / grid)), left + 1), w)
            out[i, j] = source[top:bottom, left:right].max(axis=(0, 1))
    return out


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.integers(1, 6))
def test_maxima_are_those_of_the_cells(seed, h, w, grid):
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(h, w, 3)).astype(np.float32)
    corner = rng.uniform(-1, [w, h], (5, 2))
    # Quarters of cells times the grid: no edge is a matter of rounding.
    boxes = np.hstack([corner, corner + rng.integers(1, 9, (5, 2)) * grid / 4])
    boxes = (np.round(boxes * 4) / 4).astype(np.float32)
    boxes[:, 2:] = boxes[:, :2] + np.round((boxes[:, 2:] - boxes[:, :2]) * 4 / grid) * grid / 4
    out = np.empty((5, grid, grid, 3), np.float32)
    max_pool(source, boxes, grid, out)
    for box, ours in zip(boxes, out, strict=True):
        np.testing.assert_array_equal(ours, slow_max_pool(source, box, grid))


def test_a_window_is_taken_where_its_size_is_nearest_to_the_side():
    levels = np.array([1920, 1344, 896, 608, 416])
    whole, small = np.float32([[0, 0, 500, 375]]), np.float32([[0, 0, 60, 60]])
    assert levels[nearest_level(levels, (375, 500), whole, SIDE)] == [416]
    assert levels[nearest_level(levels, (375, 500), small, SIDE)] == [1920]


def test_parts_are_projected_each_for_itself_and_take_turns():
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(200, 12)).astype(np.float32) * np.repeat([1, 100], [8, 4]).astype(np.float32)
    both = fit_parts(sample, (8, 4), 3, 0.0, "l2", 20.0)
    assert isinstance(both, PartwiseProjection)
    assert both.width == 6
    X = both(sample)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 20, rtol=1e-5)
    for part, columns, raw in zip(
        both.parts, ([0, 2, 4], [1, 3, 5]), np.split(sample, [8], axis=1), strict=True
    ):
        unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        np.testing.assert_allclose(X[:, columns], part(unit), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(X[:, columns], axis=1), 20 / 2**0.5, rtol=1e-5)


def test_one_part_is_a_plain_projection():
    sample = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    assert isinstance(fit_parts(sample, (5,), 2, 0.25, "l2", 20.0), Projection)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_a_part_does_not_matter(scale):
    rng = np.random.default_rng(1)
    sample = rng.normal(size=(100, 10)).astype(np.float32)
    scaled = sample * np.repeat([scale, 1], [6, 4]).astype(np.float32)
    a, b = (fit_parts(each, (6, 4), 3, 0.0, "l2", 20.0)(each) for each in (sample, scaled))
    np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-2)
