import numpy as np
import pytest
from numba import njit

from tag2box.neighbors.int8 import LANES, ROWS
from tag2box.neighbors.search import int8


@pytest.fixture(scope="module", params=["this machine's", "plain"])
def kernels(request):
    """The three products, as this machine does them and as any machine does."""
    plain = request.param == "plain"
    top = int8.make_top_tile(int8.plain_dot4) if plain else int8.top_tile
    score = int8.make_score_tile(int8.plain_dot4) if plain else int8.score_tile
    row = int8.make_row_scores(int8.plain_dot4) if plain else int8.row_scores

    @njit
    def run(Q, q, W, bias, scores, of_one, best, second, tag, mask):
        packed, windows, biases = Q.ctypes.data, W.ctypes.data, bias.ctypes.data
        score(packed, windows, W.shape[1], biases, scores.ctypes.data, Q.shape[0])
        row(q.ctypes.data, windows, W.shape[1], biases, of_one.ctypes.data, len(q) // 64)
        top(packed, windows, W.shape[1], biases, best.ctypes.data, second.ctypes.data, Q.shape[0], tag, mask)

    return run


@pytest.mark.parametrize("d", [4, 64, 100])
def test_tiles_are_products_of_whole_numbers(kernels, d):
    """With the largest bytes there are among them: nothing saturates."""
    rng = np.random.default_rng(d)
    queries = rng.integers(0, 256, (LANES, d)).astype(np.uint8)
    queries[0] = 255
    padded = rng.integers(-128, 128, (ROWS + 1, d)).astype(np.int8)
    W = np.concatenate([padded.ravel(), np.full(64, 77, np.int8)])[: (ROWS + 1) * d].reshape(-1, d)[:ROWS]
    W[0], W[1] = 127, -128
    bias = rng.integers(-(10**6), 10**6, ROWS).astype(np.int32)
    Q = np.ascontiguousarray(queries.reshape(LANES, d // 4, 4).transpose(1, 0, 2))
    one = np.zeros(-(-d // 64) * 64, np.uint8)
    one[:d] = queries[5]
    scores, of_one = np.empty((ROWS, LANES), np.int32), np.empty(ROWS, np.int32)
    best, second = rng.integers(-(10**6), 10**6, (2, LANES)).astype(np.int32)
    best, second = np.maximum(best, second), np.minimum(best, second)
    expected = W.astype(np.int64) @ queries.astype(np.int64).T + bias[:, None]
    tagged = (expected.max(axis=0) & ~15) | 9
    three = np.sort([best, second, tagged], axis=0)
    kernels(Q, one, W, bias, scores, of_one, best, second, np.int32(9), np.int32(15))
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(of_one, expected[:, 5])
    np.testing.assert_array_equal([second, best], three[1:])
