"""From covers to detectors: each stage against a slow and obvious twin, or a peer that everybody trusts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC
from tests._planted import N_IMAGES, N_WINDOWS, D, planted

from tag2box import (
    Bags,
    LatentSVC,
    SmoothLatentSVC,
    smoothed_max,
)
from tag2box.boxes import iou_matrix
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.errors import InputError
from tag2box.training.initial import InitialConfig, first_positives, train_initial
from tag2box.training.refinement import RefineConfig, refine

SVM = InitialConfig(C=0.01, bias=1.0, rounds=20, hardest=40)
FREE = RefineConfig(C=0.05, bias=1.0, prior=0.0, objectness_weight=0.0, rounds=30, top=2, tol=1e-6)


@pytest.fixture(scope="module")
def data():
    return planted()


@pytest.fixture(scope="module")
def trained(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D, snap="contrast")
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    return covers, train_initial(windows, features, tags, covers, SVM)


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
            parts = line["positive"] + line["negative"] + line["regularization"]
            assert line["objective"] == pytest.approx(parts, rel=1e-6)


def test_first_positives_do_not_overlap(data, trained):
    windows, _, _ = data
    for cover in trained[0]:
        rows = first_positives(cover, windows)
        for i in range(N_IMAGES):
            mine = rows[rows // N_WINDOWS == i]
            overlap = iou_matrix(windows.xyxy[mine], windows.xyxy[mine])
            assert (overlap[~np.eye(len(mine), dtype=bool)] <= 0.3).all()


def as_bags(data, c):
    windows, features, tags = data
    return Bags(features.X.astype(np.float64), windows.offsets), tags[:, c]


@pytest.mark.parametrize(
    ("mu", "loss"),
    [(0.01, "squared_hinge"), (0.5, "squared_hinge"), (3.0, "squared_hinge"), (0.5, "smooth_hinge")],
)
def test_slsvm_with_its_certificate_is_that_of_all_windows(data, trained, mu, loss):
    windows, features, tags = data
    initial = trained[1]
    refined = refine(windows, features, tags, initial, replace(FREE, mu=mu, loss=loss))
    for c in range(2):
        bags, y = as_bags(data, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        weight = {1: FREE.positive_weight, -1: 1}
        peer = SmoothLatentSVC(C=FREE.C, mu=mu, loss=loss, class_weight=weight, init=start, tol=1e-6)
        peer.fit(bags, y)
        assert refined.trace[c][-1]["entered"] == 0
        assert min(t["objective"] for t in refined.trace[c]) == pytest.approx(peer.objective_, rel=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge"])
def test_lsvm_falls_and_is_that_of_all_windows(data, trained, loss):
    windows, features, tags = data
    initial = trained[1]
    refined = refine(windows, features, tags, initial, replace(FREE, method="lsvm", loss=loss))
    for c in range(2):
        certified = [line["objective"] for line in refined.trace[c] if line["entered"] == 0]
        assert all(b <= a * (1 + 1e-4) for a, b in pairwise(certified))
        bags, y = as_bags(data, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        peer = LatentSVC(
            C=FREE.C,
            loss=loss,
            class_weight={1: FREE.positive_weight, -1: 1},
            init=start,
            tol=1e-6,
        ).fit(bags, y)
        assert certified[-1] == pytest.approx(peer.objective_, rel=1e-3)


def test_refinement_finds_the_planted_windows(data, trained):
    windows, features, tags = data
    initial = trained[1]
    for method in ("none", "lsvm", "slsvm"):
        refined = refine(windows, features, tags, initial, replace(FREE, method=method))
        for c in range(2):
            images = np.flatnonzero(tags[:, c] == 1)
            assert (refined.mined[c] // N_WINDOWS == images).all()
            assert (refined.mined[c] % N_WINDOWS == 1 + c).mean() > 0.8


@pytest.fixture
def objectness():
    return np.random.default_rng(3).random((N_IMAGES * N_WINDOWS, 2)).astype(np.float32)


def by_hand(data, prior, c, theta, maximum):
    """The objective of one class over all windows, scores being Xw + βv + prior; θ: (w, v)."""
    _, features, tags = data
    scores = features.X @ theta[:-1] + FREE.bias * theta[-1] + prior[:, c]
    f = maximum(scores.reshape(N_IMAGES, N_WINDOWS))
    cost = np.where(tags[:, c] == 1, FREE.C * FREE.positive_weight, FREE.C)
    return theta @ theta / 2 + cost @ np.maximum(0, 1 - tags[:, c] * f) ** 2


def theta_of(weights, c):
    return np.append(weights.W[c], weights.b[c] / FREE.bias)


def test_slsvm_with_a_prior_ends_where_no_step_leads_down(data, trained, objectness):
    windows, features, tags = data
    config = replace(FREE, mu=0.5, prior=1.5)
    refined = refine(windows, features, tags, trained[1], config, objectness=objectness)

    def smoothed(scores):
        return np.array([smoothed_max(row, 0.5)[0] for row in scores])

    for c in range(2):
        theta = theta_of(refined, c)
        value = by_hand(data, 1.5 * objectness, c, theta, smoothed)
        assert min(t["objective"] for t in refined.trace[c]) == pytest.approx(value, rel=1e-4)
        for step in np.random.default_rng(c).normal(size=(20, len(theta))):
            for size in (1e-2, 1e-1):
                assert (
                    by_hand(data, 1.5 * objectness, c, theta + size * step, smoothed) > value - 1e-4 * value
                )


def test_lsvm_with_a_prior_ends_at_the_svm_of_its_own_choice(data, trained, objectness):
    """Its windows fixed, the problem is convex: a general solver finds nothing better."""
    windows, features, tags = data
    prior = 1.5 * objectness
    config = replace(FREE, method="lsvm", prior=1.5)
    refined = refine(windows, features, tags, trained[1], config, objectness=objectness)
    for c in range(2):
        certified = [line["objective"] for line in refined.trace[c] if line["entered"] == 0]
        assert all(b <= a * (1 + 1e-4) for a, b in pairwise(certified))
        theta = theta_of(refined, c)
        scores = (features.X @ refined.W[c] + refined.b[c] + prior[:, c]).reshape(N_IMAGES, N_WINDOWS)
        choice, rows = scores.argmax(axis=1), np.arange(N_IMAGES)

        def chosen(scores, choice=choice, positive=tags[:, c] == 1, rows=rows):
            return np.where(positive, scores[rows, choice], scores.max(axis=1))

        def objective(theta, c=c, chosen=chosen):
            return by_hand(data, prior, c, theta, chosen)

        best = minimize(objective, theta, method="L-BFGS-B").fun
        assert objective(theta) <= best * (1 + 5e-3)


@pytest.mark.parametrize("method", ["lsvm", "slsvm"])
def test_a_class_that_has_not_settled_is_told(data, trained, method, caplog):
    windows, features, tags = data
    for rounds in (1, 30):
        refine(windows, features, tags, trained[1], replace(FREE, method=method, rounds=rounds))
    assert [record.getMessage() for record in caplog.records] == [
        "refinement: 2 of 2 classes still changed after 1 passes: raise refine.rounds"
    ]


def test_objectness_decides_what_is_mined(data, trained):
    """1 on one window and 0 elsewhere, with a weight that no score reaches."""
    windows, features, tags = data
    share = np.zeros((N_IMAGES, N_WINDOWS, 2), np.float32)
    share[:, 7] = 1
    for method in ("none", "lsvm", "slsvm"):
        config = replace(FREE, method=method, objectness_weight=1000.0)
        refined = refine(windows, features, tags, trained[1], config, objectness=share.reshape(-1, 2))
        assert (np.concatenate(refined.mined) % N_WINDOWS == 7).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoverConfig(k=0), "k must be a number from 1e-06 to 1, but it is 0"),
        (lambda: CoverConfig(method="greedy"), "method must be one of marginal, score"),
        (lambda: CoverConfig(dimensions=0), "dimensions must be a whole number from 1 to"),
        (lambda: InitialConfig(loss="hinge"), "loss must be"),
        (lambda: RefineConfig(loss="hinge"), "loss must be"),
        (lambda: InitialConfig(C=0), "C must be a number from 1e-09 to"),
        (lambda: RefineConfig(method="svm"), "method must be one of slsvm, lsvm, none"),
        (lambda: RefineConfig(mu=0), "mu must be a number from 1e-06"),
        (lambda: RefineConfig(objectness_weight=-1), "objectness_weight must be a number from 0 to"),
        (lambda: CoverConfig(snap="yes"), "snap must be one of objectness, contrast, none"),
    ],
)
def test_bad_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
