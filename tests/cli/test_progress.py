"""What people see while they wait: a step in their words, and a time left only once it can be believed."""

import pytest

from tag2box.cli import progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_has_few_lines_and_no_early_guess(clock, capsys):
    show = progress._Lines()
    for done in range(101):
        show("describing", done, 100)
        clock[0] += 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 12
    assert lines[0] == "looking at the photos: 2/100"  # of two photos nobody knows the speed
    assert lines[1] == "looking at the photos: 12/100, about 88 s left"
    assert lines[-1] == "looking at the photos: 100/100"


def test_what_is_over_at_once_needs_no_line(clock, capsys):
    show = progress._Lines()
    for done in range(11):
        show("describing", done, 10)
        clock[0] += 0.1
    assert capsys.readouterr().err == ""


def test_what_was_done_before_says_nothing_of_the_speed(clock):
    step = progress._Step("describing", 50)
    clock[0] += 10
    assert step.left(60, 100) == ", about 40 s left"


def test_the_whole_never_goes_back():
    whole = progress._Whole()
    steps = [("first look", 1.0), ("describing", 0.5), ("describing", 1.0), ("a new step", 0.1)]
    steps += [("two streams", 0.5), ("describing", 0.0), ("retraining", 1.0)]
    shares = [whole.share(*step) for step in steps]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
