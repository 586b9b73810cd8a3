import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.boxes import area, as_boxes, crowding, iou_matrix, nms, thin, vote
from tag2box.errors import InputError


def random_boxes(n, seed):
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 30, (n, 2))
    return np.hstack([corner, corner + rng.integers(1, 30, (n, 2))]).astype(np.float32)


def slow_iou(a, b):
    """Count pixels: boxes of whole numbers only."""
    pixels = [
        {(x, y) for x in range(int(x1), int(x2)) for y in range(int(y1), int(y2))}
        for x1, y1, x2, y2 in (a, b)
    ]
    return len(pixels[0] & pixels[1]) / len(pixels[0] | pixels[1])


def slow_nms(boxes, scores, iou):
    left = sorted(range(len(boxes)), key=lambda i: (-scores[i], i))
    kept = []
    while left:
        best = left.pop(0)
        kept.append(best)
        left = [i for i in left if slow_iou(boxes[best], boxes[i]) <= iou]
    return kept


def test_iou_counts_pixels():
    a, b = random_boxes(6, 0), random_boxes(7, 1)
    expected = [[slow_iou(x, y) for y in b] for x in a]
    np.testing.assert_allclose(iou_matrix(a, b), expected, rtol=1e-6)


def test_area_is_width_times_height():
    np.testing.assert_array_equal(area(np.array([[1, 2, 4, 8]], np.float32)), [18])


@given(st.integers(0, 40), st.integers(0, 10_000), st.sampled_from([0.0, 0.21, 0.3, 0.77]))
def test_nms_is_the_slow_one(n, seed, iou):
    boxes = random_boxes(n, seed)
    scores = np.random.default_rng(seed).integers(0, 5, n)
    assert nms(boxes, scores, iou).tolist() == slow_nms(boxes, scores, iou)


@given(st.integers(0, 60), st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5, 0.8, 0.99, 1.0]))
def test_thin_is_the_slow_one(n, seed, iou):
    boxes = random_boxes(n, seed)
    kept = []
    for i, overlaps in enumerate(iou_matrix(boxes, boxes)):
        if not (overlaps[kept] > np.float32(iou)).any():
            kept.append(i)
    assert thin(boxes, iou).tolist() == kept


@given(st.integers(0, 60), st.integers(0, 10_000))
def test_crowding_is_the_slow_one(n, seed):
    boxes = random_boxes(n, seed)
    alike = np.maximum.outer(area(boxes), area(boxes)) <= 2 * np.minimum.outer(area(boxes), area(boxes))
    before = np.tril(iou_matrix(boxes, boxes) * alike, -1)
    np.testing.assert_array_equal(crowding(boxes), before.max(axis=1, initial=0))


@pytest.mark.parametrize("iou", [0.1, 0.4, 1.0])
def test_a_vote_is_the_slow_one(iou):
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 60, (40, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 60, (40, 2))], axis=1).astype(np.float32)
    scores, best = rng.normal(size=40), [3, 0, 17]
    for at, voted in zip(best, vote(boxes, scores, best, iou), strict=True):
        total, weights = np.zeros(4), 0.0
        for box, score, overlap in zip(boxes, scores, iou_matrix(boxes[[at]], boxes)[0], strict=True):
            if overlap >= np.float32(iou):
                total += np.exp(score) * box
                weights += np.exp(score)
        np.testing.assert_allclose(voted, total / weights, rtol=1e-6)


def test_nobody_else_votes_at_1_and_rejected_windows_never_do():
    windows = [[0, 0, 10, 10], [0, 0, 14, 10], [0, 0, 12, 10]]
    assert vote(windows, [0.0, 5.0, 1.0], [0], 1.0).tolist() == [[0, 0, 10, 10]]
    assert vote(windows, [0.0, -np.inf, 0.0], [0]).tolist() == [[0, 0, 11, 10]]
    assert vote(windows, [-np.inf] * 3, [0]).tolist() == [[0, 0, 12, 10]]  # then all are equal


def test_overlap_of_exactly_the_threshold_stays():
    boxes = [[0, 0, 2, 1], [1, 0, 2, 1]]  # IoU 0.5 exactly
    assert thin(boxes, 0.5).tolist() == [0, 1]
    assert thin(boxes, 0.499).tolist() == [0]


def test_thin_keeps_the_order_given():
    boxes = [[0, 0, 10, 10], [20, 20, 30, 30], [0, 0, 10, 10]]
    assert thin(boxes, 0.9).tolist() == [0, 1]
    assert thin(boxes, 1.0).tolist() == [0, 1, 2]


def test_no_boxes_are_boxes_too():
    assert vote(np.empty((0, 4)), [], []).shape == (0, 4)
    assert as_boxes([]).shape == (0, 4)
    assert nms([], []).tolist() == []


@pytest.mark.parametrize(
    ("boxes", "says"),
    [([[0, 0, 5]], "shape"), ([[5, 5, 2, 9]], "x2 > x1"), ([[0, 0, np.nan, 1]], "finite")],
)
def test_bad_boxes_are_refused(boxes, says):
    with pytest.raises(InputError, match=says):
        as_boxes(boxes)


def test_bad_threshold_and_scores_are_refused():
    with pytest.raises(InputError, match="between 0 and 1"):
        thin([[0, 0, 1, 1]], 1.5)
    with pytest.raises(InputError, match="one entry per box"):
        nms([[0, 0, 1, 1]], [1, 2])
