"""Retraining on found boxes: what is positive, what is negative, and what that teaches."""

from dataclasses import replace

import numpy as np
import pytest
from tests._describing import random_object_maps

from tag2box.boxes import iou_matrix
from tag2box.description.record import Described, Maps
from tag2box.errors import InputError
from tag2box.training.activations import Activations
from tag2box.training.calibration import score_curves
from tag2box.training.findings import best_windows, find_best
from tag2box.training.initial import InitialConfig
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness, measure_objectness
from tag2box.training.retraining import Found, RetrainConfig, find_boxes, label_windows, retrain
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
    found = Found.windows(windows, (np.array([7, 130]),))
    config = RetrainConfig(positives=3)
    (positive,), (negative,) = label_windows(windows, tags, found, config)
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


def test_only_photos_to_learn_from_have_labels():
    windows, tags = random_windows(), np.array([[1], [-1], [1], [-1]], np.int8)
    found = Found.windows(windows, (np.array([7, 130]),))
    photos = np.array([True, False, False, True])
    (positive,), (negative,) = label_windows(windows, tags, found, RetrainConfig(), photos)
    assert 7 in positive
    assert set(windows.image_of(np.array([*positive, *negative])).tolist()) == {0, 3}


def test_windows_near_a_box_that_is_none_of_them_are_its_positives():
    windows, tags = random_windows(), np.array([[1], [-1], [-1], [-1]], np.int8)
    box = windows.xyxy[[7]] + np.float32([1, 1, 1, 1])
    (positive,), _ = label_windows(windows, tags, Found((np.array([30]),), (box,)), RetrainConfig())
    assert positive[0] == 7
    assert 30 not in positive


def random_head(rng, n_classes, d):
    W, V = (rng.normal(size=(n_classes, d)).astype(np.float32) for _ in range(2))
    return TwoStream(W, V, np.zeros(n_classes, np.float32), 5.0)


def test_boxes_are_the_best_by_prior_and_streams():
    windows, rng = random_windows(n_images=2), np.random.default_rng(1)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    objectness = Objectness(rng.random((120, 2)).astype(np.float32), windows.offsets)
    head, tags = random_head(rng, 2, 4), np.array([[1, -1], [1, 1]], np.int8)
    found = find_boxes(Known(Described(windows, X), tags, objectness), head)
    first, second = found.rows
    score = objectness[1] + 0.5 * head.log_scores(X[60:], objectness[1])
    assert (first[1], second[0]) == tuple(60 + score.argmax(axis=0))
    assert len(first) == 2
    assert len(second) == 1
    np.testing.assert_array_equal(found.boxes[0], windows.xyxy[first])


@pytest.fixture
def many():
    """Eleven photos of two classes, with vectors, maps, tags and objectness; and a head for them."""
    windows, rng = random_windows(n_images=11), np.random.default_rng(2)
    X = rng.normal(size=(len(windows.xyxy), 6)).astype(np.float16)
    tags = rng.choice([-1, 1], (11, 2)).astype(np.int8)
    cells = rng.random((11 * 12, 3)).astype(np.float16)
    maps = Maps(cells, np.arange(12) * 12, np.tile([3, 4], (11, 1)))
    head, objectness = random_head(rng, 2, 6), rng.random((len(X), 2), np.float32)
    return Known(Described(windows, X, maps), tags, Objectness(objectness, windows.offsets)), head


@pytest.fixture
def scorer(many):
    """One that has every term."""
    rng = np.random.default_rng(3)
    U = rng.normal(size=(2, 3)).astype(np.float32)
    return Scorer(
        Weights(rng.normal(size=(2, 6)), rng.normal(size=2)),
        objectness_weight=0.7,
        streams_weight=0.4,
        tag_weight=0.3,
        object_maps=random_object_maps(rng, 2, 3),
        two_stream=many[1],
        activations=Activations(U, np.float32([0.1, -0.2])),
    )


