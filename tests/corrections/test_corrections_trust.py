"""Corrections are of the photos that a person saw, and none is lost without a word."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests._events import box, by_name, correct, reviewed
from tests._review import ORIGIN, at, client_of, own_run
from tests._toys import make_truth
from typer.testing import CliRunner

from tag2box import InputError, read_images
from tag2box.cli import run as run_command
from tag2box.cli.app import app
from tag2box.data.formats import cvat
from tag2box.review.exchange import import_corrections
from tag2box.review.session import Session
from tag2box.run.corrections import corrected_boxes
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder

ELSEWHERE = "the corrections of 1 photos are left out"


@pytest.fixture
def run(review_run, tmp_path):
    """A run over photos of its own, which may be changed."""
    return own_run(review_run, tmp_path)


def tell(*words):
    answer = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def replace_photo(path):
    Image.fromarray(np.random.default_rng(7).integers(0, 255, (96, 96, 3), np.uint8)).save(path)


def read_again(run):
    """The data set as it is on the disk now."""
    toys = run.images.paths[0].parent
    names = {path.stem for path in toys.glob("*.png")}
    lines = [f"{name}.png,{'thing;other' if int(name[-2:]) % 2 == 0 else ''}" for name in sorted(names)]
    (toys / "tags.csv").write_text("\n".join(["file,tags", *lines]) + "\n")
    return read_images(toys, toys / "tags.csv")


def test_every_command_names_the_damaged_lines(run, tmp_path):
    """Of four lines one is edited by hand, one damaged and one torn."""
    names = [box(f"toy-0{n}", str(n), kind="thing", xyxy=(10, 20, 30, 40)) for n in (0, 2, 4, 6)]
    correct(run, *names)
    file = run.folder / "corrections.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    edited = lines[1].replace(b'"accepted"', b'"rejected"')
    file.write_bytes(lines[0] + edited + b"\xff" + lines[2][1:] + lines[3][:50])
    make_truth(run.images.paths[0].parent, tmp_path / "truth")
    (tmp_path / "truth/ImageSets/Main/other_test.txt").write_text(
        "".join(f"{n} -1\n" for n in run.images.ids)
    )
    images = run.images.paths[0].parent
    commands = [
        ["export", run.folder, "--format", "csv", "--out", tmp_path / "boxes.csv"],
        ["corrections", "export", run.folder],
        ["report", run.folder],
        ["evaluate", run.folder, "--truth", tmp_path / "truth", "--split", "test"],
        ["run", images, "--tags", images / "tags.csv", "--config", run.folder / "config.toml"],
    ]
    commands[-1] += ["--out", run.folder, "--workers", 1]
    for words in commands:
        with pytest.warns(UserWarning, match=r"3 of 4 lines are damaged and left out \(2, 3, 4\)"):
            tell(*words)
    with pytest.warns(UserWarning, match="3 of 4 lines"):
        (line,) = Session(run.folder).start()["left_out"]
    assert "3 of 4 lines are damaged" in line
    for command in commands[0], commands[2]:  # once, however many parts of it read the file
        words = [sys.executable, "-m", "tag2box", *map(str, command)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stderr
        assert told.startswith("tag2box: ")
        assert told.count("\n") == 1
    assert "(2, 3, 4)" in told


def test_a_photo_that_was_replaced_has_no_corrections(run, tmp_path):
    correct(
        run, box("toy-00", "1", kind="thing", xyxy=(10, 20, 30, 40)), reviewed("toy-00"), reviewed("toy-01")
    )
    before = corrected_boxes(run)
    assert (before.photos, before.reviewed.sum()) == (2, 1)
    _, client = client_of(run.folder)
    event = {"set": "photo", "id": "1", "photo": run.contents[2], "state": "reviewed"}
    for n in (0, 2):
        replace_photo(run.images.paths[n])
    for _ in range(2):  # before the run has seen it, and after
        with pytest.warns(
            UserWarning, match=rf"{ELSEWHERE} \(replaced: another photo has the name\): toy-00"
        ):
            after = corrected_boxes(RunFolder(run.folder))
        assert (after.photos, after.reviewed.sum()) == (1, 0)
        assert (after.detections.image == 0).any()  # to be reviewed again
        with pytest.warns(UserWarning, match=ELSEWHERE):
            opened = Session(run.folder)
        assert (opened.photos([0])[0]["state"], opened.photos([1])[0]["state"]) == ("open", "reviewed")
        answer = client.post(at("events"), json=[event], headers={"origin": ORIGIN})
        assert answer.status_code == 400
        assert "toy-02" not in by_name(run.folder).photos
        with pytest.warns(UserWarning, match=ELSEWHERE):
            fit_run(run.images, run.config, run.folder, workers=1)
    with pytest.warns(UserWarning, match=ELSEWHERE):
        assert client.get(at("start")).json()["left_out"]  # it follows


def test_a_click_of_a_stale_page_lands_on_no_other_photo(run):
    """A photo is added before all others, the run learns again, another tab loads: numbers are others now."""
    _, client = client_of(run.folder)
    start = client.get(at("start")).json()
    seen = client.get(at(f"photos?n=4&v={start['key']}")).json()["photos"][0]
    Image.fromarray(np.full((96, 96, 3), 99, np.uint8)).save(run.images.paths[0].with_name("a-00.png"))
    fit_run(read_again(run), run.config, run.folder, workers=1)
    fresh = client.get(at("start")).json()
    assert (fresh["photos"], fresh["key"] != start["key"]) == (13, True)
    event = {"set": "photo", "id": "1", "photo": seen["sha256"], "state": "reviewed"}

    def sent(key, **change):
        return client.post(at(f"events?v={key}"), json=[{**event, **change}], headers={"origin": ORIGIN})

    for path in ("list?order=name", "photos?n=4", "photo/4?", "thumb/4?", "map/4/0?"):
        assert client.get(at(f"{path}&v={start['key']}")).status_code == 409
        assert client.get(at(f"{path}&v={fresh['key']}")).status_code == 200
    assert sent(start["key"]).status_code == 409
    assert sent(fresh["key"], photo=4).status_code == 400  # a number says nothing
    assert by_name(run.folder).photos == {}
    answer = sent(fresh["key"])
    assert [photo["name"] for photo in answer.json()["photos"]] == [seen["name"]]
    assert [photo["number"] for photo in answer.json()["photos"]] == [5]
    assert list(by_name(run.folder).photos) == [seen["name"]]
    listed = client.get(at(f"list?order=name&v={fresh['key']}&photo={seen['sha256']}")).json()
    assert listed["here"] == 5
    assert client.get(at("start")).json()["moved"] is not None


def test_photos_that_are_the_same_are_reviewed_together(run):
    twin = run.images.paths[0].with_name("toy-50.png")
    twin.write_bytes(run.images.paths[0].read_bytes())
    fit_run(read_again(run), run.config, run.folder, workers=1)
    session = Session(run.folder)
    answer = session.save(
        [{"set": "photo", "id": "1", "photo": session.annotations.contents[0], "state": "reviewed"}]
    )
    assert [photo["name"] for photo in answer["photos"]] == ["toy-00", "toy-50"]
    assert answer["reviewed"] == 2
    assert corrected_boxes(RunFolder(run.folder)).photos == 2


def test_boxes_outside_their_photo_are_not_imported(run, tmp_path):
    file = tmp_path / "boxes.xml"
    inside, outside = ("thing", (90, 90, 120, 130)), ("thing", (96, 5, 120, 30))
    file.write_bytes(cvat.document([("toy-04.png", (200, 200), [inside, outside])]))
    with pytest.raises(InputError, match=r"lies outside photo 'toy-04', which has 96 x 96 pixels"):
        import_corrections(run, file)
    assert not (run.folder / "corrections.jsonl").exists()
    file.write_bytes(cvat.document([("toy-04.png", (200, 200), [inside])]))
    assert import_corrections(run, file).boxes == 1
    replace_photo(run.images.paths[4])
    with pytest.raises(InputError, match="was replaced since"):
        import_corrections(run, file)


def test_data_sets_of_one_name_have_runs_of_their_own(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toys = run.images.paths[0].parent
    places = {}
    for name in "ab":
        (tmp_path / name).mkdir()
        places[name] = (tmp_path / name / "photos").resolve()
        subprocess.run(["cp", "-r", toys, places[name]], check=True)

    def images(name):
        return read_images(places[name], places[name] / "tags.csv", on_error="skip")

    def chosen(name, out=None):
        return run_command._run_folder(out, places[name], images(name))

    assert chosen("a") == Path("runs/photos")
    fit_run(images("a"), run.config, chosen("a"), workers=1)
    assert chosen("a") == Path("runs/photos")
    assert chosen("b") == Path("runs/photos-2")  # the same photos, but another data set
    with pytest.raises(InputError, match=r"runs/photos has the run of other photos, such as .*toy-00.png"):
        chosen("b", Path("runs/photos"))
    (places["a"] / "toy-00.png").rename(places["a"] / "new.png")
    assert chosen("a") == Path("runs/photos")
    places["a"] = places["a"].rename(tmp_path / "photos")  # moved
    assert chosen("a") == Path("runs/photos")
    (tmp_path / "runs/photos/index.sqlite").write_text("damaged")
    assert chosen("a") == Path("runs/photos")
