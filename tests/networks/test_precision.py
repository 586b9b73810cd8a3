"""The precision is what is fastest here: measured once, kept, and the same for the whole of a run."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest
from tests._toys import FAST, make_toys

import tag2box as t2b
from tag2box.config import Config
from tag2box.description import photos, resolving
from tag2box.description.config import FeaturesConfig
from tag2box.description.resolving import measure_precision
from tag2box.networks import precision
from tag2box.networks.inference import offered
from tag2box.networks.precision import Speeds, fastest
from tag2box.pipeline import learn
from tag2box.run import settings
from tag2box.run.folder import RunFolder, fit_run
from tag2box.run.settings import prepare
from tag2box.runtime.config import read_settings
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

CONFIG = read_settings(Config(), None, FAST)
SLOWNESS = {"f32": 0.004, "bf16": 0.001, "f16": 0.006}


class Slow:
    """A network that takes its time."""

    batch, input = 2, ((2, 4, 4, 3), np.dtype(np.float32))

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, x):
        assert x.shape == (2, 4, 4, 3)
        time.sleep(self.seconds)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Measure networks of the given seconds a batch; the precisions compiled for it, call by call."""
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path))
    monkeypatch.setattr(precision, "offered", lambda _device: tuple(SLOWNESS))

    def measure(seconds, content=("a network",)):
        compiled = []

        def make(name):
            compiled.append(name)
            return Slow(seconds[name])

        return fastest(make, "CPU", content), compiled

    return measure


def test_the_fastest_is_chosen_and_said(measured):
    speeds, compiled = measured(SLOWNESS)
    assert speeds.precision == "bf16"
    assert compiled == ["f32", "bf16", "f16"]
    assert 0.4 < speeds.ms["bf16"] < speeds.ms["f32"] < speeds.ms["f16"] < 30
    assert str(speeds).startswith("bf16, the fastest here (ms a window: f32 2")


def test_f32_stays_where_nothing_is_clearly_faster():
    assert precision._choose({"f32": 1.0, "bf16": 0.93}).precision == "f32"
    assert precision._choose({"f32": 1.0, "bf16": 0.8}).precision == "bf16"


def test_it_is_measured_once_for_a_network_a_processor_and_a_version(measured, monkeypatch, tmp_path):
    first, _ = measured(SLOWNESS)
    otherwise = SLOWNESS | {"f32": 0.0}
    assert measured(otherwise) == (first, [])
    assert measured(otherwise, ["another network"])[0].precision == "f32"
    with monkeypatch.context() as patch:
        patch.setattr("openvino.__version__", "2099.1")
        assert measured(otherwise)[0].precision == "f32"
    with monkeypatch.context() as patch:
        is_held = os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2"  # as the slow tests hold it
        patch.setenv("ONEDNN_MAX_CPU_ISA", "AVX" if is_held else "AVX2")
        assert measured(otherwise)[0].precision == "f32"
    assert measured(otherwise) == (first, [])
    for file in tmp_path.glob("precision-*.json"):
        file.write_text('{"precision": "f')
    assert measured(otherwise)[0].precision == "f32"


def test_a_measurement_that_was_changed_is_made_again(measured, tmp_path):
    first, _ = measured(SLOWNESS)
    (file,) = tmp_path.glob("precision-*.json")
    for old, new in (('"bf16"', '"f16"'), (":", ": 1")):
        file.write_text(file.read_text().replace(old, new, 1))
        again, compiled = measured(SLOWNESS)
        assert compiled
        assert again.precision == first.precision


def test_a_cache_that_cannot_be_written_is_no_obstacle(measured, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "file"))
    assert measured(SLOWNESS)[0].precision == "bf16"


@pytest.mark.parametrize("mode", ["shared", "warp"])
def test_a_real_network_is_measured_in_every_precision(monkeypatch, tmp_path, mode):
    monkeypatch.setattr(precision, "_file", lambda _content: tmp_path / "measured.json")
    monkeypatch.setattr(precision, "offered", lambda _device: ("f32", "bf16", "f16"))
    speeds = measure_precision.__wrapped__(FeaturesConfig(mode=mode, size=64, crop=4))
    assert list(speeds.ms) == ["f32", "bf16", "f16"]
    assert min(speeds.ms.values()) > 0
    assert (tmp_path / "measured.json").is_file()


def test_what_this_machine_offers_is_enough_for_auto():
    assert "f32" in offered("auto")
    assert measure_precision(FeaturesConfig()).precision in offered("auto")
    assert measure_precision(FeaturesConfig(precision="f16")) == Speeds("f16", {})


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder))


def fastest_is(monkeypatch, name):
    monkeypatch.setattr(settings, "measure_precision", lambda _config: Speeds(name, {"f32": 2.0, name: 1.0}))


def test_a_run_keeps_the_precision_that_it_began_with(images, tmp_path, monkeypatch):
    def begins_with(folder, **features):
        config = replace(CONFIG, features=replace(CONFIG.features, **features))
        start = prepare(images, config, folder)
        return start.config.features.precision, start.precision

    fastest_is(monkeypatch, "bf16")
    fit_run(images, CONFIG, tmp_path, workers=1)
    folder = RunFolder(tmp_path)
    described_by = folder.detector.description.settings
    assert folder.config.features.precision == described_by.features.precision == "bf16"
    fastest_is(monkeypatch, "f32")  # elsewhere
    costs = fit_run(images, CONFIG, tmp_path, workers=1)
    assert all(cost["reused"] for cost in costs.values())
    assert RunFolder(tmp_path).config == folder.config
    assert begins_with(tmp_path) == ("bf16", "bf16, as this run began")
    assert begins_with(tmp_path, precision="f16") == ("f16", "f16, as set")
    assert begins_with(tmp_path, device="CPU")[0] == "f32"  # another device: it is measured
    assert begins_with(tmp_path / "new")[0] == "f32"


def test_workers_are_told_the_precision(images, monkeypatch, tmp_path):
    """They must not each measure: the same bytes whatever their number."""
    told = []

    class EnoughError(Exception):
        pass

    def map_ordered(job, *_, **__):
        told.append(job.args[0].features.precision)
        raise EnoughError

    monkeypatch.setattr(resolving, "measure_precision", lambda _config: Speeds("f16", {}))
    monkeypatch.setattr(photos, "map_ordered", map_ordered)
    hashed = photos.Photos(images.paths, images.ids)
    with pytest.raises(EnoughError):
        learn(images, hashed, CONFIG, Run(Store(tmp_path), workers=2))
    assert told == ["f16"]
