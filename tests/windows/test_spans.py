"""Rows as ranges are the rows themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

rows = st.lists(st.integers(0, 40), max_size=30)


@given(rows, rows)
def test_spans_are_sets_of_rows(some, more):
    spans = Spans.of_rows(some) | Spans.of_rows(more)
    expected = sorted({*some, *more})
    assert list(spans) == expected
    assert len(spans) == len(expected)
    everything = np.arange(42)
    np.testing.assert_array_equal(spans.has(everything), np.isin(everything, expected))
    places = np.random.default_rng(0).permutation(len(expected))
    np.testing.assert_array_equal(spans[places], np.array(expected, int)[places])
    assert (spans.start[1:] > spans.end[:-1]).all()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 255))
def test_spans_of_images_are_their_rows(counts, mask):
    n = sum(counts)
    windows = Windows(
        np.zeros((n, 4), np.float32), np.cumsum([0, *counts]), np.ones((len(counts), 2), np.int64)
    )
    chosen = np.array([bool(mask >> i & 1) for i in range(len(counts))])
    assert list(Spans.of_images(windows, chosen)) == windows.rows_of(chosen).tolist()


@given(rows, st.integers(0, 42), st.integers(0, 42))
def test_a_part_has_the_rows_between(some, first, end):
    spans = Spans.of_rows(some).between(first, max(first, end))
    assert list(spans) == [row for row in sorted(set(some)) if first <= row < end]
