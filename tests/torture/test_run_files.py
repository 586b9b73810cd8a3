"""Bytes changed in every kind of file of a run folder and of the cache; `make torture` takes a thousand."""

import numpy as np
import pytest
from tests._damage import mutant
from tests._run_files import check, kinds, make

from tag2box import Detector, Tag2BoxError

WALKED = {
    "run index.sqlite",
    "run arrays *.bin",
    "run detector.npz",
    "run corrections.jsonl",
    "run events.jsonl",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAG2BOX_CACHE", str(folder / "cache"))
        make(folder)
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(made / "cache"))
    return made


def test_no_changed_byte_is_silent(folder):
    check(folder, 12, seconds=2)
    assert set(kinds(folder)) >= WALKED


@pytest.mark.parametrize("count", [50, pytest.param(5000, marks=pytest.mark.torture)])
def test_a_strangers_detector_is_read_or_refused_in_one_line(folder, count):
    """Sealed after the change: no checksum shows it."""
    whole, file, refused = (folder / "run" / "detector.npz").read_bytes(), folder / "mutant.npz", 0
    for which in range(count):
        file.write_bytes(mutant(whole, ".npz", np.random.default_rng([0, which])))
        try:
            Detector.load(file)
        except Tag2BoxError:
            refused += 1
    assert 0 < refused < count


@pytest.mark.torture
def test_no_changed_byte_of_a_thousand_is_silent(folder, capsys):
    table = check(folder, 1000, seconds=240)
    with capsys.disabled():
        print("", *table, sep="\n")  # noqa: T201
