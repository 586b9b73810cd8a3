"""What a run is expected to cost: every stage is in it, and the disk is what the run then takes."""

from dataclasses import replace

import pytest
from tests._networks import write_cnn, write_vit
from tests._toys import FAST, make_toys

from tag2box.data.reading import read_images
from tag2box.errors import InputError
from tag2box.pipeline import Config
from tag2box.run.costs import estimate, timed
from tag2box.run.folder import RunFolder, fit_run
from tag2box.runtime.config import read_settings

PAPER = ("retrain.method=none",)


def test_it_grows_with_the_work():
    config = Config()
    one = estimate(1000, 20, config)
    assert estimate(1000, 20, config, workers=2).total_seconds == pytest.approx(one.total_seconds / 2)
    assert estimate(2000, 20, config).total_disk == pytest.approx(2 * one.total_disk)
    assert one.disk["features"] == 1000 * 300 * (512 + 4 * 192) * 2
    assert one.disk["competition"] == 4 * 1000 * 300 * 20
    assert {"two streams", "retraining", "findings"} <= set(one.seconds)
    assert "GB" in str(estimate(100_000, 20, config))
    assert "features" in str(one)


def test_a_network_of_ones_own_is_timed(tmp_path):
    path = write_cnn(tmp_path / "c.onnx")
    config = read_settings(Config(), None, [f"features.network={path}"])
    taken = timed(config, 10)
    assert taken.map_shape == (12, 16, 16)  # a cell every 32 pixels
    own = estimate(10, 1, config, taken=taken)
    assert own.disk["maps"] == 10 * 2 * 12 * 16 * 16
    assert own.disk["features"] == 10 * 300 * (2 * 2 * 16 + 4 * 16) * 2  # no more dimensions than there are
    slower = replace(taken, windows_seconds=100 * taken.windows_seconds)
    assert estimate(10, 1, config, taken=slower).seconds["features"] == 100 * own.seconds["features"]
    assert timed(Config(), 10) is None  # few photos, and the network that is known


def test_a_network_without_a_map_is_refused_when_it_is_timed(tmp_path):
    config = read_settings(Config(), None, [f"features.network={write_vit(tmp_path / 'v.onnx', head=10)}"])
    with pytest.raises(InputError, match="gives no map"):
        timed(config, 10)


def test_neighbors_no_longer_grow_with_the_square():
    config = read_settings(Config(), None, PAPER)
    small, large, larger = (estimate(n, 20, config).seconds["neighbors"] for n in (2000, 4000, 400_000))
    assert large == pytest.approx(4 * small)
    assert larger < 2 * large
    assert "two streams" not in estimate(10, 1, config).seconds


@pytest.mark.parametrize("sets", [FAST, (*FAST, *PAPER)])
def test_the_disk_is_what_a_run_takes(tmp_path, sets):
    toys = tmp_path / "toys"
    images = read_images(toys, make_toys(toys))
    config = read_settings(Config(), None, sets)
    fit_run(images, config, tmp_path / "run", workers=1)
    run = RunFolder(tmp_path / "run")
    # The toys are square, and not every photo has as many windows as it may have.
    counts = run.result("windows").counts
    expected = estimate(
        len(images), 1, replace(config, windows=replace(config.windows, max_windows=int(counts.mean())))
    )
    for stage, size in expected.disk.items():
        name = {"neighbors": "degrees"}.get(stage, stage)
        taken = sum(path.stat().st_size for path in (tmp_path / "run" / name).rglob("*.npy"))
        assert size / 2 < taken < 2 * size + 4000, stage
    large = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*.npy"))
    assert expected.total_disk > large / 4
