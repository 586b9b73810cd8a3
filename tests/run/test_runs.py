"""The run folder between runs: damaged notes, newer versions, the detector of earlier settings, `clean`."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from tests._toys import FAST, contents, make_toys

import tag2box as t2b
from tag2box.cli.app import main
from tag2box.cli.run import _run_folder
from tag2box.config import Config
from tag2box.errors import InputError, Tag2BoxError
from tag2box.report.collecting import write_report
from tag2box.run import notes
from tag2box.run.folder import RunFolder, detect_run, fit_run, mined_windows
from tag2box.run.notes import write_run
from tag2box.runtime.config import read_settings
from tag2box.runtime.files import checked_json
from tag2box.runtime.store import Store

CONFIG = read_settings(Config(), None, [*FAST, "two_stream.prior=5"])
OTHER = read_settings(CONFIG, None, ["retrain.C=0.01"])


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder, 6))


@pytest.fixture(scope="module")
def made(images, tmp_path_factory):
    """A finished run with detections; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "toys"
    fit_run(images, CONFIG, folder, workers=1)
    detect_run(RunFolder(folder), images, workers=1)
    return folder


@pytest.fixture
def run(made):
    copy = shutil.copytree(made, made.parent / "copy")  # beside it: the way to the photos is the same
    yield copy
    shutil.rmtree(copy)


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data.replace(b"toy-01", b"toy-11", 1),
    "binary": lambda data: b"\xff\x00\xfe",
    "other": lambda data: b"[1, 2]",
    "nested": lambda data: b"[" * 100_000,
}


def damage(path, how):
    path.write_bytes(DAMAGES[how](path.read_bytes()))


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_run_json_is_one_line_and_the_next_run_writes_it_anew(run, made, images, how):
    damage(run / "run.json", how)
    with pytest.raises(Tag2BoxError, match=r"run.json is damaged .* takes the run to its end"):
        RunFolder(run)
    costs = fit_run(images, CONFIG, run, workers=1)
    assert all(cost["reused"] for cost in costs.values())
    assert contents(run) == contents(made)


def test_its_own_config_file_makes_the_same_bytes(run, made, images):
    """A whole number may be given for a float, as here in Python; a file of settings gives the float."""
    config = replace(CONFIG, features=replace(CONFIG.features, length=20), maps=replace(CONFIG.maps, ring=1))
    fit_run(images, config, run, workers=1)
    before = contents(run)
    fit_run(images, read_settings(Config(), run / "config.toml"), run, workers=1)
    assert contents(run) == before


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_detections_json_is_one_line_and_the_next_detection_writes_it_anew(run, made, images, how):
    damage(run / "detections.json", how)
    for use in (RunFolder(run).detected, lambda: RunFolder(run).clean(remove=True)):
        with pytest.raises(Tag2BoxError, match=r"detections.json is damaged .*: remove it, and detect again"):
            use()
    detect_run(RunFolder(run), images, workers=1)
    assert contents(run) == contents(made)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_evaluation_json_is_one_line(run, how, images):
    RunFolder(run).set_truth(images.paths[0].parent / "toy-01", None, "voc07")
    damage(run / "evaluation.json", how)
    with pytest.raises(Tag2BoxError, match=r"evaluation.json is damaged .*: evaluate again"):
        RunFolder(run).truths()


def test_a_run_folder_of_a_newer_version_is_left_alone(run, images, monkeypatch):
    monkeypatch.setattr(notes, "FORMAT", 99)
    write_run(Store(run), images, ["0" * 64] * len(images), None)
    (run / "config.toml").write_text("[from_the_future]\nx = 1\n")
    monkeypatch.undo()
    before = contents(run)
    for use in (lambda: RunFolder(run), lambda: fit_run(images, CONFIG, run, workers=1)):
        with pytest.raises(InputError, match=r"newer than this one, .*: update tag2box, or choose"):
            use()
    assert contents(run) == before


class Killed(BaseException):
    """Nothing behind it is done, as when a process is killed."""


def interrupted(images, config, folder, stage="retrained"):
    """A run that is stopped when it comes to a stage, which is noted by then."""
    real = Store.has

    def stop(store, name, key):
        if name == stage:
            raise Killed
        return real(store, name, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "has", stop)
        with pytest.raises(Killed):
            fit_run(images, config, folder, workers=1)


