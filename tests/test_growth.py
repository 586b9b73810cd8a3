"""What it costs when photos change: how often each is read, decoded and described; and what is read later."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests._toys import FAST, contents, make_toys

import tag2box as t2b
from tag2box.config import Config
from tag2box.data import decoding
from tag2box.description import photos as describing
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.config import read_settings

CONFIG = read_settings(Config(), None, FAST)


@pytest.fixture
def toys(tmp_path):
    make_toys(tmp_path / "toys", 12)
    return tmp_path / "toys"


def some(toys, n):
    """The first n of them."""
    images = t2b.read_images(toys, toys / "tags.csv")
    return images.take(np.arange(len(images)) < n)


@pytest.fixture
def calls(monkeypatch):
    """How often files were read and photos decoded."""
    counts = {"read": [], "decoded": 0}
    real_read, real_open = describing.read_photo, Image.open

    def read(path):
        counts["read"].append(path.name)
        return real_read(path)

    def opened(*arguments, **options):
        counts["decoded"] += 1
        return real_open(*arguments, **options)

    monkeypatch.setattr(describing, "read_photo", read)
    monkeypatch.setattr(decoding.Image, "open", opened)
    return counts


def test_a_photo_is_read_once_and_decoded_once(toys, tmp_path, calls):
    images = some(toys, 10)
    fit_run(images, CONFIG, tmp_path / "run", workers=1)
    assert sorted(calls["read"]) == sorted(path.name for path in images.paths)
    assert calls["decoded"] == 10


def test_photos_more_cost_themselves_alone(toys, tmp_path, calls):
    fit_run(some(toys, 10), CONFIG, tmp_path / "run", workers=1)
    calls["decoded"] = 0
    result = fit_run(some(toys, 12), CONFIG, tmp_path / "run", workers=1)
    assert calls["decoded"] == 2
    assert result.costs["described"]["photos_reused"] == 10
    described = RunFolder(tmp_path / "run").result("described")
    alone = [
        describing.describe_photo(RunFolder(tmp_path / "run").detector.description, decoding.read_photo(p))
        for p in some(toys, 12).paths
    ]
    assert np.asarray(described.X).tobytes() == np.concatenate([each.X for each in alone]).tobytes()


def test_photos_fewer_or_other_tags_cost_none_of_them(toys, tmp_path, calls):
    images = some(toys, 12)
    fit_run(images, CONFIG, tmp_path / "run", workers=1)
    calls["decoded"] = 0
    fewer = images.take(np.arange(12) != 3)
    fit_run(fewer, CONFIG, tmp_path / "run", workers=1)
    fit_run(replace(fewer, tags=-fewer.tags), CONFIG, tmp_path / "run", workers=1)
    assert calls["decoded"] == 0
    before = (tmp_path / "run/arrays").rglob("X*.bin")
    size = sum(path.stat().st_size for path in before)
    learned = RunFolder(tmp_path / "run").result("described").X[:].tobytes()
    RunFolder(tmp_path / "run").clean(remove=True)  # gives the room of the photo back
    assert sum(path.stat().st_size for path in (tmp_path / "run/arrays").rglob("X*.bin")) < size
    assert RunFolder(tmp_path / "run").result("described").X[:].tobytes() == learned


def test_the_description_is_fitted_anew_when_the_set_has_outgrown_it(toys, tmp_path):
    config = replace(CONFIG, features=replace(CONFIG.features, sample_images=100))
    fit_run(some(toys, 2), config, tmp_path / "run", workers=1)
    first = RunFolder(tmp_path / "run").detector.description
    fit_run(some(toys, 2 * describing.GROWN), config, tmp_path / "run", workers=1)
    kept = RunFolder(tmp_path / "run").detector.description
    assert (kept.projection.A == first.projection.A).all()
    fit_run(some(toys, 2 * describing.GROWN + 1), config, tmp_path / "run", workers=1)
    anew = RunFolder(tmp_path / "run").detector.description
    assert (
        anew.projection.A.shape != first.projection.A.shape or (anew.projection.A != first.projection.A).any()
    )


@pytest.mark.parametrize("command", ["run", "detect"])
def test_a_photo_that_changes_meanwhile_is_what_it_was(toys, tmp_path, monkeypatch, command):
    """What was read first is described, under its own hash; the new bytes are another photo."""
    images = some(toys, 10)
    fit_run(images, CONFIG, tmp_path / "clean", workers=1)
    shutil.copytree(tmp_path / "clean", tmp_path / "run")
    victim, other = images.paths[0], images.paths[1].read_bytes()
    original, real = victim.read_bytes(), describing.read_photo

    def read(path):
        photo = real(path)
        if path == victim:
            victim.write_bytes(other)  # somebody replaces it while work goes on
        return photo

    def work(folder):
        if command == "run":
            fit_run(images, CONFIG, folder, workers=1)
            return mined_windows(RunFolder(folder))
        return detect_run(RunFolder(folder), images, workers=1)[0]

    target = tmp_path / ("fresh" if command == "run" else "run")
    monkeypatch.setattr(describing, "read_photo", read)
    found = work(target)
    monkeypatch.setattr(describing, "read_photo", real)
    victim.write_bytes(original)
    for boxes in (found, work(target)):
        expected = work(tmp_path / "clean")
        assert boxes.xyxy.tobytes() == expected.xyxy.tobytes()
        assert boxes.score.tobytes() == expected.score.tobytes()
    if command == "run":
        assert contents(target)["detector.npz"] == contents(tmp_path / "clean")["detector.npz"]


def test_copies_of_a_photo_are_described_once(toys, tmp_path, calls):
    images = some(toys, 10)
    shutil.copy(images.paths[0], images.paths[2])
    calls["decoded"] = 0
    fit_run(images, CONFIG, tmp_path / "run", workers=1)
    assert calls["decoded"] == 9
    assert len(RunFolder(tmp_path / "run").images) == 10


def test_boxes_are_asked_of_the_index_alone(toys, tmp_path, monkeypatch):
    fit_run(some(toys, 10), CONFIG, tmp_path / "run", workers=1)
    for path in (tmp_path / "run/arrays").rglob("*.bin"):
        path.unlink()  # who wants boxes opens no array
    boxes = mined_windows(RunFolder(tmp_path / "run"))
    assert len(boxes) == 5
