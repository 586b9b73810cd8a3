"""Windows where fine cells stand out."""

import numpy as np
import pytest

from tag2box.boxes import iou_matrix
from tag2box.description.details import MOST, detail_windows

SIZE = np.array([640, 480])


def scores(*places, n_classes=2, c=1, seed=0):
    """Noise, and cells that stand out at these places: rows and columns from, up to, and by how much."""
    out = np.zeros((48, 64, n_classes), np.float32)
    out[..., c] = np.random.default_rng(seed).normal(0, 0.1, (48, 64))
    for top, left, bottom, right, much in places:
        out[top:bottom, left:right, c] += much
    return out


def overlap(boxes, *true):
    return iou_matrix(np.array(true, np.float32), boxes).max(axis=1)


def test_what_stands_out_has_a_window():
    boxes = detail_windows(scores((10, 20, 13, 22, 5.0)), SIZE)
    assert overlap(boxes, (200, 100, 220, 130)) > 0.6
    assert overlap(boxes[:1], (200, 100, 220, 130)) > 0.5  # the first of all


def test_a_faint_object_beside_a_bright_one_has_one_too():
    boxes = detail_windows(scores((5, 5, 8, 8, 8.0), (30, 40, 38, 44, 2.0)), SIZE)
    assert (overlap(boxes, (50, 50, 80, 80), (400, 300, 440, 380)) > 0.6).all()


def test_both_parts_and_the_whole_are_windows():
    """Where what lies between two bright ends is fainter, one level has the ends and another the whole."""
    boxes = detail_windows(scores((20, 10, 22, 40, 2.0), (20, 10, 22, 14, 6.0), (20, 36, 22, 40, 6.0)), SIZE)
    assert (overlap(boxes, (100, 200, 400, 220), (100, 200, 140, 220), (360, 200, 400, 220)) > 0.5).all()


def test_boxes_lie_in_the_photo_and_are_few():
    boxes = detail_windows(scores((0, 0, 4, 4, 5.0), (44, 60, 48, 64, 5.0), n_classes=1, c=0), SIZE)
    assert 0 < len(boxes) <= MOST
    assert (boxes >= 0).all()
    assert (boxes[:, 2:] <= SIZE).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_where_nothing_stands_out_there_is_none(level):
    assert detail_windows(np.full((48, 64, 2), level, np.float32), SIZE).shape == (0, 4)


def test_a_class_without_details_has_none_and_changes_nothing():
    one = detail_windows(scores((10, 20, 13, 22, 5.0), n_classes=1, c=0), SIZE)
    np.testing.assert_array_equal(detail_windows(scores((10, 20, 13, 22, 5.0), n_classes=3, c=2), SIZE), one)


def test_windows_follow_the_photo_not_its_size():
    given = scores((10, 20, 13, 22, 5.0))
    np.testing.assert_allclose(detail_windows(given, 2 * SIZE), 2 * detail_windows(given, SIZE))