def test_findings_are_those_of_the_formula_photo_by_photo(many, scorer):
    """A score is the sum of its terms; tags enter by the objectness, which new photos have of their maps."""
    known = many[0]
    described, windows = known.described, known.described.windows
    with_tags, without = [], []
    for i in range(len(known)):
        X, map_ = described.X[windows.rows_of([i])].astype(np.float64), described.maps[i].astype(np.float64)
        linear = X @ scorer.weights.W.T + scorer.weights.b
        logit = map_.mean(axis=(0, 1)) @ scorer.activations.U.T + scorer.activations.d
        own = measure_objectness(scorer.object_maps(map_), windows[i], windows.sizes[i], 0.25)
        for out, objectness in ((with_tags, known.objectness[i]), (without, own)):
            streams = scorer.two_stream.log_scores(X.astype(np.float32), objectness)
            out.append(linear + 0.7 * objectness + 0.4 * streams + 0.3 * logit)
    slow = best_windows(windows, known.tags, with_tags, 0.7)
    by_map = best_windows(windows, known.tags, known.objectness.by_image(known.objectness.values))
    findings = find_best(scorer, known, 0.7)
    for name in ("rows", "scores", "boxes"):
        for ours, expected in zip(getattr(findings, name), getattr(slow, name), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
    expected = score_curves(np.stack([scores.max(axis=0) for scores in without]), known.tags)
    np.testing.assert_allclose(findings.calibration.curves, expected, rtol=1e-3)
    for c, features in enumerate(findings.features):
        near = [
            iou_matrix(a[None], b[None])[0, 0] for a, b in zip(slow.boxes[c], by_map.boxes[c], strict=True)
        ]
        np.testing.assert_allclose(features[:, 2], near, rtol=1e-4)
        np.testing.assert_allclose(features[:, 1], slow.shares[c], rtol=1e-4, atol=1e-6)


def test_objectness_decides_where_its_weight_is_beyond_any_score(many, scorer):
    known = many[0]
    values = np.zeros_like(known.objectness.values)
    values[7::60] = 1
    chosen = replace(known, objectness=Objectness(values, known.objectness.offsets))
    findings = find_best(replace(scorer, objectness_weight=1000.0), chosen, 1.0)
    assert (np.concatenate(findings.rows) % 60 == 7).all()


def test_parts_and_threads_find_what_one_go_finds(many, scorer, monkeypatch):
    known, head = many
    whole, boxes = find_best(scorer, known, 0.7), find_boxes(known, head)
    monkeypatch.setattr("tag2box.training.known.SMALL", 4)
    assert len(list(known.parts())) == 3
    findings = find_best(scorer, known, 0.7, workers=2)
    for name in ("rows", "scores", "boxes"):
        for ours, expected in zip(getattr(findings, name), getattr(whole, name), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5)
    np.testing.assert_allclose(findings.calibration.curves, whole.calibration.curves, rtol=1e-3)
    for ours, expected in zip(find_boxes(known, head, workers=2).rows, boxes.rows, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_so_do_those_of_a_pass_for_hard_negatives(many, monkeypatch):
    known, head = many
    boxes = find_boxes(known, head)
    one = retrain(known, boxes, RetrainConfig())
    monkeypatch.setattr("tag2box.training.initial.BLOCK", 64)
    monkeypatch.setattr("tag2box.training.retraining.RetrainConfig.svm", InitialConfig(hardest=40, rounds=3))
    few = retrain(known, boxes, RetrainConfig(), workers=2)
    monkeypatch.setattr("tag2box.training.initial.BLOCK", 1 << 20)
    again = retrain(known, boxes, RetrainConfig())
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
    known = Known(Described(windows, 20 * X / np.linalg.norm(X, axis=1, keepdims=True)), tags)
    gap = {}
    for near in ((0.1, 0.4), (0.0, 0.0)):
        weights = retrain(known, Found.windows(windows, boxes), RetrainConfig(near=near))
        scores = known.described.X @ weights.W[0] + weights.b[0]
        gap[near] = (scores[boxes[0]] - scores[boxes[0] + 1]).mean()
    assert gap[0.1, 0.4] > gap[0.0, 0.0] + 0.3


@pytest.mark.parametrize(
    "wrong",
    [
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
