"""Half floats as floats: the bits that NumPy makes."""

import numpy as np
import pytest

from tag2box.runtime.halves import as_float32

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("array", [ALL, ALL.reshape(256, 256), ALL.reshape(256, 256).T, ALL[::3]])
def test_every_half_float_keeps_its_value(array):
    expected = array.astype(np.float32)  # with subnormal ones, infinities and what is no number
    np.testing.assert_array_equal(as_float32(array).view(np.uint32), expected.view(np.uint32))
    out = np.empty(array.shape, np.float32)
    assert as_float32(array, out) is out
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_types_are_copied(dtype):
    array = np.arange(6, dtype=dtype).reshape(2, 3)
    found = as_float32(array)
    assert found.dtype == np.float32
    assert not np.shares_memory(found, array)
    np.testing.assert_array_equal(found, array)
