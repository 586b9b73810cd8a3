"""Retraining on found boxes: what is positive, what is negative, and what that teaches."""

import numpy as np
import pytest

from tag2box.boxes import iou_matrix
from tag2box.description.record import Features
from tag2box.errors import InputError
from tag2box.training.findings import with_findings
from tag2box.training.initial import InitialConfig
from tag2box.training.object_maps import Maps, ObjectMaps
from tag2box.training.retraining import (
    RetrainConfig,
    agreement,
    find_boxes,
    findings,
    label_windows,
    retrain,
    score_all,
)
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream
from tag2box.windows.record import Windows


def random_windows(n_images=4, each=60, seed=0):
    rng = np.random.default_rng(seed)
    corner = rng.random((n_images * each, 2)) * 60
    xyxy = np.concatenate([corner, corner + 10 + rng.random((len(corner), 2)) * 30], axis=1)
    sizes = np.tile([100, 100], (n_images, 1))
    return Windows(xyxy.astype(np.float32), np.arange(n_images + 1) * each, sizes)


def test_labels_follow_the_overlap_with_the_box():
    windows = random_windows()
    tags = np.array([[1], [-1], [1], [0]], np.int8)
    boxes = (np.array([7, 130]),)
    config = RetrainConfig(positives=3)
    (positive,), (negative,) = label_windows(windows, tags, boxes, config)
    for image, row in ((0, 7), (2, 130)):
        rows = windows.rows_of([image])
        overlap = iou_matrix(windows.xyxy[[row]], windows.xyxy[rows])[0]
        mine = positive[windows.image_of(positive) == image]
        assert row in mine
        assert 1 <= len(mine) <= 3
        assert (overlap[mine - rows[0]] >= 0.6).all()
        others = [int(other) for other in negative if windows.image_of(other) == image]
        assert set(others) == set(rows[(overlap > 0.1) & (overlap < 0.4)])
    assert set(windows.rows_of([1])) <= set(negative)
    assert not set(windows.rows_of([3])) & {*positive, *negative}  # nothing is known of it
    assert not set(positive) & set(negative)


def test_boxes_are_the_best_by_prior_and_streams():
    windows = random_windows(n_images=2)
    rng = np.random.default_rng(1)
    X, share = rng.normal(size=(120, 4)).astype(np.float32), rng.random((120, 2)).astype(np.float32)
    head = TwoStream(
        *(rng.normal(size=(2, 4)).astype(np.float32) for _ in range(2)), np.zeros(2, np.float32), 5.0
    )
    tags = np.array([[1, -1], [1, 1]], np.int8)
    first, second = find_boxes(windows, Features(X, windows.offsets), tags, share, head)
    score = share[60:] + 0.5 * head.log_scores(X[60:], share[60:])
    assert (first[1], second[0]) == tuple(60 + score.argmax(axis=0))
    assert len(first) == 2
    assert len(second) == 1


@pytest.fixture
def many():
    """Eleven photos of two classes, with vectors, tags and objectness."""
    windows, rng = random_windows(n_images=11), np.random.default_rng(2)
    X = rng.normal(size=(len(windows.xyxy), 6)).astype(np.float16)
    tags = rng.choice([-1, 1], (11, 2)).astype(np.int8)
    head = TwoStream(
        *(rng.normal(size=(2, 6)).astype(np.float32) for _ in range(2)), np.zeros(2, np.float32), 5.0
    )
    return windows, Features(X, windows.offsets), tags, rng.random((len(X), 2), np.float32), head


