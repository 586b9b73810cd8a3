"""The two-stream head: its gradient, its limits, and that it finds what only it can."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tag2box.description.record import Described
from tag2box.errors import InputError
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.two_stream import (
    Shown,
    TwoStream,
    TwoStreamConfig,
    _loss_of,
    _parts,
    fit_two_stream,
    train_two_stream,
)
from tag2box.windows.record import Windows


def known_of(X, offsets, tags, objectness):
    """Photos of which only these are known: where their windows are does not matter here."""
    n = len(offsets) - 1
    windows = Windows(np.tile(np.float32([0, 0, 9, 9]), (len(X), 1)), offsets, np.full((n, 2), 9))
    return Known(Described(windows, X), tags, Objectness(objectness, offsets))


def problem(n_photos=6, windows=5, d=4, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.arange(n_photos + 1) * windows
    X = rng.normal(size=(n_photos * windows, d)).astype(np.float32)
    tags = rng.choice([-1, 0, 1], (n_photos, n_classes)).astype(np.int8)
    return known_of(X, offsets, tags, rng.random((len(X), n_classes)).astype(np.float32))


def slow_loss(theta, known, prior, shown=None):
    """The loss as the docstring writes it, photo by photo and window by window."""
    described, tags, objectness = known.described, known.tags, known.objectness
    n_classes, d = tags.shape[1], described.X.shape[1]
    T = theta.reshape(2 * n_classes, d + 1)
    total = 0.0
    for i, (a, z) in enumerate(described.spans()):
        X = described.X[a:z].astype(np.float64)
        what = np.exp(X @ T[:n_classes, :d].T + T[:n_classes, d])
        what /= 1 + what.sum(axis=1, keepdims=True)
        where = np.exp(X @ T[n_classes:, :d].T + prior * objectness[i])
        where /= where.sum(axis=0)
        both = what * where if shown is None else what * where * shown.windows.get(i, 1)
        phi = both.sum(axis=0)
        for c in range(n_classes):
            total -= (1 if shown is None else shown.weight[i, c]) * {
                1: np.log(phi[c]),
                -1: np.log(1 - phi[c]),
                0: 0.0,
            }[int(tags[i, c])]
    return total


def test_value_and_gradient_are_those_of_the_formula():
    known = problem()
    (part,) = _parts(known)
    theta = np.random.default_rng(1).normal(size=2 * 3 * 5)
    value, gradient = _loss_of(theta.reshape(6, 5).astype(np.float32), np.float32(2), part)
    assert value == pytest.approx(slow_loss(theta, known, 2.0), rel=1e-5)
    expected = approx_fprime(theta, slow_loss, 1e-6, known, 2.0)
    np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-3, atol=1e-3)


def test_so_they_are_with_what_a_person_has_shown():
    known, rng = problem(), np.random.default_rng(3)
    windows = {i: np.vstack([rng.random((4, 3)) < 0.5, np.ones((1, 3), bool)]) for i in (1, 4)}
    shown = Shown(windows, rng.uniform(0.5, 3, (6, 3)).astype(np.float32))
    (part,) = _parts(known, shown)
    theta = rng.normal(size=2 * 3 * 5)
    value, gradient = _loss_of(theta.reshape(6, 5).astype(np.float32), np.float32(2), part)
    assert value == pytest.approx(slow_loss(theta, known, 2.0, shown), rel=1e-5)
    expected = approx_fprime(theta, slow_loss, 1e-6, known, 2.0, shown)
    np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-3, atol=2e-3)


def test_learning_goes_on_from_another_head():
    known, config = problem(n_photos=12), TwoStreamConfig(prior=1.0, iterations=300)
    whole = train_two_stream(known, config)
    again = fit_two_stream(known, config, start=whole)
    assert len(again.trace) < 5  # it begins where it ends
    np.testing.assert_allclose(again.W, whole.W, atol=0.05)


def test_scores_are_the_logarithms_of_both_streams():
    known = problem()
    rng = np.random.default_rng(2)
    W, V = (rng.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
    b = rng.normal(size=3).astype(np.float32)
    X, objectness = known.described.X[:5], known.objectness[0]
    what = np.exp(X @ W.T + b)
    what /= 1 + what.sum(axis=1, keepdims=True)
    where = np.exp(X @ V.T + 3 * objectness)
    where /= where.sum(axis=0)
    np.testing.assert_allclose(
        TwoStream(W, V, b, 3.0).log_scores(X, objectness), np.log(what * where), rtol=1e-4, atol=1e-5
    )
    assert TwoStream(W, V, b, 3.0).log_scores(X[:0], objectness[:0]).shape == (0, 3)


def test_blocks_and_threads_change_nothing(monkeypatch):
    known = problem(n_photos=7)
    config = TwoStreamConfig(prior=5, iterations=5)
    one, two = (train_two_stream(known, config, workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(one.W, two.W)
    np.testing.assert_array_equal(one.V, two.V)
    monkeypatch.setattr("tag2box.training.two_stream.BLOCK", 2)
    monkeypatch.setattr("tag2box.training.two_stream.SMALL", 3)
    small = train_two_stream(known, config, workers=2)
    np.testing.assert_allclose(small.W, one.W, rtol=1e-3, atol=1e-4)
    assert np.diff(one.trace).max() <= 0


def rider_and_horse(n=60, seed=0):
    """Photos of three windows, as vectors, offsets and tags: a horse, in some a rider too, and ground.

    There is no rider without a horse.
    """
    rng = np.random.default_rng(seed)
    X, tags = [], []
    for i in range(n):
        kind = ("horse", "both", "none")[i % 3]
        rows = rng.normal(0, 0.3, (3, 4))
        rows[:, 3] = 1  # ground
        if kind != "none":
            rows[0, 0] += 3  # a horse
        if kind == "both":
            rows[1, 1] += 3  # a person
        X.append(rows)
        tags.append({"horse": (1, -1), "both": (1, 1), "none": (-1, -1)}[kind])
    offsets = np.arange(n + 1) * 3
    return np.concatenate(X).astype(np.float32), offsets, np.array(tags, np.int8)


@pytest.mark.parametrize("wrong", [0, 1])
def test_classes_compete_for_a_window(wrong):
    X, offsets, tags = rider_and_horse()
    objectness = np.zeros((len(X), 2), np.float32)
    objectness[wrong::3] = 0.2  # a prior that likes the same window for both
    known = known_of(X, offsets, tags, objectness)
    head = train_two_stream(known, TwoStreamConfig(prior=1, regularization=1e-3))
    both = np.flatnonzero(tags[:, 1] == 1)
    scores = np.array([head.log_scores(X[3 * i : 3 * i + 3], known.objectness[i]) for i in both])
    assert (scores[:, :, 0].argmax(axis=1) == 0).mean() > 0.9
    assert (scores[:, :, 1].argmax(axis=1) == 1).mean() > 0.9


def test_one_class_alone_is_learned():
    X, offsets, tags = rider_and_horse()
    known = known_of(X, offsets, tags[:, :1], np.zeros((len(X), 1), np.float32))
    head = train_two_stream(known, TwoStreamConfig(prior=5, regularization=1e-3))
    best = [head.log_scores(X[3 * i : 3 * i + 3], known.objectness[i]).max() for i in range(len(tags))]
    present = tags[:, 0] == 1
    assert np.min(np.array(best)[present]) > np.max(np.array(best)[~present])


def test_photos_without_windows_are_left_out():
    known = problem()
    offsets, X = known.described.offsets, known.described.X
    tags = np.insert(known.tags, 3, 1, axis=0)
    more = known_of(X, np.insert(offsets, 3, offsets[3]), tags, known.objectness.values)
    config = TwoStreamConfig(prior=5, iterations=3)
    np.testing.assert_array_equal(train_two_stream(known, config).W, train_two_stream(more, config).W)


@pytest.mark.parametrize("wrong", [{"weight": -1}, {"prior": -1}, {"regularization": 0}, {"iterations": 0}])
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InputError):
        TwoStreamConfig(**wrong)
