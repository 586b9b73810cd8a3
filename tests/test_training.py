"""From degrees to detectors: each stage against a slow and obvious twin, or a peer that everybody trusts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from tag2box import (
    Bags,
    LatentSVC,
    SmoothLatentSVC,
    cover_graph,
    greedy_cover,
    group_neighbors,
    negative_mining,
)
from tag2box import relabelling as relabelling_module
from tag2box.boxes import iou_matrix
from tag2box.errors import InputError
from tag2box.features import Features
from tag2box.first_windows import CoverConfig, count_neighbors, find_covers, known_tags
from tag2box.initial import InitialConfig, first_positives, score_windows, train_initial
from tag2box.prior import log_size
from tag2box.refinement import RefineConfig, refine
from tag2box.relabelling import relabel
from tag2box.windows import Windows

N_IMAGES, N_WINDOWS, D = 36, 12, 10
SVM = InitialConfig(C=0.01, bias=1.0, near=1.0, rounds=20, hardest=40)
FREE = RefineConfig(C=0.05, bias=1.0, folds=1, size_prior=0.0, rounds=30, top=2, tol=1e-6)


@pytest.fixture(scope="module")
def data():
    """Images of 12 windows; in a positive image of class c the window 1 + c looks like direction c."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_IMAGES, N_WINDOWS, D)).astype(np.float32)
    tags = np.full((N_IMAGES, 2), -1, np.int8)
    tags[:12, 0] = tags[8:22, 1] = 1
    for c in range(2):
        X[tags[:, c] == 1, 1 + c, c] += 5
    corner = rng.uniform(0, 60, size=(N_IMAGES, N_WINDOWS, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(20, 40, size=corner.shape)], axis=2)
    xyxy[:, 0] = (0, 0, 100, 100)
    offsets = np.arange(N_IMAGES + 1) * N_WINDOWS
    windows = Windows(xyxy.reshape(-1, 4).astype(np.float32), offsets)
    return windows, Features(X.reshape(-1, D), offsets), tags


@pytest.fixture(scope="module")
def trained(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D)
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    return covers, train_initial(windows, features, tags, covers, SVM)


def nearest_images(features, row):
    """Distance from a window to every image, by the book."""
    distance = np.linalg.norm(features.X - features.X[row], axis=1)
    return distance.reshape(N_IMAGES, N_WINDOWS).min(axis=1)