def test_parts_and_threads_find_what_one_go_finds(many, monkeypatch):
    windows, features, tags, share, head = many
    maps = Maps(np.ones((11, 3), np.float16), np.arange(12), np.ones((11, 2), np.int64))
    rng = np.random.default_rng(3)
    scorer = Scorer(
        Weights(rng.normal(size=(2, 6)), np.zeros(2)),
        0.5,
        0.5,
        object_maps=ObjectMaps(np.ones((2, 3), np.float32), np.zeros(2, np.float32)),
        two_stream=head,
    )
    scores, unaided = (score_all(scorer, windows, features, maps, known) for known in (share, None))
    slow = with_findings(scorer.weights, windows, tags, scores, unaided, 0.7)
    monkeypatch.setattr("tag2box.training.photo_parts.SMALL", 4)
    found = findings(scorer, windows, features, tags, maps, share, 0.7, workers=2)
    for name in ("mined", "best", "boxes"):
        for mine, expected in zip(getattr(found, name), getattr(slow, name), strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-5)
    np.testing.assert_allclose(found.calibration, slow.calibration, rtol=1e-3)


def test_so_do_those_of_a_pass_for_hard_negatives(many, monkeypatch):
    windows, features, tags, share, head = many
    boxes = find_boxes(windows, features, tags, share, head)
    one = retrain(windows, features, tags, boxes, RetrainConfig())
    monkeypatch.setattr("tag2box.training.initial.BLOCK", 64)
    monkeypatch.setattr("tag2box.training.retraining.RetrainConfig.svm", InitialConfig(hardest=40, rounds=3))
    few = retrain(windows, features, tags, boxes, RetrainConfig(), workers=2)
    monkeypatch.setattr("tag2box.training.initial.BLOCK", 1 << 20)
    again = retrain(windows, features, tags, boxes, RetrainConfig())
    np.testing.assert_allclose(few.W, again.W, rtol=1e-4, atol=1e-6)
    assert max(round_["held"] for round_ in few.trace[0]) > 40  # it took some in
    assert not np.allclose(few.W, one.W, rtol=1e-3)


def test_a_part_of_the_object_becomes_a_negative():
    """A window that shows a part scores as high as the object, until windows near the boxes are negatives."""
    n = 40
    whole, part, ground = [20, 20, 80, 80], [20, 20, 40, 80], [0, 0, 15, 15]  # the part overlaps by a third
    xyxy = np.array([whole, part, ground] * n, np.float32)
    windows = Windows(xyxy, np.arange(n + 1) * 3, np.tile([100, 100], (n, 1)))
    rng = np.random.default_rng(0)
    X = rng.normal(0, 0.5, (3 * n, 4)).astype(np.float32)
    tags = np.where(np.arange(n) % 2, -1, 1)[:, None].astype(np.int8)
    thing = np.repeat(tags[:, 0] == 1, 3)
    X[thing & (np.arange(3 * n) % 3 < 2), 0] += 5  # whole and part look alike to the class
    X[np.arange(3 * n) % 3 == 1, 1] += 5  # but a part looks like a part, in any photo
    boxes = (windows.rows_of(tags[:, 0] == 1)[::3],)
    features = Features(20 * X / np.linalg.norm(X, axis=1, keepdims=True), windows.offsets)
    gap = {}
    for near in ((0.1, 0.4), (0.0, 0.0)):
        weights = retrain(windows, features, tags, boxes, RetrainConfig(near=near))
        scores = features.X @ weights.W[0] + weights.b[0]
        gap[near] = (scores[boxes[0]] - scores[boxes[0] + 1]).mean()
    assert gap[0.1, 0.4] > gap[0.0, 0.0] + 0.3


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "boost"},
        {"near": (0.4, 0.1)},
        {"near": (0.1,)},
        {"C": 0},
        {"positives": 0},
        {"tag_weight": -1},
    ],
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InputError):
        RetrainConfig(**wrong)


def test_agreement_counts_the_boxes_that_two_ways_have_in_common():
    xyxy = np.array([[0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 6], [20, 20, 30, 30]], np.float32)
    found, others = [xyxy[[0, 0, 0, 3]]], [xyxy[[0, 1, 2, 0]]]  # overlaps of 1, 0.8, 0.6 and 0
    assert agreement(found, others) == pytest.approx([3 / 6])
    none = np.empty((0, 4), np.float32)
    assert agreement([none], [none]) == pytest.approx([0.5])