def test_an_interrupted_run_leaves_the_old_detector_and_says_whose_it_is(run, images, monkeypatch, capsys):
    old = (run / "detector.npz").read_bytes()
    assert RunFolder(run).outdated is None
    interrupted(images, OTHER, run)
    folder = RunFolder(run)
    assert (run / "detector.npz").read_bytes() == old
    assert "is of earlier settings than those of the last run: `tag2box run" in folder.outdated
    monkeypatch.setattr(sys, "argv", ["tag2box", "detect", str(images.paths[0]), "--run", str(run), "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert stop.value.code == 0
    assert json.loads(out)["images"] == 1
    assert "Note: " in err
    assert "is of earlier settings" in err
    fit_run(images, OTHER, run, workers=1)
    assert (run / "detector.npz").read_bytes() != old
    assert RunFolder(run).outdated is None


@pytest.mark.parametrize("stage", ["description", "described", "two_stream", "retrained", "findings"])
def test_a_killed_run_with_the_same_settings_leaves_the_folder_as_it_was(run, made, images, stage):
    interrupted(images, CONFIG, run, stage)
    assert contents(run) == contents(made)
    folder = RunFolder(run)
    assert folder.outdated is None
    assert len(mined_windows(folder)) == 3
    assert len(folder.detected()) == 1
    assert write_report(run).is_file()


def test_a_folder_is_always_of_one_run(run, images, monkeypatch):
    """Killed before any write: settings, photos, keys and results are those of the one or of the other."""
    other = images.take([0, 1, 2, 3])
    for last in range(40):
        folder = shutil.copytree(run, run.parent / "killed")
        count, real = [0], Store.write

        def write(store, name, content, count=count, last=last, real=real):
            if count[0] == last:
                raise Killed
            count[0] += 1
            return real(store, name, content)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", write)
            try:
                fit_run(other, OTHER, folder, workers=1)
            except Killed:
                ended = False
            else:
                ended = True
        state = RunFolder(folder)
        if state.has("described"):
            assert len(state.result("described")) == len(state.images)
        if state.has("findings"):
            assert len(mined_windows(state)) == (state.images.tags == 1).sum()
            assert state.config.retrain.C == (OTHER if len(state.images) == 4 else state.config).retrain.C
        if state.outdated is None:
            assert (state.config.retrain.C == OTHER.retrain.C) == (len(state.images) == 4)
        shutil.rmtree(folder)
        if ended:
            break
    assert ended
    assert last > 10


def test_a_detector_is_known_by_its_content(run, images):
    note = (run / "run.json").read_bytes()
    fit_run(images, OTHER, run, workers=1)
    (run / "run.json").write_bytes(note)  # as if killed between the new detector and the note about it
    assert RunFolder(run).outdated
    fit_run(images, CONFIG, run, workers=1)
    assert RunFolder(run).outdated is None


def test_clean_keeps_unfinished_detections(run, images, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    half = images.take(range(3))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", stop)  # all shards are there, the result is not
        with pytest.raises(KeyboardInterrupt):
            detect_run(RunFolder(run), half, workers=1)
    unfinished = sorted((run / "detections").glob(".*.part/*"))
    assert unfinished
    assert RunFolder(run).clean(remove=True) == []
    assert len(RunFolder(run).detected()) == 1
    assert all(path.is_file() for path in unfinished)
    detect_run(RunFolder(run), half, workers=1)
    assert len(RunFolder(run).detected()) == 2


def test_clean_keeps_an_unfinished_stage_of_the_last_settings(run, images):
    interrupted(images, OTHER, run)
    folder = RunFolder(run)
    parts = folder.store.parts("retrained", folder.keys["retrained"], ())
    parts.add(0, 1, 7)
    removed = folder.clean(remove=True)
    assert {path.parent.name for path in removed} == {"folds", "retrained", "findings", "extents"}
    assert dict(parts.intact([(0, 1)], print)) == {(0, 1): 7}


def test_data_with_dots_in_their_names_have_run_folders_of_their_own(images, tmp_path):
    for name in ("photos.v1", "photos.v2"):
        (tmp_path / name).mkdir()
    (tmp_path / "tags.v1.csv").touch()
    names = ["photos.v1", "photos.v2", "tags.v1.csv"]
    folders = [_run_folder(None, tmp_path / name, images).name for name in names]
    assert folders == ["photos.v1", "photos.v2", "tags.v1"]


@pytest.mark.parametrize("how", [each for each in DAMAGES if each != "flipped"])
def test_damaged_keys_are_one_line_and_the_next_run_writes_them_anew(run, made, images, how):
    damage(run / "stages.json", how)
    with pytest.raises(Tag2BoxError, match=r"stages.json is damaged .* takes the run to its end"):
        RunFolder(run)
    assert all(cost["reused"] for cost in fit_run(images, CONFIG, run, workers=1).values())
    assert contents(run) == contents(made)


def test_notes_are_sealed(run):
    for name in ("run.json", "stages.json", "detections.json"):
        stored = json.loads((run / name).read_text())
        assert checked_json({k: v for k, v in stored.items() if k != "crc"}) == (run / name).read_text()
