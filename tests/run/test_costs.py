"""What a run is expected to cost: every stage is in it, and the disk is what the run then takes."""

from dataclasses import replace

import pytest
from tests._networks import write_cnn
from tests._toys import FAST, make_toys

from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.pipeline import description_settings
from tag2box.run.costs import estimate, timed
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings

PAPER = ("method=song2014",)

# What the stages of an estimate are in the run folder.
STAGES = {
    "describing": ("described",),
    "objectness": ("objectness", "competition"),
    "neighbors": ("compared", "degrees"),
}


# Maps at the cut in a byte a number, of photos of 4 : 3 at 1024, 512 and 256 pixels.
EARLY = (64 * 48 + 32 * 24 + 16 * 12) * 112 + 300 * 225


def test_it_grows_with_the_work():
    config = Config()
    one = estimate(1000, 20, config)
    assert estimate(1000, 20, config, workers=2).total_seconds == pytest.approx(one.total_seconds / 2)
    assert estimate(2000, 20, config).total_disk == pytest.approx(2 * one.total_disk)
    assert one.disk["describing"] == 1000 * (300 * (16 + 2 * (512 + 4 * 192)) + 2 * 12 * 16 * 320 + EARLY)
    assert one.disk["objectness"] == 8 * 1000 * 300 * 20  # alone, and by maps that are shared
    assert {"two streams", "retraining", "findings"} <= set(one.seconds)
    assert "GB" in str(estimate(100_000, 20, config))
    assert "describing" in str(one)


def test_a_network_of_ones_own_is_timed(tmp_path):
    path = write_cnn(tmp_path / "c.onnx")
    config = read_settings(Config(), None, [f"features.network={path}", "features.precision=f32"])
    taken = timed(description_settings(config), 10)
    assert taken.map_shape == (12, 16, 16)  # a cell every 32 pixels
    assert 0 < taken.n_windows <= 300
    own = estimate(10, 1, config, taken=taken)
    vectors = 300 * (16 + 2 * (2 * 2 * 16 + 4 * 16))  # no more dimensions than there are
    assert own.disk["describing"] == 10 * (vectors + 2 * 12 * 16 * 16 + EARLY)
    slower = replace(taken, seconds=100 * taken.seconds)
    assert estimate(10, 1, config, taken=slower).seconds["describing"] == 100 * own.seconds["describing"]
    built_in = description_settings(read_settings(Config(), None, ["features.precision=f32"]))
    assert timed(built_in, 10) is None  # few photos, and the network that is known


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
    counts = run.result("described").counts
    expected = estimate(
        len(images), 1, replace(config, windows=replace(config.windows, max_windows=int(counts.mean())))
    )
    arrays = tmp_path / "run" / "arrays"
    for stage, size in expected.disk.items():
        kinds = [path for name in STAGES[stage] for path in arrays.glob(f"{name}-*/*.bin")]
        assert size / 2 < sum(path.stat().st_size for path in kinds) < 2 * size + 4000, stage
