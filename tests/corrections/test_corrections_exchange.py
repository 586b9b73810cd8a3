"""Corrections of other tools, and for them; and what the commands make of corrections."""

import json

import numpy as np
import pytest
from tests._events import box, by_name, correct, reviewed
from tests._review import copied
from tests._schemas import check_printed
from tests._toys import make_truth
from typer.testing import CliRunner

from tag2box import InputError, read_images
from tag2box.cli.app import app
from tag2box.data.formats import cvat
from tag2box.review.exchange import export_corrections, import_corrections
from tag2box.run.folder import RunFolder


@pytest.fixture
def run(review_run, tmp_path):
    return RunFolder(copied(review_run, tmp_path))


def tell(*arguments):
    answer = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    check_printed([*arguments, "--json"], answer.stdout)
    return json.loads(answer.stdout)


def accepted(folder):
    state = by_name(folder)
    boxes = {name: sorted((b.name, b.xyxy) for b in p.accepted()) for name, p in state.photos.items()}
    return {name: found for name, found in boxes.items() if found}, {
        n: p.state for n, p in state.photos.items()
    }


@pytest.mark.parametrize("kind", ["coco", "labelstudio", "cvat"])
def test_what_goes_out_comes_in_again(run, tmp_path, kind):
    correct(run, box("toy-00", "1", kind="thing", xyxy=(10, 20, 30.5, 40)), reviewed("toy-00"))
    other = box("toy-02", "2", kind="other", xyxy=(1, 2, 60, 70))
    correct(run, other, box("toy-02", "3", "rejected", "thing"))
    file = tmp_path / ("out.xml" if kind == "cvat" else "out.json")
    assert export_corrections(run, file, kind) == (2, 2)
    before, _ = accepted(run.folder)
    if kind == "labelstudio":  # what it exports after a person has looked: annotations
        tasks = json.loads(file.read_text())
        for task in tasks:
            task["annotations"] = task.pop("predictions")
        file.write_text(json.dumps(tasks))
    (run.folder / "corrections.jsonl").unlink()
    done = import_corrections(run, file)
    assert (done.photos, done.boxes, done.unknown_photos, done.unknown_classes) == (2, 2, 0, ())
    after, states = accepted(run.folder)
    assert after.keys() == before.keys()
    for name, found in after.items():
        for (kind_now, place), (kind_then, was) in zip(found, before[name], strict=True):
            assert kind_now == kind_then
            assert place == pytest.approx(was, abs=0.02)
    assert states == {"toy-00": "reviewed", "toy-02": "reviewed"}
    import_corrections(run, file)
    assert accepted(run.folder)[0] == after  # twice changes nothing


def test_unknown_photos_and_classes_are_left_out_and_counted(run, tmp_path):
    file = tmp_path / "boxes.xml"
    boxes = [("thing", (1, 2, 3, 4)), ("horse", (1, 2, 3, 4))]
    file.write_bytes(cvat.document([("toys/toy-04.png", (96, 96), boxes), ("elsewhere.png", (9, 9), boxes)]))
    answer = tell("corrections", "import", run.folder, file, "--partial")
    assert answer == {"photos": 1, "boxes": 1, "unknown_photos": 1, "unknown_classes": ["horse"]}
    assert accepted(run.folder)[1] == {"toy-04": "open"}


def test_a_file_without_boxes_and_a_run_without_corrections_are_refused(run, tmp_path):
    with pytest.raises(InputError, match="has no boxes"):
        import_corrections(run, run.images.paths[0].parent / "tags.csv")
    with pytest.raises(InputError, match="no corrections yet"):
        export_corrections(run, tmp_path / "x.json", "coco")
    correct(run, reviewed("toy-01"))
    with pytest.raises(InputError, match="no format 'dog'"):
        export_corrections(run, tmp_path / "x.json", "dog")


def test_the_commands_use_corrected_boxes_and_say_so(run, tmp_path):
    """The true boxes as corrections: CorLoc is 1, and every command says how many are reviewed."""
    make_truth(run.images.paths[0].parent, tmp_path / "truth")
    lines = "".join(f"{name} -1\n" for name in run.images.ids)
    (tmp_path / "truth/ImageSets/Main/other_test.txt").write_text(lines)
    truth = read_images(tmp_path / "truth", split="test").only(["thing"])
    place = [truth.truth.image.tolist().index(i) for i in np.unique(truth.truth.image)]
    events = [
        box(truth.ids[truth.truth.image[k]], f"true {k}", kind="thing", xyxy=truth.truth.xyxy[k].tolist())
        for k in place
    ]
    before = tell("evaluate", run.folder, "--truth", tmp_path / "truth", "--split", "test")
    assert before["reviewed_boxes"] == 0
    correct(run, *events, *(reviewed(name) for name in truth.ids))
    after = tell("evaluate", run.folder, "--truth", tmp_path / "truth", "--split", "test")
    assert after["corloc"]["classes"]["thing"]["corloc"] == 1
    assert (after["reviewed_boxes"], after["reviewed_photos"]) == (6, 12)
    out = tmp_path / "boxes.csv"
    answer = tell("export", run.folder, "--format", "csv", "--out", out)
    assert (answer["boxes"], answer["reviewed_boxes"]) == (6, 6)
    assert len(out.read_text().splitlines()) == 7
    page = (run.folder / "report.html") if tell("report", run.folder) else None
    assert "boxes reviewed" in page.read_text()
