"""The verdict on a run: each thing that looks wrong is named where it is there, and only there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests._events import correct, reviewed
from tests._review import copied

from tag2box.run.folder import RunFolder
from tag2box.run.verdict import LINES, ClassVerdict, Verdict, _always_with, _next, _odd, judge_run

RNG = np.random.default_rng(0)


def boxes(area, n=40, at=None):
    """Square boxes of about that share of their photos, anywhere or at one place."""
    side = np.sqrt(area) * RNG.uniform(0.97, 1.03, (n, 1))
    corner = RNG.uniform(0, 1, (n, 2)) * (1 - side) if at is None else np.full((n, 2), at)
    return np.concatenate([corner, corner + side], axis=1)


TAGS = np.where(RNG.random((60, 3)) < 0.3, 1, -1).astype(np.int8)


@pytest.mark.parametrize(
    ("found", "larger", "words"),
    [
        (boxes(0.15), 1.0, ""),
        (boxes(0.95), 1.0, "nearly whole photos"),
        (boxes(0.004), 1.0, "very small"),
        (boxes(0.3, at=0.2), 1.0, "at one place"),
        (boxes(0.15), 4.0, "may be parts"),
        (boxes(0.15), 0.2, "may hold more"),
        (boxes(0.15, n=0), 1.0, "none was found"),
    ],
)
def test_what_looks_wrong_is_named(found, larger, words):
    wrong, _ = _odd(found, larger, TAGS, 0, ("a", "b", "c"))
    assert (words in wrong) if words else (wrong == "")


def test_a_class_that_is_always_with_another_is_told_by_it():
    tags = TAGS.copy()
    tags[tags[:, 0] == 1, 2] = 1
    assert _always_with(tags, 0) == 2
    assert _always_with(TAGS, 0) is None
    tags[:, 2] = 1  # all photos have it: that says nothing of the first
    assert _always_with(tags, 0) is None


def test_the_verdict_of_a_run_counts_its_boxes(review_run, tmp_path):
    run = RunFolder(copied(review_run, tmp_path))
    verdict = judge_run(run)
    assert {each.name: each.boxes for each in verdict.classes} == {
        name: len(run.findings.rows[c]) for c, name in enumerate(run.images.classes)
    }
    for each in verdict.classes:
        sure = run.findings.confidence[run.images.classes.index(each.name)]
        assert each.right == pytest.approx(sure.mean())
        assert 0 <= each.low <= each.right <= each.high <= 1
    assert [each.right for each in verdict.classes] == sorted(each.right for each in verdict.classes)


def test_a_class_of_which_a_person_judged_all_boxes_needs_no_verdict(review_run, tmp_path, monkeypatch):
    run = RunFolder(copied(review_run, tmp_path))
    found = run.findings
    nothing = replace(
        found, rows=(found.rows[0], found.rows[1][:0]), boxes=(found.boxes[0], found.boxes[1][:0])
    )
    monkeypatch.setattr(RunFolder, "findings", nothing)
    assert len(judge_run(run).classes) == 2  # no box was found
    monkeypatch.setattr(RunFolder, "last_stage", "corrected")
    assert [each.name for each in judge_run(run).classes] == [run.images.classes[0]]


def test_small_objects_are_hinted_at_once():
    found = boxes(0.004)
    assert "--objects small" in _odd(found, 1.0, TAGS, 0, ("a", "b", "c"))[1]
    assert "crops" in _odd(found, 1.0, TAGS, 0, ("a", "b", "c"), hinted=True)[1]


def verdicts(n):
    long = "may hold more than it", "review some"
    return tuple(
        ClassVerdict(f"a class of number {k} that is long", 10, k / 100, 0, 1, *long) for k in range(n)
    )


@pytest.mark.parametrize("n", [1, 20, 50])
def test_a_verdict_fits_a_screen(n):
    """One line a class, and none so long that a terminal of 100 columns breaks it."""
    lines = str(Verdict(verdicts(n), ("A note.",), "tag2box review runs/photos")).splitlines()
    assert len(lines) <= LINES + 4
    assert max(map(len, lines)) <= 100
    assert lines[-2:] == ["A note.", "Try next: tag2box review runs/photos"]
    assert ("more classes" in lines[-3]) == (n > LINES)


def test_the_one_thing_to_try_is_for_the_worst_class():
    bad = ClassVerdict("red cat", 10, 0.2, 0.1, 0.3, advice="review some")
    assert bad.remark == ""  # the line of the class says what looks wrong
    assert _next(Path("runs/a"), [bad]) == "tag2box review runs/a --class 'red cat'"
    told = replace(bad, wrong="very small", advice="run again with --objects small")
    assert _next(Path("runs/a"), [told]) == "red cat: run again with --objects small"
    assert _next(Path("runs/a"), [replace(bad, right=0.9)]) == ""


def test_a_verdict_names_tags_that_look_wrong(review_run, tmp_path, monkeypatch):
    run = RunFolder(copied(review_run, tmp_path))
    assert not any("look wrong" in note for note in judge_run(run).notes)
    monkeypatch.setattr("tag2box.training.tag_scores.TagScores.odd", lambda _, tags: tags != 0)
    monkeypatch.setattr("tag2box.run.verdict.LIKELY", 0.0)
    n = run.images.tags.size
    assert any(note.startswith(f"{n} tags look wrong") for note in judge_run(run).notes)
    correct(run, reviewed("toy-00"))  # a person saw them
    n -= len(run.images.classes)
    assert any(note.startswith(f"{n} tags look wrong") for note in judge_run(run).notes)
