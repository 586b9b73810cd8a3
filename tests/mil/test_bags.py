import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from tag2box import Bags, InputError, LatentSVC, PerInstance, SmoothLatentSVC

X = np.arange(24.0).reshape(8, 3)
OFFSETS = [0, 2, 3, 8]


def planted(n=40, d=6, seed=0):
    """Bags of 2 to 5; a positive one holds one instance shifted along the first axis."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    matrices = [rng.normal(size=(rng.integers(2, 6), d)) for _ in y]
    for matrix, label in zip(matrices, y, strict=True):
        matrix[0, 0] += 5 * label
    return Bags.from_list(matrices), y


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
        (lambda: Bags(X, [0, 5, 3, 8]), "fall after bag 1"),
        (lambda: Bags(X, [0.0, 8.0]), "whole numbers"),
        (lambda: Bags(X[0], [0, 3]), "must be a matrix"),
        (lambda: Bags(X.astype(str), OFFSETS), "numbers"),
        (lambda: Bags.from_instances(X, [1, 2]), "one entry per instance"),
        (lambda: Bags.from_list([]), "no bags"),
        (lambda: Bags.from_list([X, np.zeros((0, 3))]), "bag 1 is empty"),
        (lambda: Bags.from_list([X, X[:, :2]]), "bag 1 has the shape"),
        (lambda: Bags(X, OFFSETS)[np.array([[0, 1]])], "along one axis"),
    ],
)
def test_bad_bags_are_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_pickling_keeps_bags_and_models():
    bags, y = planted()
    model = SmoothLatentSVC().fit(bags, y)
    again_bags, again = pickle.loads(pickle.dumps((bags, model)))
    np.testing.assert_array_equal(again.decision_function(again_bags), model.decision_function(bags))


@pytest.mark.parametrize("model", [LatentSVC(), SmoothLatentSVC()])
def test_scikit_learn_takes_bags_as_samples(model):
    bags, y = planted()
    assert cross_val_score(model, bags, y, cv=5).mean() > 0.8
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=KFold(3, shuffle=True, random_state=0)).fit(bags, y)
    assert search.best_score_ > 0.8
    assert clone(model).get_params() == model.get_params()


def test_pipeline_with_a_transformer_of_instances():
    bags, y = planted()
    pipeline = make_pipeline(PerInstance(StandardScaler()), PerInstance(Normalizer()), SmoothLatentSVC())
    assert cross_val_score(pipeline, bags, y, cv=4).mean() > 0.8
    scaled = PerInstance(StandardScaler()).fit(bags).transform(bags)
    np.testing.assert_allclose(scaled.X, StandardScaler().fit_transform(bags.X))
    np.testing.assert_array_equal(scaled.offsets, bags.offsets)


def test_a_list_of_matrices_will_do():
    bags, y = planted()
    model = LatentSVC().fit(list(bags), y)
    np.testing.assert_array_equal(model.predict(list(bags)), model.predict(bags))
    with pytest.raises(InputError, match="wrap it as Bags"):
        model.predict(bags.X)
