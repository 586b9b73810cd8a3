"""What every test file may use: the shared data, where it is there."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Same examples on every run. Kernels compile at their first call: no deadline.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

DATA = Path(os.environ.get("TAG2BOX_DATA", Path(__file__).parents[2] / "shared" / "data"))


def _folder(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} data: set TAG2BOX_DATA to the folder that holds it")
    return DATA / name


@pytest.fixture(scope="session")
def mil_folder():
    return _folder("mil")


@pytest.fixture(scope="session")
def voc_folder():
    return _folder("voc6") / "VOC2007"


@pytest.fixture(scope="session")
def song_folder():
    return _folder("song2014")


@pytest.fixture(scope="session")
def review_run(tmp_path_factory):
    """A finished run over toys to review; to be copied before anything is written in it."""
    from tests._review import toy_run

    return toy_run(tmp_path_factory.mktemp("review"))
