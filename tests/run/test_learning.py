"""How far learning again is, and the time left."""

import pytest

from tag2box.run.learning import ENDS, share_of, working


def test_the_share_that_is_done_never_falls():
    steps = [share_of(label, done, 4) for label in ENDS for done in range(5)]
    assert steps == sorted(steps)
    assert steps[0] == 0 < steps[-1] < 1
    assert share_of("a step of a later version", 1, 2) == 0
    assert share_of("reading", 0, 0) == 0


def test_the_time_left_is_told_once_it_can_be_believed():
    assert working("reading", 0.05, 3.0)["left"] is None
    assert working("two streams", 0.75, 30.0)["left"] == pytest.approx(10)
    assert working("reading what was learned", 1.0)["left"] == 0