def test_degrees_are_counted_by_the_book(data):
    _, features, tags = data
    degrees = count_neighbors(features, tags, CoverConfig(dimensions=D))
    for c in range(2):
        positive = tags[:, c] == 1
        k = positive.sum() // 2
        for row in range(0, len(features.X), 7):
            if not positive[row // N_WINDOWS]:
                assert degrees.above[row, c] == degrees.far[row, c] == 0
                continue
            distance = nearest_images(features, row)
            hits = positive[np.argsort(distance, kind="stable")[:k]].sum()
            chance = (positive.sum() - 1) / (N_IMAGES - 1)
            assert degrees.above[row, c] == pytest.approx((hits - 1) / (k - 1) - chance)


def test_only_the_first_dimensions_are_compared(data):
    _, features, tags = data
    noisy = Features(
        np.hstack([features.X, 1e-3 * np.ones((len(features.X), 3), np.float32)]), features.offsets
    )
    one, two = (count_neighbors(f, tags, CoverConfig(dimensions=D)) for f in (features, noisy))
    np.testing.assert_allclose(one.above, two.above)


def test_the_cover_is_that_of_the_whole_table(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D, seeds=1.0, contrast=False, method="marginal")
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    for c, cover in enumerate(covers):
        positive = np.flatnonzero(tags[:, c] == 1)
        k = len(positive) // 2
        table = group_neighbors(features.X, features.offsets, np.arange(len(features.X)), k)
        expected = greedy_cover(cover_graph(table, positive, k))
        np.testing.assert_array_equal(cover.covered, expected.covered)
        np.testing.assert_array_equal(cover.gains, expected.gains)


def test_negative_mining_is_that_of_the_whole_table(data):
    windows, features, tags = data
    config = CoverConfig(initialiser="negative_mining", dimensions=D, k=1.0)
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    depth = max((tags == 1).sum(axis=0))
    table = group_neighbors(features.X, features.offsets, np.arange(len(features.X)), int(depth))
    for c, cover in enumerate(covers):
        expected = negative_mining(table, tags[:, c] == 1)
        np.testing.assert_array_equal(np.sort(cover.covered), np.sort(expected.covered))


def test_unknown_tags_mean_what_the_setting_says():
    tags = np.array([[1, 0], [-1, 1]], np.int8)
    assert known_tags(tags, "positive").tolist() == [[1, 1], [-1, 1]]
    assert known_tags(tags, "negative").tolist() == [[1, -1], [-1, 1]]
    assert known_tags(tags, "ignore").tolist() == tags.tolist()


def test_hard_negative_mining_ends_at_the_svm_of_all_windows(data, trained):
    windows, features, tags = data
    covers, weights = trained
    for c, cover in enumerate(covers):
        rows = first_positives(cover, windows)
        negative = np.flatnonzero(np.repeat(tags[:, c] == -1, N_WINDOWS))
        X = features.X[np.concatenate([rows, negative])]
        y = np.repeat([1, -1], [len(rows), len(negative)])
        peer = LinearSVC(C=SVM.C, class_weight={1: SVM.positive_weight, -1: 1}, tol=1e-9, max_iter=100_000)
        peer.fit(X.astype(np.float64), y)
        np.testing.assert_allclose(weights.W[c], peer.coef_[0], atol=5e-3 * np.abs(peer.coef_).max())
        assert weights.b[c] == pytest.approx(peer.intercept_[0], abs=5e-3)
        for line in weights.trace[c]:
            parts = line["positive"] + line["negative"] + line["regularisation"]
            assert line["objective"] == pytest.approx(parts, rel=1e-6)


def test_first_positives_do_not_overlap(data, trained):
    windows, _, _ = data
    for cover in trained[0]:
        rows = first_positives(cover, windows)
        for i in range(N_IMAGES):
            mine = rows[rows // N_WINDOWS == i]
            overlap = iou_matrix(windows.xyxy[mine], windows.xyxy[mine])
            assert (overlap[~np.eye(len(mine), dtype=bool)] <= 0.3).all()


def test_windows_near_a_positive_share_its_weight(data, trained):
    """Two copies of every window: with both of weight one half, the SVM is that of one of them."""
    windows, features, tags = data
    twice = Windows(np.repeat(windows.xyxy, 2, axis=0), windows.offsets * 2)
    double = Features(np.repeat(features.X, 2, axis=0), features.offsets * 2)
    covers = [replace(c, covered=c.covered * 2) for c in trained[0]]
    config = replace(SVM, near=0.99, positive_weight=2 * SVM.positive_weight, hardest=1000)
    # Negatives count twice, positives once: twice the weight of positives is the same problem at half of C.
    weights = train_initial(twice, double, tags, covers, replace(config, C=SVM.C / 2))
    np.testing.assert_allclose(weights.W, trained[1].W, atol=1e-2 * np.abs(trained[1].W).max())


def as_bags(data, c):
    windows, features, tags = data
    return Bags(features.X.astype(np.float64), windows.offsets), tags[:, c]


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
def test_slsvm_with_its_certificate_is_that_of_all_windows(data, trained, mu):
    windows, features, tags = data
    covers, initial = trained
    refined = refine(windows, features, tags, covers, initial, SVM, replace(FREE, mu=mu))
    for c in range(2):
        bags, y = as_bags(data, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        weight = {1: FREE.positive_weight, -1: 1}
        peer = SmoothLatentSVC(C=FREE.C, mu=mu, class_weight=weight, init=start, tol=1e-6).fit(bags, y)
        assert refined.trace[c][-1]["entered"] == 0
        assert min(t["objective"] for t in refined.trace[c]) == pytest.approx(peer.objective_, rel=1e-3)


def test_lsvm_falls_and_is_that_of_all_windows(data, trained):
    windows, features, tags = data
    covers, initial = trained
    refined = refine(windows, features, tags, covers, initial, SVM, replace(FREE, method="lsvm"))
    for c in range(2):
        certified = [line["objective"] for line in refined.trace[c] if line["entered"] == 0]
        assert all(b <= a * (1 + 1e-4) for a, b in pairwise(certified))
        bags, y = as_bags(data, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        peer = LatentSVC(
            C=FREE.C,
            loss="squared_hinge",
            class_weight={1: FREE.positive_weight, -1: 1},
            init=start,
            tol=1e-6,
        ).fit(bags, y)
        assert certified[-1] == pytest.approx(peer.objective_, rel=1e-3)


def test_refinement_finds_the_planted_windows(data, trained):
    windows, features, tags = data
    covers, initial = trained
    for method in ("none", "lsvm", "slsvm"):
        refined = refine(windows, features, tags, covers, initial, SVM, replace(FREE, method=method, folds=3))
        for c in range(2):
            images = np.flatnonzero(tags[:, c] == 1)
            assert (refined.mined[c] // N_WINDOWS == images).all()
            assert (refined.mined[c] % N_WINDOWS == 1 + c).mean() > 0.8


def test_nobody_labels_the_images_it_was_trained_on(data, trained, monkeypatch):
    windows, features, tags = data
    seen = []
    original = relabelling_module.train_svm

    def spy(windows, features, negative, positives, config):
        rows = np.concatenate(positives)
        seen.append(set((rows // N_WINDOWS).tolist()) | set(np.flatnonzero(negative.any(axis=1)).tolist()))
        return original(windows, features, negative, positives, config)

    labelled = []

    def watch(X, weights):
        labelled.append(
            (len(seen) - 1, int(np.flatnonzero((X[0] == features.X).all(axis=1))[0]) // N_WINDOWS)
        )
        return score_windows(X, weights)

    monkeypatch.setattr(relabelling_module, "train_svm", spy)
    monkeypatch.setattr(relabelling_module, "score_windows", watch)
    positives = [first_positives(cover, windows) for cover in trained[0]]
    prior = np.zeros(len(features.X), np.float32)
    relabel(windows, features, tags, positives, prior, SVM, folds=4, rounds=1)
    assert sorted(image for _, image in labelled) == list(range(N_IMAGES))
    assert all(image not in seen[fold] for fold, image in labelled)


def test_log_size_is_relative_to_the_image():
    xyxy = np.array([[0, 0, 100, 50], [10, 10, 60, 35], [0, 0, 8, 8], [2, 2, 4, 4]], np.float32)
    expected = [0, np.log(0.5), 0, np.log(0.25)]
    np.testing.assert_allclose(log_size(xyxy, [0, 2, 2, 4]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoverConfig(k=0), "k must lie above 0"),
        (lambda: CoverConfig(method="greedy"), "method must be one of marginal, score"),
        (lambda: CoverConfig(dimensions=0), "dimensions must be at least 1"),
        (lambda: InitialConfig(loss="hinge"), "loss must be"),
        (lambda: InitialConfig(C=0), "C must be above 0"),
        (lambda: InitialConfig(near=2), "near must lie"),
        (lambda: RefineConfig(method="svm"), "method must be one of slsvm, lsvm, none"),
        (lambda: RefineConfig(mu=0), "mu must be above 0"),
    ],
)
def test_bad_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
