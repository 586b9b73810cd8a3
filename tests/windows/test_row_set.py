"""A set of rows in bits is a set of rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tag2box.windows.row_set import RowSet

rows = st.lists(st.integers(0, 40), max_size=30)


@given(rows, rows)
def test_a_row_set_is_a_set(some, more):
    found = RowSet(41)
    found.add(np.array(some, np.int64))
    found.add(np.array(more, np.int64))
    expected = sorted({*some, *more})
    assert found.rows().tolist() == expected
    assert len(found) == len(expected)
    everything = np.arange(41)
    np.testing.assert_array_equal(found.has(everything), np.isin(everything, expected))
