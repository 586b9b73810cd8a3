"""The card of a run: what it must say, of whom, and that names of strangers stay text."""

import re
from dataclasses import replace

import pytest
from tests._review import copied
from typer.testing import CliRunner

from tag2box import Detector, write_detections
from tag2box.cli.app import app
from tag2box.report import write_report
from tag2box.run.card import CARD, Card, Section, card_of, write_card
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.files import content_hash


@pytest.fixture
def run(review_run, tmp_path):
    copied(review_run, tmp_path)
    return RunFolder(tmp_path / "run")


def section(run, title):
    (found,) = [part for part in card_of(run).sections if part.title.startswith(title)]
    return found


def test_a_run_ends_with_its_card(run):
    text = (run.folder / CARD).read_text()
    titles = ["What it is", "Data", "Method", "Settings", "Figures", "What it is not good for", "Licence"]
    heads = re.findall("^## (.*)$", text, flags=re.MULTILINE)
    assert all(head.startswith(title) for head, title in zip(heads, titles, strict=True))
    assert content_hash(run.folder / "detector.npz") in text
    assert "Not evaluated" in text
    assert "Apache-2.0" in text
    assert write_card(run).read_text() == text


def test_the_card_counts_what_the_tags_say(run):
    head, *rows = section(run, "Data").rows
    for c, row in enumerate(rows):
        tags = run.images.tags[:, c]
        counts = [(tags == 1).sum(), (tags == -1).sum(), (tags == 0).sum(), len(run.findings.rows[c])]
        assert row == (run.images.classes[c], *map(str, counts))
        assert len(row) == len(head)
    assert str(run.folder.parent) not in (run.folder / CARD).read_text()  # it goes out of the house


def test_settings_are_those_that_were_changed(run):
    head, *rows = section(run, "Settings").rows
    told = {name: value for name, value, _ in rows}
    assert told["windows.max_windows"] == "12"
    assert "windows.seed" not in told
    assert head == ("setting", "value", "default")


def test_evaluation_writes_its_figures_and_a_new_detector_has_none(run):
    """What the run found stands for the truth: so CorLoc is 1."""
    photos = run.folder.parent / "toys"
    (truth,) = write_detections(mined_windows(run), run.images, photos / "truth.json", "coco-instances")
    where = [str(run.folder), "--truth", str(truth)]
    for words in (["detect", str(photos), "--run", str(run.folder), "--workers", "1"], ["evaluate", *where]):
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code == 0, answer.output
    figures = section(run, "Figures")
    scores = run.figures()["scores"]["classes"]
    rows = [(name, f"{of['ap']:.3f}", "1.000") for name, of in scores.items()]
    assert [(row[0], row[1], row[4]) for row in figures.rows[1:-1]] == rows
    assert figures.rows[-1][0] == "mean"
    assert "truth.json" in figures.lines[0]
    assert "VOC 2007" in figures.lines[1]
    assert f"learned from {len(run.images)}" in figures.lines[1]
    assert "VOC 2007" in (run.folder / CARD).read_text()
    file = run.folder / "detector.npz"
    other = Detector.load(file)
    replace(other, settings=replace(other.settings, min_score=0.1)).save(file)
    assert "Not evaluated" in section(run, "Figures").lines[0]


def test_the_report_holds_the_card(run):
    page = write_report(run.folder).read_text()
    assert 'id="card"' in page
    assert section(run, "Licence").lines[0] in page


def test_names_in_a_card_are_text():
    name = "<script>|`*a*`[x](y)#"
    card = Card(name, (Section("Data", (name,), (("class",), (name,))),))
    bare = re.sub(r"\\.", "", card.to_markdown().replace("| --- |", ""))
    assert not set("<>`*[]") & set(bare)
    row = card.to_markdown().splitlines()[-1]
    assert len(re.findall(r"(?<!\\)\|", row)) == 2  # the bars of one cell
