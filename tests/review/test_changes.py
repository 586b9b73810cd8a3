"""What the page says after learning again: of each class that was judged, what moved, or why nothing did."""

from dataclasses import replace

import numpy as np
import pytest

from tag2box.corrections import Box, PhotoCorrections
from tag2box.review.boxes import ReviewBoxes
from tag2box.review.changes import ENOUGH, Place, changes, moved_boxes

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
    return changes("cat", np.array(moved or [False] * n, np.bool_), sure, said(*boxes))


def test_a_class_that_nobody_judged_is_not_spoken_of():
    assert line([], moved=[True]) is None
    assert line([OPEN], moved=[True]) is None
    assert changes("dog", np.array([True]), np.full((1, 2), 0.5), said(AS_FOUND)) is None


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
        assert changes(name, np.array([True]), np.full((1, 2), 0.5), said(renamed)) is not None


def test_a_box_moved_where_it_is_new_or_elsewhere():
    boxes = ReviewBoxes(
        image=np.array([0, 1, 2]),
        xyxy=np.float32([HERE, HERE, HERE]),
        label=np.array([0, 0, 0]),
        confidence=np.full(3, 0.5),
        doubt=np.zeros(3),
        order=np.arange(3),
    )
    before = {("a", "cat"): Place(np.float32(HERE), 0.5), ("b", "cat"): Place(np.float32(THERE), 0.5)}
    assert moved_boxes(boxes, before, ("a", "b", "c"), ("cat",)).tolist() == [False, True, True]
