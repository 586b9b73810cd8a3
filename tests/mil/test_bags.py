import itertools

import numpy as np
import pytest
from scipy import sparse

from tag2box.errors import InputError
from tag2box.mil.bags import Bags, as_bags

X = np.arange(24.0).reshape(8, 3)
OFFSETS = [0, 2, 3, 8]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_indexing_is_by_bag(kind):
    bags = Bags(kind(X), OFFSETS)
    assert (len(bags), bags.shape, bags.n_instances) == (3, (3, 3), 8)
    for key in (slice(1, None), [2, 0], np.array([True, False, True]), np.array([1, 1, 2])):
        part = bags[key]
        expected = [X[a:b] for a, b in itertools.pairwise(OFFSETS)]
        for matrix, i in zip(part, np.arange(3)[key], strict=True):
            dense = matrix.toarray() if sparse.issparse(matrix) else matrix
            np.testing.assert_array_equal(dense, expected[i])


def test_one_index_is_one_matrix():
    bags = Bags(X, OFFSETS)
    np.testing.assert_array_equal(bags[-1], X[3:])
    with pytest.raises(IndexError):
        bags[3]


def test_instances_are_grouped_in_order_of_appearance():
    bags = Bags.from_instances(X, list("ccabbbac"))
    assert [len(b) for b in bags] == [3, 2, 3]
    np.testing.assert_array_equal(bags[0], X[[0, 1, 7]])
    np.testing.assert_array_equal(bags[1], X[[2, 6]])


def test_types_are_kept():
    assert Bags(X.astype(np.float32), OFFSETS).X.dtype == np.float32
    assert Bags(X.astype(int), OFFSETS).X.dtype == np.float64
    assert sparse.issparse(Bags.from_list([sparse.csr_array(X[:2]), sparse.csr_array(X[2:])]).X)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Bags(X, [0, 3, 3, 8]), "bag 1 is empty"),
        (lambda: Bags(X, [0, 3, 7]), "from 0 to the 8 instances"),
        (lambda: Bags(X, [0, 5, 3, 8]), "bag 1 is empty, or offsets fall"),
        (lambda: Bags(X, [0.0, 8.0]), "whole numbers"),
        (lambda: Bags(X[0], [0, 3]), "must be a matrix"),
        (lambda: Bags(X.astype(str), OFFSETS), "numbers"),
        (lambda: Bags.from_instances(X, [1, 2]), "one entry per instance"),
        (lambda: Bags.from_list([]), "no bags"),
        (lambda: Bags.from_list([X, np.zeros((0, 3))]), "bag 1 is empty"),
        (lambda: Bags.from_list([X, X[:, :2]]), "bag 1 has the shape"),
        (lambda: Bags(X, OFFSETS)[np.array([[0, 1]])], "along one axis"),
        (lambda: as_bags(X), "wrap it as Bags"),
    ],
)
def test_bad_bags_are_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
