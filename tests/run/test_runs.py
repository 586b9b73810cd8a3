"""The run folder between runs: a damaged index, newer versions, the detector of earlier settings, `clean`."""

import json
import shutil
import sqlite3
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
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.config import read_settings
from tag2box.runtime.index import Index
from tag2box.runtime.store import Store

CONFIG = read_settings(Config(), None, [*FAST, "two_stream.prior=5", "maps.details=never"])
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


def test_its_own_config_file_makes_the_same_bytes(run, images):
    """A whole number may be given for a float, as here in Python; a file of settings gives the float."""
    config = replace(CONFIG, features=replace(CONFIG.features, length=20), maps=replace(CONFIG.maps, ring=1))
    fit_run(images, config, run, workers=1)
    before = contents(run)
    fit_run(images, read_settings(Config(), run / "config.toml"), run, workers=1)
    assert contents(run) == before


@pytest.mark.parametrize("how", ["empty", "cut", "text"])
def test_a_damaged_index_is_one_line_and_the_next_run_writes_it_anew(run, made, images, how):
    file = run / "index.sqlite"
    whole = file.read_bytes()
    file.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"[1, 2]" * 1000}[how])
    with pytest.raises(Tag2BoxError, match=r"index.sqlite is damaged .* takes the run to its end"):
        RunFolder(run)
    detector = (run / "detector.npz").read_bytes()
    fit_run(images, CONFIG, run, workers=1)
    assert (run / "detector.npz").read_bytes() == detector
    detect_run(RunFolder(run), images, workers=1)
    assert contents(run) == contents(made)


@pytest.mark.parametrize("table", ["photos", "spans", "boxes", "keys", "notes", "detections"])
def test_a_changed_row_is_never_believed(run, table):
    with sqlite3.connect(run / "index.sqlite") as db:
        column = db.execute(f"SELECT * FROM {table}").description[1][0]
        db.execute(f"UPDATE {table} SET {column} = 'another' WHERE rowid = (SELECT max(rowid) FROM {table})")

    def read():
        folder = RunFolder(run)
        return mined_windows(folder), folder.detections(*folder.detected()[-1]), folder.result("described")

    with pytest.raises(Tag2BoxError, match="damaged"):
        read()


def test_a_run_folder_of_a_newer_version_is_left_alone(run, images):
    with sqlite3.connect(run / "index.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    before = (run / "index.sqlite").read_bytes()
    for use in (lambda: RunFolder(run), lambda: fit_run(images, CONFIG, run, workers=1)):
        with pytest.raises(Tag2BoxError, match="newer tag2box"):
            use()
    assert (run / "index.sqlite").read_bytes() == before


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
    assert "is of earlier settings" in err
    fit_run(images, OTHER, run, workers=1)
    assert (run / "detector.npz").read_bytes() != old
    assert RunFolder(run).outdated is None


@pytest.mark.parametrize("stage", ["two_stream", "findings"])
def test_a_killed_run_with_the_same_settings_leaves_the_folder_as_it_was(run, made, images, stage):
    interrupted(images, CONFIG, run, stage)
    assert contents(run) == contents(made)
    folder = RunFolder(run)
    assert folder.outdated is None
    assert len(mined_windows(folder)) == 3
    assert len(folder.detected()) == 1
    assert write_report(run).is_file()


def test_a_folder_is_always_of_one_run(run, images, monkeypatch):
    """Killed before any write of the index: settings, photos, keys and results are those of one run."""
    other = images.take([0, 1, 2, 3])
    for last in range(40):
        folder = shutil.copytree(run, run.parent / "killed")
        count, real = [0], Index.writing

        def writing(index, count=count, last=last, real=real):
            if count[0] == last:
                raise Killed
            count[0] += 1
            return real(index)

        with monkeypatch.context() as patch:
            patch.setattr(Index, "writing", writing)
            try:
                fit_run(other, OTHER, folder, workers=1)
            except Killed:
                ended = False
            else:
                ended = True
        state = RunFolder(folder)
        if state.has_boxes:
            assert len(mined_windows(state)) == (state.images.tags == 1).sum()
        if state.outdated is None:
            assert (state.config.retrain.C == OTHER.retrain.C) == (len(state.images) == 4)
        shutil.rmtree(folder)
        if ended:
            break
    assert ended
    assert last > 10


def test_data_with_dots_in_their_names_have_run_folders_of_their_own(images, tmp_path):
    for name in ("photos.v1", "photos.v2"):
        (tmp_path / name).mkdir()
    (tmp_path / "tags.v1.csv").touch()
    names = ["photos.v1", "photos.v2", "tags.v1.csv"]
    folders = [_run_folder(None, tmp_path / name, images).name for name in names]
    assert folders == ["photos.v1", "photos.v2", "tags.v1"]


def test_two_figures_of_one_truth_are_the_last(run, images):
    folder = RunFolder(run)
    for value in (1, 2):
        folder.set_truth(images.paths[0].parent, None, "voc07", {"x": value})
    assert folder.figures()["x"] == 2
    assert len(folder.index.rows("evaluations")) == 1


def test_a_folder_without_a_run_says_where_runs_are(tmp_path):
    with pytest.raises(InputError, match="no run folder"):
        RunFolder(tmp_path)
