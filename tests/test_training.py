"""From degrees to detectors: each stage against a slow and obvious twin, or a peer that everybody trusts."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from tag2box import (
    Bags,
    LatentSVC,
    SmoothLatentSVC,
    cover_graph,
    greedy_cover,
    group_neighbors,
    negative_mining,
    smoothed_max,
)
from tag2box.boxes import iou_matrix
from tag2box.cover.config import CoverConfig, known_tags
from tag2box.cover.degrees import block_count, count_blocks, count_neighbors, join_degrees
from tag2box.cover.sample import draw_images, draw_sample
from tag2box.cover.stage import find_covers
from tag2box.errors import InputError
from tag2box.features.record import Features
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.training.initial import InitialConfig, first_positives, train_initial
from tag2box.training.refinement import RefineConfig, refine
from tag2box.windows.search import Windows

N_IMAGES, N_WINDOWS, D = 36, 12, 10
SVM = InitialConfig(C=0.01, bias=1.0, rounds=20, hardest=40)
FREE = RefineConfig(C=0.05, bias=1.0, prior=0.0, objectness_weight=0.0, rounds=30, top=2, tol=1e-6)


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
    windows = Windows(xyxy.reshape(-1, 4).astype(np.float32), offsets, np.full((N_IMAGES, 2), 100))
    return windows, Features(X.reshape(-1, D), offsets), tags


@pytest.fixture(scope="module")
def trained(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D, snap="contrast")
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


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_degrees_go_on_where_they_were_stopped(data, tmp_path, monkeypatch, stop):
    """Blocks that were counted before a stop are not counted again, and the bytes are those of one go."""
    _, features, tags = data
    config = CoverConfig(dimensions=D)
    monkeypatch.setattr("tag2box.neighbors.search.BLOCK", 32)
    whole = count_neighbors(features, tags, config)
    blocks = block_count(features, tags, config)
    assert blocks > 5
    run, counted = Runner(Store(tmp_path), workers=2), []
    run.keys["degrees"] = stage_key("degrees", 1, {})

    def count(skip, progress, stop=None):
        todo = [i for i in range(blocks) if i not in skip]
        for i, part in zip(
            todo, count_blocks(features, tags, config, skip, progress, workers=2), strict=True
        ):
            if i == stop:
                raise KeyboardInterrupt
            counted.append(i)
            yield part

    join = partial(join_degrees, features, tags, config)
    with pytest.raises(KeyboardInterrupt):
        run.in_blocks("degrees", blocks, partial(count, stop=stop), join)
    found = run.in_blocks("degrees", blocks, count, join)
    assert counted == list(range(blocks))
    assert found.above.tobytes() == whole.above.tobytes()
    assert found.far.tobytes() == whole.far.tobytes()


def test_without_a_positive_image_there_is_nothing_to_count(data):
    _, features, tags = data
    none = count_neighbors(features, -np.abs(tags), CoverConfig(dimensions=D))
    assert not none.above.any()
    assert not none.far.any()
    assert none.above.shape == (len(features.X), tags.shape[1])


def test_of_many_images_a_sample_is_covered_exactly(data):
    """The covers of a sample are those of its images alone, in rows of all."""
    windows, features, tags = data
    config = CoverConfig(dimensions=D, most_images=20, snap="contrast")
    some = draw_sample(windows, features, tags, config)
    assert len(some.tags) == 20
    found = find_covers(
        some.windows, some.features, some.tags, count_neighbors(some.features, some.tags, config), config
    )
    rows = windows.rows_of(some.images)
    alone = Windows(windows.xyxy[rows], np.arange(21) * N_WINDOWS, np.full((20, 2), 100))
    apart = Features(features.X[rows], alone.offsets), tags[some.images]
    expected = find_covers(alone, *apart, count_neighbors(*apart, config), config)
    for c, (cover, same) in enumerate(zip(found, expected, strict=True)):
        back = some.found(cover)
        np.testing.assert_array_equal(back.covered, rows[same.covered])
        np.testing.assert_array_equal(back.image, windows.image_of(back.covered))
        np.testing.assert_array_equal(back.selected, rows[same.selected])
        assert (tags[back.image, c] == 1).all()
    whole = draw_sample(windows, features, tags, CoverConfig(most_images=N_IMAGES))
    assert whole.features is features
    assert whole.found(cover) is cover


def test_a_sample_has_as_many_positives_of_each_class():
    rng = np.random.default_rng(0)
    tags = np.where(rng.random((1000, 3)) < [0.02, 0.1, 0.9], 1, -1).astype(np.int8)
    chosen = draw_images(tags, 120)
    assert len(chosen) == len(np.unique(chosen)) == 120
    np.testing.assert_array_equal(chosen, draw_images(tags, 120))
    positives = (tags[chosen] == 1).sum(axis=0)
    assert (positives >= np.minimum((tags == 1).sum(axis=0), 20)).all()


def test_only_the_first_dimensions_are_compared(data):
    """Each row as long as it was: by all dimensions, or the first as they are, other windows are nearest."""
    _, features, tags = data
    X = np.hstack([features.X, 3 * np.random.default_rng(5).normal(size=(len(features.X), 3))])
    scaled = X[:, :D] * (np.linalg.norm(X, axis=1) / np.linalg.norm(X[:, :D], axis=1))[:, None]

    def above(X, dimensions):
        some = Features(X.astype(np.float32), features.offsets)
        return count_neighbors(some, tags, CoverConfig(dimensions=dimensions)).above

    found = above(X, D)
    np.testing.assert_allclose(found, above(scaled, D))
    for other in (above(X, D + 3), above(X[:, :D], D)):
        assert (found != other).mean() > 0.05


def test_the_cover_is_that_of_the_whole_table(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D, seeds=1.0, snap="none", method="marginal")
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
    config = CoverConfig(initializer="negative_mining", dimensions=D, k=1.0)
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


def test_snapping_goes_to_the_best_objectness_that_overlaps(data):
    windows, features, tags = data
    plain = CoverConfig(dimensions=D, snap="none")
    degrees = count_neighbors(features, tags, plain)
    share = np.random.default_rng(4).random((len(features.X), 2)).astype(np.float32)
    snapped = find_covers(
        windows, features, tags, degrees, CoverConfig(dimensions=D, snap="objectness"), objectness=share
    )
    for c, cover in enumerate(find_covers(windows, features, tags, degrees, plain)):
        expected = set()
        for row in cover.covered:
            mine = row // N_WINDOWS * N_WINDOWS + np.arange(N_WINDOWS)
            near = mine[iou_matrix(windows.xyxy[[row]], windows.xyxy[mine])[0] >= 0.1]
            expected.add(int(near[share[near, c].argmax()]))
        assert set(snapped[c].covered.tolist()) == expected
    nothing = find_covers(
        windows, features, tags, degrees, CoverConfig(dimensions=D), objectness=np.zeros_like(share)
    )
    for cover, same in zip(find_covers(windows, features, tags, degrees, plain), nothing, strict=True):
        assert set(same.covered.tolist()) == set(cover.covered.tolist())  # a tie leaves a window where it is
    with pytest.raises(InputError, match="needs the objectness"):
        find_covers(windows, features, tags, degrees, CoverConfig(dimensions=D))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoverConfig(k=0), "k must lie above 0"),
        (lambda: CoverConfig(method="greedy"), "method must be one of marginal, score"),
        (lambda: CoverConfig(dimensions=0), "dimensions must be at least 1"),
        (lambda: InitialConfig(loss="hinge"), "loss must be"),
        (lambda: RefineConfig(loss="hinge"), "loss must be"),
        (lambda: InitialConfig(C=0), "C must be above 0"),
        (lambda: RefineConfig(method="svm"), "method must be one of slsvm, lsvm, none"),
        (lambda: RefineConfig(mu=0), "mu must be above 0"),
        (lambda: RefineConfig(objectness_weight=-1), "objectness_weight must be at least 0"),
        (lambda: CoverConfig(snap="yes"), "snap must be one of objectness, contrast, none"),
    ],
)
def test_bad_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
