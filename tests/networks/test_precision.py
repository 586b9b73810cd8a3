"""The precision is what is fastest here: measured once, kept, and the same for the whole of a run."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest
from tests._toys import FAST, make_toys

import tag2box as t2b
from tag2box.config import Config
from tag2box.description.config import FeaturesConfig
from tag2box.description.resolving import measure_precision
from tag2box.networks import precision
from tag2box.networks.openvino_engine import offered
from tag2box.networks.precision import Speeds, fastest
from tag2box.run import settings
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.run.settings import prepare
from tag2box.runtime.config import read_settings

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
    assert all(cost["reused"] for cost in costs.costs.values())
    assert RunFolder(tmp_path).config == folder.config
    assert begins_with(tmp_path) == ("bf16", "bf16, as this run began")
    assert begins_with(tmp_path, precision="f16") == ("f16", "f16, as set")
    assert begins_with(tmp_path, device="CPU")[0] == "f32"  # another device: it is measured
    assert begins_with(tmp_path / "new")[0] == "f32"
