"""The commands, as people type them: what they print, write, refuse, and exit with."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests._schemas import check_printed
from tests._toys import FAST, events, make_toys, make_truth
from typer.testing import CliRunner

from tag2box import read_images
from tag2box.cli.app import app, main
from tag2box.run.folder import RunFolder
from tag2box.runtime.store import Store

SETS = [word for setting in FAST for word in ("--set", setting)]


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command: its exit status, what it printed, and what it said on standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tag2box", *map(str, words)])
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        if status == 0:
            check_printed(words, out)
        return status, out, err

    return run


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    make_toys(folder)
    return folder


@pytest.fixture(scope="module")
def made(toys, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "toys"
    words = ["run", str(toys), "--tags", str(toys / "tags.csv"), "--out", str(out), "--workers", "1", *SETS]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    return out


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def test_run_shows_a_first_look_and_the_next_move(toys, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = call("run", toys, "--tags", toys / "tags.csv", "--workers", 1, *SETS)
    assert status == 0
    assert out.index("thing") < out.index("Expected: about") < out.index("tag2box detect PHOTOS --run")
    assert (tmp_path / "runs" / "toys" / "config.toml").is_file()


def test_json_is_one_object_and_nothing_else(toys, run, call, tmp_path):
    status, out, _ = call(
        "run", toys, "--tags", toys / "tags.csv", "--out", run, "--workers", 1, *SETS, "--json"
    )
    assert status == 0
    answer = json.loads(out)
    assert all(stage["reused"] for stage in answer["stages"].values())
    assert answer["look"]["classes"]["thing"]["positives"] == 6
    status, out, _ = call("detect", toys, "--run", run, "--workers", 1, "--json")
    assert (status, json.loads(out)["images"]) == (0, 12)


def test_detect_evaluate_export(toys, run, call, tmp_path):
    truth = make_truth(toys, tmp_path / "voc")
    status, out, _ = call("detect", truth, "--split", "test", "--run", run, "--workers", 1)
    assert status == 0
    assert (run / "detections.coco.json").is_file()
    status, out, _ = call("evaluate", run, "--truth", truth, "--split", "test", "--json")
    answer = json.loads(out)
    assert status == 0
    assert set(answer["scores"]["classes"]) == {"thing"}
    assert answer["corloc"]["classes"]["thing"]["n_images"] == 6
    # The same boxes from a file give the same figures.
    boxes = tmp_path / "boxes.csv"
    assert call("detect", truth, "--split", "test", "--run", run, "--all", "--out", boxes)[0] == 0
    _, again, _ = call("evaluate", boxes, "--truth", truth, "--split", "test", "--json")
    assert json.loads(again)["scores"] == answer["scores"]
    _, text, _ = call("evaluate", boxes, "--truth", truth, "--split", "test")
    assert "voc07 AP" in text
    coco = run / "detections.coco.json"  # stands alone: file names, class names and scores
    assert json.loads(call("evaluate", coco, "--truth", truth, "--split", "test", "--json")[1])["scores"]
    status, out, _ = call("export", run, "--format", "yolo", "--out", tmp_path / "labels", "--json")
    assert status == 0
    assert json.loads(out)["boxes"] >= 6


def test_no_box_is_written_for_a_photo_that_was_replaced(toys, call, tmp_path):
    photos = shutil.copytree(toys, tmp_path / "toys")
    words = ("run", photos, "--tags", photos / "tags.csv", "--out", tmp_path / "run", "--workers", 1, *SETS)
    assert call(*words)[0] == 0
    things = read_images(photos, photos / "tags.csv").positives("thing")
    replaced, gone = (sorted(photos.glob("*.png"))[i] for i in things[:2])
    shutil.copy(sorted(photos.glob("*.png"))[-1], replaced)
    gone.unlink()
    labels = tmp_path / "labels"
    status, _, err = call("export", tmp_path / "run", "--format", "yolo", "--photos", "--out", labels)
    assert status == 0
    assert f"replaced since the run learned from them: {replaced.stem}" in err
    assert f"are gone: {gone.stem}" in err
    written = {path.stem for path in labels.rglob("*.*")}
    assert not {replaced.stem, gone.stem} & written
    assert len(written) == 11  # and data.yaml


def test_min_score_and_single_photos(toys, run, call, tmp_path):
    photos = sorted(toys.glob("*.png"))[:2]
    _, out, _ = call("detect", *photos, "--run", run, "--workers", 1, "--json", "--all")
    everything = json.loads(out)["boxes"]
    boxes = tmp_path / "boxes.csv"
    _, out, _ = call("detect", *photos, "--run", run, "--workers", 1, "--json", "--out", boxes)
    assert 0 < json.loads(out)["boxes"] < everything
    assert min(float(line.split(",")[2]) for line in boxes.read_text().splitlines()[1:]) >= 0.3
    status, _, err = call("detect", *photos, "--run", run, "--all", "--min-score", 0.5)
    assert status == 2
    assert "exclude each other" in err
    _, out, _ = call("detect", *photos, "--run", run, "--workers", 1, "--json", "--min-score", 1e9)
    answer = json.loads(out)
    assert answer["boxes"] == 0
    assert {path.stem for path in Path(answer["pictures"]).iterdir()} == {path.stem for path in photos}
    assert all(
        f'src="detections-photos/{path.stem}.jpg"' in Path(answer["page"]).read_text() for path in photos
    )
    status, _, err = call("detect", *photos, "--run", run, "--min-score", "nan")
    assert (status, "not a number" in err) == (2, True)


def test_one_missing_photo_is_skipped_and_named(toys, run, call):
    photos = sorted(toys.glob("*.png"))[:2]
    status, out, err = call("detect", *photos, "gone.jpg", "--run", run, "--workers", 1, "--json")
    assert status == 0, err
    assert json.loads(out)["images"] == 2
    assert json.loads(out)["look"]["skipped"] == ["gone.jpg: no such file or folder"]


@pytest.mark.parametrize("given", ["images", ""])
def test_evaluate_reads_what_labelimg_wrote(toys, run, call, tmp_path, given):
    """Whether its folder of images was detected in, or all of it."""
    voc = make_truth(toys, tmp_path / "voc")
    shutil.rmtree(voc / "ImageSets")
    (voc / "JPEGImages").rename(voc / "images")
    (voc / "Annotations").rename(voc / "annotations")
    assert call("detect", voc / given, "--run", run, "--workers", 1)[0] == 0
    status, out, err = call("evaluate", run, "--truth", voc, "--json")
    assert status == 0, err
    assert json.loads(out)["images_detected"] == 12
    assert "mean AP" in Path(json.loads(call("report", run, "--json")[1])["report"]).read_text()


def test_clean_names_what_it_would_remove(run, call):
    stray = Store(run)
    stray.save("windows", "0" * 64, {"a": 1})
    status, out, _ = call("clean", run)
    assert (status, "add --older" in out) == (0, True)
    assert stray.has("windows", "0" * 64)
    assert json.loads(call("clean", run, "--older", "--json")[1])["removed"]
    assert not stray.has("windows", "0" * 64)
    assert call("clean", run, "--older")[1] == "Nothing to remove.\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["run", "nowhere"], 2, "nowhere"),
        (["train", "photos"], 2, "did you mean tag2box run DATA?"),
        (["predict", "a.jpg"], 2, "did you mean tag2box detect"),
        (["run", "TOYS", "--set", "windows.sed=1"], 2, "did you mean windows.seed"),
        (["run", "TOYS", "--on-error", "cry"], 2, "--on-error must be one of skip, fail"),
        (["run", "TOYS", "--tags", "TOYS/tags.csv", "--class", "thong"], 2, "no class 'thong'"),
        (["run", "TOYS", "--tags", "TOYS/tags.csv", "--out", "TOYS/tags.csv"], 1, "cannot write"),
        (["detect", "TOYS", "--run", "TOYS"], 2, "is no run folder"),
        (["detect", "nowhere.jpg", "--run", "RUN"], 2, "no such file"),
        (["detect", "TOYS", "--run", "RUN", "--format", "word"], 2, "no format 'word'"),
        (["detect", "TOYS", "TOYS", "--split", "test", "--run", "RUN"], 2, "--split goes with one data set"),
        (["detect", "TOYS/toy-00.png", "--run", "RUN", "--out", "TOYS/toy-00.png"], 2, "one of the photos"),
        (["detect", "TOYS", "no.jpg", "--run", "RUN", "--on-error", "fail"], 2, "no.jpg: no such file"),
        (["run", "http://me:hunter2@127.0.0.1:1/x"], 2, "http://***@127.0.0.1:1/x"),
        (["evaluate", "RUN", "--truth", "TOYS"], 2, ""),
        (["evaluate", "nowhere", "--truth", "TOYS"], 2, "nowhere is no run folder: make one"),
        (["review", "TOYS"], 2, "is no run folder: make one"),
        (["export", "nowhere", "--format", "word"], 2, "onnx"),
        (["clean", "TOYS"], 2, "is no run folder"),
        (["report", "TOYS"], 2, "is no run folder"),
    ],
)
def test_mistakes_are_one_line(toys, made, call, words, status, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = [word.replace("TOYS", str(toys)).replace("RUN", str(made)) for word in words]
    found, out, err = call(*words)
    assert found == status, err
    (line,) = [
        each for each in err.splitlines() if not each.startswith("reading the photos")
    ]  # if that is slow
    assert line.startswith("tag2box: ")
    assert message in line
    assert "\n" not in out.strip() or words[0] in {"run", "detect"}  # the first look may stand there


def test_a_run_in_use_is_refused(toys, run, call):
    with Store(run).lock():
        status, _, err = call("detect", toys, "--run", run, "--workers", 1)
    assert (status, "another run is at work" in err) == (1, True)


def test_evaluate_says_where_nobody_looked(toys, run, call, tmp_path):
    truth = make_truth(toys, tmp_path / "voc")
    assert call("detect", truth / "JPEGImages" / "toy-00.jpg", "--run", run, "--workers", 1)[0] == 0
    status, out, _ = call("evaluate", run, "--truth", truth, "--split", "test")
    assert status == 0
    assert "detections cover 1 of 12 images" in out


def test_evaluate_says_how_to_find_the_boxes(toys, run, call, tmp_path):
    truth = make_truth(toys, tmp_path / "voc", rename="other-")
    evaluate = ("evaluate", run, "--truth", truth, "--split", "test")
    assert "CorLoc" in call(*evaluate)[1]  # copies of the photos learned from, by other names
    for photo in (truth / "JPEGImages").glob("*.jpg"):
        photo.write_bytes(photo.read_bytes() + b"another")
    status, _, err = call(*evaluate)
    assert status == 2
    assert f"`tag2box detect {truth} --run {run} --split test` finds them" in err


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """What people's folders hold: 15 good photos, some of them strange, and 5 bad ones."""
    folder = tmp_path_factory.mktemp("odd") / "ein Ordner 照片"
    make_toys(folder / "thing", 6)
    make_toys(folder / "background", 6, seed=1)  # duplicate names in sub-folders
    for leftover in folder.rglob("tags.csv"):
        leftover.unlink()
    things = folder / "thing"
    Image.open(things / "toy-00.png").convert("CMYK").save(things / "größe 猫.jpg")
    Image.new("RGB", (5500, 5500), "white").save(things / "huge.png")
    Image.new("RGB", (1, 1), "white").save(things / "tiny.png")
    (things / "empty.jpg").touch()
    (things / "text.jpg").write_text("not a photo")
    whole = tmp_path_factory.mktemp("whole") / "whole.jpg"
    Image.effect_noise((96, 96), 60).convert("RGB").save(whole)
    (things / "truncated.jpg").write_bytes(whole.read_bytes()[:1500])
    (things / "no pixels.ppm").write_bytes(b"P6 0 0 255\n")
    (things / "out.jpg").symlink_to(whole)
    return folder


