from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tag2box.errors import InputError
from tag2box.neighbors import search
from tag2box.neighbors.coarse import CodedRows, best_scores, center_of
from tag2box.neighbors.search import group_neighbors, neighbor_blocks

FIELDS = ("image", "window", "distance", "queries", "own")


@pytest.fixture(params=["floats", "codes"])
def route(request, monkeypatch):
    """By products of float32, and by codes: no answer may depend on it."""
    monkeypatch.setattr(search, "codes_are_faster", lambda: request.param == "codes")
    monkeypatch.setattr(search, "FEW", 1)
    return request.param


def made(seed, n_images=25, most=20, d=24, scale=1.0, kind=np.float32):
    """Features of decaying variance, with empty images, equal rows and a mean far from zero."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most, n_images)
    sizes[0] = most
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], d)) * np.linspace(2, 0.1, d) + 3
    X[rng.integers(0, len(X), 10)] = X[rng.integers(0, len(X), 10)]
    return (X * scale).astype(kind), offsets


def brute_force(X, offsets, queries, k):
    x = X.astype(np.float64)
    image, window, distance = [], [], []
    for q in queries:
        to_all = np.sqrt(((x - x[q]) ** 2).sum(axis=1)).astype(np.float32)
        found = []
        for i, (a, z) in enumerate(pairwise(offsets)):
            if z > a:
                w = a + to_all[a:z].argmin()
                found.append((to_all[w], i, w))
        found = sorted(found)[:k]
        distance.append([f[0] for f in found])
        image.append([f[1] for f in found])
        window.append([f[2] for f in found])
    return np.array(image), np.array(window), np.array(distance)


def agree(found, X, offsets, queries, k):
    image, window, distance = brute_force(X, offsets, queries, k)
    np.testing.assert_array_equal(found.image, image)
    np.testing.assert_array_equal(found.window, window)
    np.testing.assert_array_equal(found.distance, distance)


@pytest.mark.usefixtures("route")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    st.integers(0, 10_000), st.sampled_from([1, 3, 24, 37, 64, 130]), st.integers(1, 12), st.integers(1, 90)
)
def test_any_block_is_brute_force(seed, d, k, block):
    X, offsets = made(seed, d=d)
    queries = np.random.default_rng(seed).integers(0, len(X), 70)
    agree(group_neighbors(X, offsets, queries, k, block=block, workers=1), X, offsets, queries, k)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_kind_of_float(kind):
    X, offsets = made(1, kind=kind)
    agree(group_neighbors(X, offsets, np.arange(len(X)), 9), X, offsets, range(len(X)), 9)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_features_does_not_matter(scale):
    X, offsets = made(2, scale=scale, kind=np.float64)
    agree(group_neighbors(X, offsets, np.arange(50), 9), X, offsets, range(50), 9)


@pytest.mark.usefixtures("route")
def test_isotropic_features_leave_the_bounds_nothing_to_rule_out():
    X = np.random.default_rng(3).standard_normal((30 * 40, 128)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    offsets = np.arange(31) * 40
    agree(group_neighbors(X, offsets, np.arange(0, 1200, 9), 15), X, offsets, range(0, 1200, 9), 15)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("size", [50.0, 1e9])
def test_rows_far_outside_are_found_and_searched_exactly(size):
    X, offsets = made(4, n_images=60, d=32)
    far = [3, 4, 200]
    X[far] *= size
    X[far[1]] = X[far[0]] * (1 + 1e-3)
    queries = np.array([*far, *range(0, len(X), 7)])
    agree(group_neighbors(X, offsets, queries, 20), X, offsets, queries, 20)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("apart", [1e-4, 1e-9])
def test_windows_that_float32_cannot_tell_apart(apart):
    """Images and windows nearly the same: what is nearest only float64 says, and what ties only float32."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal(16) + apart * rng.standard_normal((120, 16))
    offsets = np.arange(21) * 6
    agree(group_neighbors(X, offsets, np.arange(120), 7), X, offsets, range(120), 7)


