"""A run folder that an older version made: `data/run-of-november-2026.zip`.

It was made over `make_toys(folder, 8)` with FAST by the version of 16 November 2026, before the package had
folders: records are stored with their modules ("tag2box.windows:Windows"), windows have no sizes, objectness
is called share, there are no two streams, no context and no voted boxes.
"""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests._toys import FAST, make_toys
from typer.testing import CliRunner

from tag2box import read_images
from tag2box.cli.app import app
from tag2box.errors import InputError
from tag2box.pipeline import Config
from tag2box.run.folder import RunFolder, fit_run, mined_windows
from tag2box.runtime.config import read_settings

STORED = Path(__file__).parent / "data" / "run-of-november-2026.zip"
STAGES = ("windows", "projection", "features", "maps", "objectness", "degrees", "cover", "initial", "refine")


@pytest.fixture
def run(tmp_path):
    make_toys(tmp_path / "toys", 8)
    with zipfile.ZipFile(STORED) as content:
        content.extractall(tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_it_opens_with_every_result(run):
    assert len(run.images) == 8
    assert all(path.is_file() for path in run.images.paths)
    for stage in STAGES:
        assert run.has(stage), stage
        assert run.result(stage) is not None
    windows = run.result("windows")
    assert windows.sizes.tolist() == [[96, 96]] * 8
    assert run.result("features").X.shape == (len(windows.xyxy), 8)
    assert run.result("objectness").objectness.shape == (len(windows.xyxy), 1)
    (key, images), *_ = run.detected()
    assert images.ids == run.store.load("detections", key).ids == run.images.ids


def test_its_boxes_are_those_that_it_chose(run):
    found, windows = mined_windows(run), run.result("windows")
    (rows,) = run.result("refine").mined
    np.testing.assert_array_equal(found.xyxy, windows.xyxy[rows])
    assert found.image.tolist() == run.images.positives("thing").tolist() == [0, 2, 4, 6]


def test_it_is_reported_and_exported(run, tmp_path):
    page = CliRunner().invoke(app, ["report", str(run.folder)])
    assert page.exit_code == 0, page.output
    assert "Boxes in the images learned from" in (run.folder / "report.html").read_text()
    answer = CliRunner().invoke(
        app, ["export", str(run.folder), "--format", "csv", "--out", str(tmp_path / "boxes.csv")]
    )
    assert answer.exit_code == 0, answer.output
    assert len((tmp_path / "boxes.csv").read_text().splitlines()) == 1 + 4


def test_its_detector_is_refused_in_one_line_and_learned_anew(run):
    with pytest.raises(InputError, match=r"^[^\n]*another version[^\n]*learn it again with tag2box run$"):
        _ = run.detector
    tags = run.folder.parent / "toys" / "tags.csv"
    images = read_images(tags.parent, tags)
    fit_run(images, read_settings(Config(), None, FAST), run.folder, workers=1)
    again = RunFolder(run.folder)
    assert again.detector.classes == ("thing",)
    assert len(mined_windows(again)) == 4
