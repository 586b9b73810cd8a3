"""`make quality`: what falls below its floor fails and says by how much; without the data it passes."""

import math
import tomllib
from pathlib import Path

import pytest

quality = pytest.importorskip("quality.__main__", reason="the package is installed, without `quality`")
FLOORS = tomllib.loads((Path(quality.__file__).parent / "floors.toml").read_text())
FIGURES = [(part, figure) for part in FLOORS for figure in FLOORS[part]]


def test_every_part_has_floors_that_are_near_what_was_measured():
    assert set(FLOORS) == set(quality.PARTS)
    for part, figure in FIGURES:
        floor = FLOORS[part][figure]
        assert 0 < floor["noise"] <= floor["measured"] - floor["floor"] < 10, (part, figure)


def run(monkeypatch, tmp_path, figures):
    """The exit status where the one part measured these figures."""
    monkeypatch.setattr(quality, "DATA", tmp_path)
    monkeypatch.setattr(quality, "PARTS", {"cards": lambda *_: figures})
    return quality.main([])


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_a_figure_below_its_floor_fails(monkeypatch, tmp_path, capsys, value):
    measured = {figure: FLOORS["cards"][figure]["measured"] for figure in FLOORS["cards"]}
    assert run(monkeypatch, tmp_path, measured) == 0
    assert "BELOW" not in capsys.readouterr().out
    assert run(monkeypatch, tmp_path, measured | {"ap": value}) == 1
    low = FLOORS["cards"]["ap"]["floor"] - value
    printed = capsys.readouterr()
    assert f"BELOW by {low:.2f} (noise " in printed.out
    assert "cards ap fell below the floor" in printed.err


def test_a_figure_without_a_floor_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(KeyError, match="recall"):
        run(monkeypatch, tmp_path, {"corloc": 99.0, "ap": 99.0, "recall": 99.0})


def test_without_the_data_it_says_so_and_passes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(quality, "DATA", tmp_path / "none")
    assert quality.main([]) == 0
    assert "skipped" in capsys.readouterr().out


def test_a_part_that_there_is_not_fails_with_or_without_the_data(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(quality, "DATA", tmp_path / "none")
    assert quality.main(["demo", "card"]) == 2
    assert "no part is called card: there are mil, demo" in capsys.readouterr().out