@pytest.mark.usefixtures("route")
def test_a_center_far_away_does_not_matter():
    X, offsets = made(12, kind=np.float64)
    agree(group_neighbors(X + 1e5, offsets, np.arange(50), 9), X + 1e5, offsets, range(50), 9)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_no_score_is_wrong_by_more_than_the_bound(route, scale, kind):
    """And of each image the group of windows that has the nearest is marked."""
    X, offsets = made(13, n_images=60, most=90, d=100, kind=kind)
    X = X if kind == np.float16 else (X * scale).astype(kind)
    X[7] *= 5
    x = X.astype(np.float64)
    rows = CodedRows.of(X, center_of(X), route == "codes")
    slack = search._slack(offsets, rows, rows, X.shape[1])
    _, best, groups = best_scores(X, offsets, rows, X, rows, slack)
    w = x - rows.center.astype(np.float64)
    score = w @ w.T - (w**2).sum(axis=1)[:, None] / 2
    for i, (a, z) in enumerate(pairwise(offsets)):
        if z > a:
            assert (np.abs(best[i] - score[a:z].max(axis=0)) <= slack[i]).all()
            group = score[a:z].argmax(axis=0) // max(4, -(-(z - a) // 64))
            assert (groups[i] >> group.astype(np.uint64) & np.uint64(1)).all()
    if route == "codes":
        assert slack.max() < 0.1 * np.abs(score).max()  # and the bound rules something out


def test_constant_features_are_all_ties():
    X, offsets = np.ones((12, 8), np.float32), np.array([0, 3, 3, 7, 12])
    found = group_neighbors(X, offsets, [11], 3)
    assert found.image.tolist() == [[0, 2, 3]]
    assert found.window.tolist() == [[0, 3, 7]]
    assert found.distance.tolist() == [[0, 0, 0]]


def test_the_own_image_gives_the_query_itself():
    X, offsets = made(5)
    unique = np.unique(X, axis=0, return_index=True)[1]
    found = group_neighbors(X, offsets, unique, 4)
    alone = np.array([(X[q] == X).all(axis=1).sum() == 1 for q in unique])
    assert (found.window[alone, 0] == unique[alone]).all()
    assert (found.image[alone, 0] == found.own[alone]).all()
    assert (found.distance[:, 0] == 0).all()
    assert (np.diff(found.distance, axis=1) >= 0).all()


def test_workers_do_not_matter_and_a_smaller_k_is_a_part():
    X, offsets = made(6, n_images=40, most=30)
    queries = np.arange(len(X))
    one = group_neighbors(X, offsets, queries, 20, block=64, workers=1)
    for other in (
        group_neighbors(X, offsets, queries, 20, block=50, workers=3),
        group_neighbors(X, offsets, np.ones(len(X), bool), 20),
    ):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    few = group_neighbors(X, offsets, queries, 5)
    np.testing.assert_array_equal(few.window, one.window[:, :5])


def test_a_stopped_run_goes_on_with_the_blocks_that_are_missing():
    X, offsets = made(7)
    queries = np.arange(100)
    whole = list(neighbor_blocks(X, offsets, queries, 5, block=30))
    assert [len(part.queries) for part in whole] == [30, 30, 30, 10]
    seen = []
    rest = list(
        neighbor_blocks(X, offsets, queries, 5, block=30, skip={0, 2}, progress=lambda *a: seen.append(a))
    )
    assert len(rest) == 2
    for part, expected in zip(rest, (whole[1], whole[3]), strict=True):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(part, name), getattr(expected, name))
    assert seen == [("neighbors", 0, 2), ("neighbors", 1, 2), ("neighbors", 2, 2)]


def test_no_queries_no_neighbors():
    X, offsets = made(8)
    found = group_neighbors(X, offsets, np.empty(0, int), 5)
    assert found.image.shape == found.window.shape == found.distance.shape == (0, 5)


def test_mapped_features_are_read_as_they_are(tmp_path):
    X, offsets = made(9, kind=np.float16)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    agree(group_neighbors(mapped, offsets, np.arange(40), 5), X, offsets, range(40), 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": 0}, "k must"),
        ({"k": 26}, "k must"),
        ({"queries": [-1]}, "queries must"),
        ({"queries": [10**6]}, "queries must"),
        ({"queries": [0.5]}, "queries must"),
        ({"offsets": [0, 5]}, "offsets must"),
        ({"X": np.zeros((3, 2), int)}, "X must"),
        ({"X": np.full((3, 2), np.nan, np.float32), "offsets": [0, 3], "k": 1}, "finite"),
        ({"block": 0}, "block must"),
        ({"workers": 0}, "workers must"),
    ],
)
def test_bad_input_is_refused(change, says):
    X, offsets = made(10)
    with pytest.raises(InputError, match=says):
        group_neighbors(**({"X": X, "offsets": offsets, "queries": [0], "k": 3} | change))
