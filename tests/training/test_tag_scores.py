"""Suspect tags: the closed form is that of leaving photos out one by one, and it finds wrong tags."""

import numpy as np

from tag2box.description.record import Described, Maps
from tag2box.training.tag_scores import PENALTIES, TagScores, judge_tags, leave_one_out
from tag2box.windows.record import Windows


def test_the_closed_form_is_leaving_each_photo_out(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4))
    X -= X.mean(axis=0)
    tags = rng.choice([-1, 0, 1], (12, 2)).astype(np.int8)
    monkeypatch.setattr("tag2box.training.tag_scores.PENALTIES", (0.7,))
    penalty = 0.7 * np.linalg.eigvalsh(X.T @ X).mean()
    slow = np.empty((12, 2))
    for i in range(12):
        rest = np.arange(12) != i
        # The intercept is not penalized: the one more column is free.
        A = np.column_stack([X[rest], np.ones(11)])
        ridge = np.diag([penalty] * 4 + [0.0])
        theta = np.linalg.solve(A.T @ A + ridge, A.T @ tags[rest].astype(float))
        slow[i] = np.append(X[i], 1) @ theta
    np.testing.assert_allclose(leave_one_out(X, tags), slow, atol=1e-9)


def photos(n, c, rng):
    """Photos of 3 x 3 cells; those with the class have more of the first channel in one of them."""
    tags = np.full((n, 2), -1, np.int8)
    tags[: n // 2, 0] = tags[::3, 1] = 1
    cells = rng.normal(size=(n, 9, c))
    for k in range(2):
        cells[tags[:, k] == 1, 4, k] += 4
    maps = Maps(cells.reshape(-1, c), np.arange(n + 1) * 9, np.full((n, 2), 3))
    windows = Windows(np.tile(np.float32([0, 0, 9, 9]), (n, 1)), np.arange(n + 1), np.full((n, 2), 9))
    return Described(windows, np.zeros((n, 2), np.float32), maps), tags


def test_tags_that_were_turned_round_are_the_first_suspects():
    rng = np.random.default_rng(1)
    described, tags = photos(200, 8, rng)
    flipped = rng.choice(tags.size, 20, replace=False)
    given = tags.copy()
    given.ravel()[flipped] *= -1
    scores = judge_tags(described, given)
    assert ((scores.probability >= 0) & (scores.probability <= 1)).all()
    first = np.argsort(-scores.suspicion(given).ravel())[:40]
    assert np.isin(flipped, first).mean() >= 0.8
    odd = np.flatnonzero(scores.odd(given))
    assert np.isin(odd, flipped).mean() >= 0.8
    assert np.isin(flipped, odd).mean() >= 0.7


def test_right_tags_of_rare_classes_are_not_odd():
    """Of a class that few photos have, tags that are set have a low probability: none is odd for that."""
    p = np.concatenate([np.full(5, 0.2), np.full(95, 0.04)])[:, None]
    tags = np.where(np.arange(100) < 5, 1, -1).astype(np.int8)[:, None]
    assert (TagScores(p).suspicion(tags)[:5] > 0.5).all()
    assert not TagScores(p).odd(tags).any()
    p[0] = 0.01  # this one is as unlikely as those without
    assert np.flatnonzero(TagScores(p).odd(tags)).tolist() == [0]
    p[0], p[50] = 0.2, 0.7
    assert np.flatnonzero(TagScores(p).odd(tags)).tolist() == [50]
    assert not TagScores(p).odd(np.abs(tags)).any()  # where all photos have it, nothing is known


def test_a_tag_that_nobody_knows_is_no_suspect():
    tags = np.array([[1, 0], [-1, 1]], np.int8)
    scores = TagScores(np.array([[0.1, 0.9], [0.6, 0.8]]))
    np.testing.assert_allclose(scores.suspicion(tags), [[0.9, 0], [0.6, 0.2]])
    assert not scores.odd(tags)[0, 1]


def test_penalties_span_what_photos_need():
    assert list(PENALTIES) == sorted(PENALTIES)
