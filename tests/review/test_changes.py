"""What the page says after learning again: of each class that was judged, what moved, or why nothing did."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tag2box.corrections import Box, PhotoCorrections
from tag2box.detection.detections import Detections
from tag2box.review.changes import ENOUGH, Changes, compare, line_of_class, worth_of_more

HERE, THERE = (0, 0, 10, 10), (20, 20, 40, 40)
AS_FOUND = Box("cat", HERE, "accepted", ("cat", HERE))
ELSEWHERE = replace(AS_FOUND, xyxy=THERE)
DRAWN = replace(AS_FOUND, found=None)
REJECTED = replace(AS_FOUND, state="rejected")
OPEN = replace(AS_FOUND, state="open")


def said(*boxes):
    return [PhotoCorrections(boxes={str(n): box for n, box in enumerate(boxes)})]


def line(boxes, moved=(), before=(), after=()):
    n = max(len(moved), len(before))
    sure = np.stack([np.resize(before or [0.5], n), np.resize(after or [0.5], n)], axis=1)
    return line_of_class("cat", np.array(moved or [False] * n, np.bool_), sure, said(*boxes))


def test_a_class_that_nobody_judged_is_not_spoken_of():
    assert line([], moved=[True]) is None
    assert line([OPEN], moved=[True]) is None
    assert line_of_class("dog", np.array([True]), np.full((1, 2), 0.5), said(AS_FOUND)) is None


def test_what_moved_is_counted_and_confidences_compared():
    text = line([AS_FOUND], moved=[True, False, True], before=[0.4], after=[0.6])
    assert text == "cat: 2 of 3 boxes that nobody has judged moved, confidence 40 % before and 60 % now."
    assert line([AS_FOUND], moved=[True]) == "cat: 1 of 1 boxes that nobody has judged moved."


@pytest.mark.parametrize(
    ("boxes", "why"),
    [
        ([AS_FOUND] * (ENOUGH - 1), f"{ENOUGH - 1} judged so far"),
        ([REJECTED] * ENOUGH, "None was accepted: draw some"),
        ([AS_FOUND] * ENOUGH, "right as they were found"),
        ([ELSEWHERE] * ENOUGH, "judge some that are wrong"),
        ([DRAWN] * ENOUGH, "judge some that are wrong"),
    ],
)
def test_where_nothing_moved_the_page_says_why(boxes, why):
    text = line(boxes, moved=[False, False])
    assert text.startswith("cat: no other box moved. ")
    assert why in text


def test_a_class_whose_boxes_are_all_judged_says_so():
    assert line([AS_FOUND]) == "cat: all its boxes are judged."


def test_a_box_that_was_renamed_is_of_both_classes():
    renamed = replace(AS_FOUND, name="dog")
    for name in ("cat", "dog"):
        assert line_of_class(name, np.array([True]), np.full((1, 2), 0.5), said(renamed)) is not None


def annotations(boxes, photos=(), key="new"):
    """What `compare` reads of `Annotations`: one box of the class cat in each photo."""
    found = Detections(
        image=np.arange(len(boxes)),
        xyxy=np.float32(boxes),
        score=np.full(len(boxes), 0.5),
        label=[0] * len(boxes),
    )
    images = SimpleNamespace(classes=("cat",))
    state = SimpleNamespace(photos=dict(enumerate(photos)))
    return SimpleNamespace(boxes=found, images=images, contents="abcdef", state=state, key=key)


def test_a_box_moved_where_it_is_new_or_elsewhere():
    before = annotations([HERE, THERE], key="old")
    changes = compare(before, annotations([HERE, HERE, HERE], said(replace(AS_FOUND, run="old"))))
    assert changes.moved.tolist() == [False, True, True]
    np.testing.assert_array_equal(changes.before, [0.5, 0.5, np.nan])
    assert changes.taught == 1


@pytest.mark.parametrize(
    ("moved", "taught", "says"), [(1, 20, "change little"), (12, 20, "move about 6"), (100, 5, "about 100")]
)
def test_ten_more_photos_are_promised_what_the_last_ones_did(moved, taught, says):
    changes = Changes(np.arange(100) < moved, np.zeros(100), taught)
    (told,) = worth_of_more(changes, np.ones(100, np.bool_))
    assert says in told
    assert worth_of_more(replace(changes, taught=0), np.ones(100, np.bool_)) == []
