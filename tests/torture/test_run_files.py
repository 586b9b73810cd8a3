"""Bytes changed in every kind of file of a run folder and of the cache; `make torture` takes a thousand."""

import pytest
from tests._run_files import check, kinds, make

WALKED = {"run run.json", "run config.toml", "run detector.npz", "run corrections.jsonl", "run events.jsonl"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))
    make(tmp_path)
    return tmp_path


def test_no_changed_byte_is_silent(folder):
    check(folder, 12, seconds=2)
    assert set(kinds(folder)) >= WALKED


@pytest.mark.torture
def test_no_changed_byte_of_a_thousand_is_silent(folder, capsys):
    table = check(folder, 1000, seconds=240)
    with capsys.disabled():
        print("", *table, sep="\n")  # noqa: T201