BAD = ("empty.jpg", "text.jpg", "truncated.jpg", "no pixels.ppm", "out.jpg")


def test_odd_photos_are_named_counted_and_skipped(odd, call, tmp_path):
    words = ["run", odd, "--out", tmp_path / "run", "--workers", 1, *SETS]
    status, out, err = call(*words, "--json")
    assert status == 0, err
    look = json.loads(out)["look"]
    named = [entry["path"] for entry in look["unreadable"]] + look["skipped"]
    assert len(named) == len(BAD)
    assert all(any(bad in line for line in named) for bad in BAD)
    images = RunFolder(tmp_path / "run").images
    assert json.loads(out)["images"] == len(images) == 15
    assert any("größe 猫" in name for name in images.ids)
    assert {"described", "findings"} <= {e["stage"] for e in events(tmp_path / "run") if "stage" in e}
    status, out, err = call("detect", odd, "--run", tmp_path / "run", "--workers", 1)
    assert status == 0, err
    assert all(bad in out for bad in BAD)


def test_odd_photos_are_refused_where_that_is_wanted(odd, call, tmp_path):
    words = ["run", odd, "--out", tmp_path / "run", "--workers", 1, "--on-error", "fail", *SETS]
    status, _, err = call(*words)
    assert status == 2
    assert "5 images cannot be used" in err
    assert len([line for line in err.splitlines() if not line.startswith("reading the photos")]) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_an_answer_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "tag2box", "--version"]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith("tag2box: standard output: No space left on device; ")
    assert answer.stderr.count("\n") == 1
