"""Boxes found anew: no SVM has seen the photo that it searches."""

from dataclasses import replace

import numpy as np
import pytest

from tag2box.description.record import Described
from tag2box.training import folds
from tag2box.training.findings import best_windows, find_best
from tag2box.training.folds import find_anew
from tag2box.training.known import Known
from tag2box.training.retraining import Found, RetrainConfig, retrain
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.windows.record import Windows

NOTHING_ELSE = Scorer(Weights.none(1, 6))
AS_THEY_ARE = RetrainConfig(vote_iou=1.0, rounds=1)
WHOLE, PART, GROUND = [20, 20, 80, 80], [20, 20, 50, 80], [0, 0, 15, 15]


def photos(n=40, seed=0):
    """Every second photo has the object; windows: the object, a part of it, and the ground."""
    rng = np.random.default_rng(seed)
    windows = Windows(
        np.array([WHOLE, PART, GROUND] * n, np.float32), np.arange(n + 1) * 3, np.tile([100, 100], (n, 1))
    )
    X = rng.normal(0, 0.5, (3 * n, 6)).astype(np.float32)
    tags = np.where(np.arange(n) % 2, -1, 1)[:, None].astype(np.int8)
    X[0::6, 0] += 4  # the object, where it is
    return Known(Described(windows, 20 * X / np.linalg.norm(X, axis=1, keepdims=True)), tags)


def wrong_in_some(known):
    """The object in most photos, the ground in every fifth."""
    rows = known.described.offsets[:-1][known.tags[:, 0] == 1].copy()
    rows[::5] += 2
    return Found.windows(known.described.windows, (rows,))


def test_what_was_told_wrongly_is_found_by_the_other_photos():
    known = photos()
    found = wrong_in_some(known)
    again = find_anew(known, found, NOTHING_ELSE, AS_THEY_ARE)
    assert (found.rows[0] % 3 != 0).sum() == 4
    assert (again.rows[0] % 3 == 0).all()


def test_each_photo_is_searched_by_an_svm_of_the_others():
    """Slow and obvious: one SVM for each half, on its photos alone."""
    known = photos()
    found = wrong_in_some(known)
    fold = np.random.default_rng(0).permutation(len(known)) % 2
    scores, windows = [], known.described.windows
    by_half = [retrain(known, found, AS_THEY_ARE, fold == half) for half in (0, 1)]
    for i, half in enumerate(fold):
        other = by_half[1 - half]
        scores.append((known.described.X[3 * i : 3 * i + 3] @ other.W.T + other.b).astype(np.float32))
    slow = best_windows(windows, known.tags, scores, 1.0)
    again = find_anew(known, found, NOTHING_ELSE, AS_THEY_ARE)
    np.testing.assert_array_equal(again.rows[0], slow.rows[0])
    np.testing.assert_allclose(
        again.unseen.greatest, [each.max(axis=0) for each in scores], rtol=1e-4, atol=1e-4
    )


def test_a_photo_has_no_say_in_what_is_found_in_it():
    known = photos()
    found = wrong_in_some(known)
    before = find_anew(known, found, NOTHING_ELSE, AS_THEY_ARE)
    rows = found.rows[0].copy()
    rows[7] += 1  # another window of photo 14
    after = find_anew(known, Found.windows(known.described.windows, (rows,)), NOTHING_ELSE, AS_THEY_ARE)
    np.testing.assert_array_equal(before.unseen.greatest[14], after.unseen.greatest[14])
    assert (before.unseen.greatest != after.unseen.greatest).any()


@pytest.mark.parametrize("rounds", [1, 2])
def test_workers_and_parts_change_nothing(monkeypatch, rounds):
    known = photos()
    config = RetrainConfig(rounds=rounds)
    one = find_anew(known, wrong_in_some(known), NOTHING_ELSE, config)
    monkeypatch.setattr("tag2box.training.known.SMALL", 7)
    many = find_anew(known, wrong_in_some(known), NOTHING_ELSE, config, workers=2)
    np.testing.assert_array_equal(one.boxes[0], many.boxes[0])
    np.testing.assert_allclose(one.unseen.greatest, many.unseen.greatest, rtol=1e-4, atol=1e-4)


def test_no_round_keeps_the_boxes_and_the_scores_are_those_of_the_scorer():
    known = photos()
    found = wrong_in_some(known)
    again = find_anew(known, found, NOTHING_ELSE, RetrainConfig(rounds=0))
    assert again is found
    scorer = replace(NOTHING_ELSE, weights=retrain(known, found, AS_THEY_ARE))
    with_own = find_best(scorer, known, 1.0)
    np.testing.assert_array_equal(
        find_best(scorer, known, 1.0, again.unseen).calibration.curves, with_own.calibration.curves
    )


def test_curves_are_those_of_photos_that_were_not_seen():
    """An SVM knows random vectors of its own photos by heart; one that has not seen them knows nothing."""
    rng = np.random.default_rng(0)
    n, d = 40, 400
    windows = Windows(
        np.tile(np.float32([[0, 0, 50, 50], [40, 40, 90, 90]]), (n, 1)),
        np.arange(n + 1) * 2,
        np.tile([100, 100], (n, 1)),
    )
    tags = np.where(np.arange(n) % 2, -1, 1)[:, None].astype(np.int8)
    X = rng.normal(size=(2 * n, d)).astype(np.float32)
    known = Known(Described(windows, 20 * X / np.linalg.norm(X, axis=1, keepdims=True)), tags)
    found = Found.windows(windows, (known.described.offsets[:-1][::2],))
    config = RetrainConfig(C=0.1, vote_iou=1.0, rounds=1)
    scorer = Scorer(retrain(known, found, config))
    again = find_anew(known, found, Scorer(Weights.none(1, d)), config)
    by_heart = find_best(scorer, known, 1.0).calibration.curves[0, 0]
    honest = find_best(scorer, known, 1.0, again.unseen).calibration.curves[0, 0]
    assert honest < by_heart / 2


def test_there_are_two_folds():
    assert folds.FOLDS == 2  # the slow twin above is written for two
