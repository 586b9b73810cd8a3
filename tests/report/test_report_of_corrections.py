"""The report after a person has been at work: what it says of boxes and tags is what they are now."""

import numpy as np
import pytest
from tests._events import box, correct, reviewed
from tests._review import copied

from tag2box.report import write_report
from tag2box.run.folder import RunFolder


@pytest.fixture
def run(review_run, tmp_path, monkeypatch):
    """Every tag is odd: of toys hardly any is."""
    monkeypatch.setattr("tag2box.training.tag_scores.TagScores.odd", lambda _, tags: tags != 0)
    return RunFolder(copied(review_run, tmp_path))


def test_the_report_says_whether_a_person_had_a_say(run):
    assert "nobody drew a box" in write_report(run.folder).read_text()
    correct(run, box("toy-02", kind="thing"))
    page = write_report(run.folder).read_text()
    assert "nobody drew a box" not in page
    assert "from what people said of its boxes" in page


def test_a_tag_that_a_person_saw_is_no_longer_to_be_checked(run):
    page = write_report(run.folder).read_text()
    assert "toy-02</th><td>" in page.partition("Tags to check first")[2]
    correct(run, reviewed("toy-02"))
    assert "toy-02</th><td>" not in write_report(run.folder).read_text().partition("Tags to check first")[2]


def test_the_report_has_the_notes_of_the_verdict(run, monkeypatch):
    monkeypatch.setattr("tag2box.run.verdict.LIKELY", 0.0)
    page = write_report(run.folder).read_text()
    assert f"{np.count_nonzero(run.images.tags)} tags look wrong" in page
    assert "How good are the boxes?" in page
