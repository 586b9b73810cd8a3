"""Confidences: what they are made of, and that judged boxes move them as they should."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit

from tag2box.boxes import iou_matrix
from tag2box.training.calibration import SHIFT, Calibration, calibrate, judged_shift, score_curves
from tag2box.training.confidence import (
    FEATURES,
    MIDDLE,
    NEW,
    RISE,
    TAGGED,
    Shape,
    Traits,
    evened,
    log_shares,
    overlaps,
)

RNG = np.random.default_rng(0)


def test_shares_are_the_softmax_within_a_class():
    scores, label = RNG.normal(size=9), np.array([0, 0, 0, 2, 2, 5, 5, 5, 5])
    expected = np.concatenate([log_softmax(scores[label == c]) for c in (0, 2, 5)])
    np.testing.assert_allclose(log_shares(scores, label), expected)
    assert log_shares(np.empty(0), np.empty(0, np.intp)).shape == (0,)


def test_overlaps_are_the_diagonal_of_all():
    corner = RNG.uniform(0, 50, (2, 30, 2))
    a, b = np.concatenate([corner, corner + RNG.uniform(5, 40, corner.shape)], axis=2)
    np.testing.assert_allclose(overlaps(a, b), np.diag(iou_matrix(a, b)))


@pytest.mark.parametrize("table", [NEW, TAGGED])
def test_what_nobody_knows_counts_as_the_mean(table):
    shape = Shape.of(table)
    features = np.tile(shape.mean, (2, 1))
    features[0, :] = np.nan
    np.testing.assert_allclose(shape.logit(features), shape.bias)
    assert len(shape.weights) == len(FEATURES)
    assert (shape.spread > 0).all()


def test_a_box_that_scores_more_is_surer_whether_new_or_tagged():
    calibration = Calibration(np.array([[1.0, 0.0]]), np.array([[-2.0, 0.5]]))
    scores, label, same = np.linspace(-30, 30, 7), np.zeros(7, np.intp), np.ones(7)
    features = calibration.features(scores, label, -0.5 * same, 0.5 * same, -2 * same)
    new, tagged = calibration(features, label), calibration(features, label, tagged=True)
    assert (np.diff(new) > 0).all()
    assert (np.diff(tagged) >= 0).all()


@pytest.mark.parametrize(("tagged", "table"), [(False, NEW), (True, TAGGED)])
def test_a_confidence_is_the_fitted_probability_and_of_new_boxes_evened(tagged, table):
    calibration, label = Calibration(np.array([[1.0, 0.0]])), np.zeros(50, np.intp)
    features = np.tile(np.nan, (50, len(FEATURES)))
    features[:, 0] = np.linspace(-15, 5, 50)
    probability = expit(Shape.of(table).logit(features))
    expected = probability if tagged else evened(probability)
    np.testing.assert_allclose(calibration(features, label, tagged=tagged), expected)


def test_the_middle_is_shown_at_one_half_and_nothing_else_moves():
    probability = np.linspace(0, 1, 2001)
    confidence, (least, most) = evened(probability), MIDDLE
    assert least < 0.5 < 0.5 + RISE < most  # so no two confidences change places
    assert (np.diff(confidence) > 0).all()
    middle = (probability >= least) & (probability < most)
    assert ((confidence[middle] >= 0.5) & (confidence[middle] < 0.5 + RISE)).all()
    np.testing.assert_array_equal(confidence[~middle], probability[~middle])
    np.testing.assert_array_equal(probability >= least, confidence >= 0.5)


def test_where_half_of_the_middle_is_right_evening_costs_no_trust():
    probability = np.repeat(np.linspace(0.3, 0.7, 5), 100)
    right = np.concatenate([np.arange(100) < 100 * p for p in probability[::100]])
    confidence = evened(probability, (0.3, 0.71))
    assert abs(confidence.mean() - right.mean()) <= RISE


def test_the_shift_of_judged_boxes_is_the_most_likely_one():
    confidence, right = RNG.uniform(0.05, 0.95, 30), RNG.random(30) < 0.3

    def loss(shift):
        p = expit(logit(confidence) + shift)
        return -np.log(np.where(right, p, 1 - p)).sum() + shift**2 / (2 * SHIFT**2)

    assert judged_shift(confidence, right) == pytest.approx(minimize_scalar(loss).x, abs=1e-4)
    assert judged_shift(np.empty(0), np.empty(0, bool)) == 0
    assert (
        judged_shift(np.full(200, 0.5), np.ones(200, bool))
        > 2
        > judged_shift(np.array([0.5]), np.ones(1, bool))
    )


def test_traits_are_those_of_the_boxes_of_a_class():
    log_areas = RNG.uniform(-3, 0, 7)
    assert Traits.of(log_areas, 0.4) == pytest.approx((np.median(log_areas), 0.4))
    assert np.isnan(Traits.of(log_areas, np.nan).ahead)  # no SVM was asked
    assert np.isnan(Traits.of(log_areas[:0], 0.4)).all()


def best_of_photos(n, n_classes):
    """The best score of each class in every photo, greater where it is, and the tags."""
    best, tags = RNG.normal(size=(n, n_classes)), np.where(RNG.random((n, n_classes)) < 0.4, 1, -1)
    best[tags == 1] += 2
    return best, tags.astype(np.int8)


def test_scores_are_measured_from_the_typical_photo_of_a_class_by_one_slope():
    best, tags = best_of_photos(300, 3)
    best[0] = -np.inf  # a photo without any window
    curves, away = score_curves(best, tags), []
    for c in range(3):
        positive = best[(tags[:, c] == 1) & np.isfinite(best[:, c]), c]
        assert np.median(curves[c, 0] * positive + curves[c, 1]) == pytest.approx(0)
        away += (positive - np.median(positive)).tolist()
    told = np.median(calibrate(best, tags)[:, 0])
    np.testing.assert_allclose(curves[:, 0], np.sqrt(told / np.sqrt(np.mean(np.square(away)))))


def test_what_nobody_knows_of_tags_is_left_out_of_the_slope():
    best, tags = best_of_photos(300, 2)
    positive = best[tags[:, 0] == 1, :1]
    curves = score_curves(positive, np.ones((len(positive), 1), np.int8))  # no photo without the class
    away = positive - np.median(positive)
    assert curves[0, 0] == pytest.approx(1 / np.sqrt(np.mean(np.square(away))))
    assert score_curves(best[:, :1], -np.ones((300, 1), np.int8)).tolist() == [[1, 0]]  # nor one with it
    assert score_curves(best[:1], np.ones((1, 2), np.int8))[:, 0].tolist() == [1, 1]  # one photo


def test_the_scale_of_scores_does_not_matter():
    best, tags = best_of_photos(3000, 2)
    curves, scaled = score_curves(best, tags), score_curves(7 * best + 3, tags)
    again = scaled[:, :1] * (7 * best.T + 3) + scaled[:, 1:]
    np.testing.assert_allclose(again, curves[:, :1] * best.T + curves[:, 1:], rtol=0.02, atol=0.02)


def test_what_is_farther_off_than_anything_fitted_says_no_more():
    shape = Shape.of(TAGGED)
    features = np.tile(shape.mean, (3, 1))
    features[1] -= 3 * shape.spread
    features[2] -= 50 * shape.spread
    features[:, 0] = shape.mean[0]
    _, far, farther = shape.logit(features)
    assert far == pytest.approx(farther)
    scores = np.tile(Shape.of(NEW).mean, (3, 1))
    scores[:, 0] = [-60, -50, 60]
    assert (np.diff(Shape.of(NEW).logit(scores)) > 0).all()  # the ranking stays
