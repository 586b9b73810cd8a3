"""How far ahead the boxes of a class are, by SVMs that have not seen the photo."""

from itertools import pairwise

import numpy as np
import pytest

from tag2box.boxes import iou_matrix
from tag2box.training.unseen import ELSEWHERE, FEW, SAME, Margins

RNG = np.random.default_rng(0)
SIZE = np.array([100, 100])


def photos(n, *, at_one_place=False):
    """Windows, scores of one class by two SVMs, and which window is the box: where the scores are great."""
    for _ in range(n):
        corner = RNG.uniform(0, 60, (40, 2))
        windows = np.concatenate([corner, corner + RNG.uniform(15, 40, (40, 2))], axis=1).astype(np.float32)
        if at_one_place:  # the middle scores more, whatever is there
            scores = iou_matrix(np.float32([[20, 20, 80, 80]]), windows)[0]
        else:
            scores = iou_matrix(windows[[7]], windows)[0]
        both = [scores[:, None].astype(np.float32), 2 * scores[:, None].astype(np.float32)]
        yield windows, both, int(scores.argmax())


def margin(box, windows, scores):
    """Slow and obvious."""
    overlap = [float(iou_matrix(box[None], window[None])[0, 0]) for window in windows]
    near = [s for s, o in zip(scores, overlap, strict=True) if o >= min(SAME, max(overlap))]
    return max(near) - max(s for s, o in zip(scores, overlap, strict=True) if o < ELSEWHERE)


def measured(photos):
    margins = Margins(1)
    for n, (windows, both, at) in enumerate(photos):
        margins.add(0, at, n % 2, windows, SIZE, both)
    return margins


def test_margins_are_those_of_the_box_and_of_its_place_in_the_photo_before():
    some = list(photos(9))
    margins = measured(some)
    own = [margin(w[at], w, both[n % 2][:, 0]) for n, (w, both, at) in enumerate(some)]
    elsewhere = [
        margin(w[at], before, scores[n % 2][:, 0])
        for n, ((before, scores, _), (w, _, at)) in enumerate(pairwise(some), 1)
    ]
    assert margins.own[0] == pytest.approx(own, abs=1e-5)
    assert margins.elsewhere[0] == pytest.approx(elsewhere, abs=1e-5)
    expected = min(np.mean(own), np.mean(own) - np.mean(elsewhere))
    assert Margins.ahead([margins])[0] == pytest.approx(expected, abs=1e-5)


def test_boxes_that_are_always_at_one_place_are_not_ahead():
    by_content, by_place = (Margins.ahead([measured(photos(40, at_one_place=o))])[0] for o in (False, True))
    assert by_content > 0.7
    assert by_place < by_content / 3


def test_few_photos_say_nothing_and_parts_count_together():
    few, more = measured(photos(FEW - 1)), measured(photos(FEW - 1))
    assert np.isnan(Margins.ahead([few])[0])
    assert np.isfinite(Margins.ahead([few, more])[0])


def test_where_every_window_is_the_box_there_is_no_margin():
    margins = Margins(1)
    windows = np.float32([[0, 0, 90, 90], [0, 0, 95, 95]])
    margins.add(0, 1, 0, windows, SIZE, [np.zeros((2, 1), np.float32)])
    assert margins.own == [[]]
