"""The paper's figures of a toy run, by the command that draws them."""

import numpy as np
import pytest
from PIL import Image
from tests._toys import FAST, make_toys
from typer.testing import CliRunner

from tag2box import Config, read_images
from tag2box.cli.app import app
from tag2box.errors import InputError
from tag2box.reproduce import figures
from tag2box.run.fitting import fit_run
from tag2box.runtime.config import read_settings


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    make_toys(folder / "toys")
    fit_run(
        read_images(folder / "toys"), read_settings(Config.song2014(), None, FAST), folder / "run", workers=1
    )
    return folder / "run"


@pytest.mark.parametrize("name", ["figure2", "figure5", "convergence"])
def test_a_figure_is_drawn(run, name):
    result = CliRunner().invoke(app, ["reproduce", name, "--run", str(run)])
    assert result.exit_code == 0, result.output
    pixels = np.asarray(Image.open(run / f"{name}.png"))
    assert (pixels != 255).any(axis=2).mean() > 0.02


def test_the_first_cluster_is_of_positive_images(run):
    opened = figures.read_song2014(run)
    cover = opened.result("covers")[0]
    assert (opened.images.tags[cover.image[cover.by == 0], 0] == 1).all()


def test_another_method_has_no_such_figures(run, tmp_path):
    other = read_settings(Config(), None, FAST)
    fit_run(read_images(run.parent / "toys"), other, tmp_path, workers=1)
    with pytest.raises(InputError, match="no run of the cover"):
        figures.read_song2014(tmp_path)
