"""Confidences against the share of boxes that are right."""

import numpy as np
import pytest

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.reliability import reliability
from tag2box.images import Truth
from tag2box.report.charts import reliability_chart

HERE, THERE = [0, 0, 10, 10], [50, 50, 60, 60]


def one_object_in_each(n, difficult=False):
    return Truth(np.arange(n), np.array([HERE] * n, np.float32), np.zeros(n, np.intp), np.full(n, difficult))


def found(right, confidence):
    boxes = [HERE if each else THERE for each in right]
    return Detections(np.arange(len(right)), boxes, confidence, np.zeros(len(right), np.intp))


def test_it_is_zero_where_confidences_are_the_share_of_right_boxes():
    right = np.arange(1000) % 10 < 7
    assert reliability(found(right, np.full(1000, 0.7)), one_object_in_each(1000)).error < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_error_is_the_slow_one(seed):
    rng = np.random.default_rng(seed)
    confidence, right = rng.uniform(0, 1, 300), rng.uniform(0, 1, 300) < 0.4
    expected, kept = 0.0, confidence >= 0.1
    for k in range(10):
        mine = kept & (confidence >= k / 10) & (confidence < (k + 1) / 10)
        if mine.any():
            expected += mine.sum() * abs(confidence[mine].mean() - right[mine].mean()) / kept.sum()
    sure = reliability(found(right, confidence), one_object_in_each(300))
    assert sure.error == pytest.approx(expected)
    assert sure.boxes.sum() == kept.sum()
    assert np.isnan(sure.right[0])  # nothing below 0.1


def test_difficult_objects_and_no_detections_do_not_count():
    assert reliability(found([True], [0.2]), one_object_in_each(1, difficult=True)).boxes.sum() == 0
    assert reliability(found([], []), one_object_in_each(1)).error == 0


def test_margins_are_refused():
    with pytest.raises(InputError, match="must be confidences"):
        reliability(found([True], [1.5]), one_object_in_each(1))


def test_the_chart_has_a_dot_for_each_bin():
    drawn = reliability_chart([0.2, 0.6], [0.1, 0.5], "sure <enough>")
    assert drawn.count("<circle") == 2
    assert "sure &lt;enough&gt;" in drawn
