"""The table of `make bench`: what is in a row, and when the command fails."""

import importlib
import math
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import benchmarks
import pytest
from benchmarks import Line, Skip
from benchmarks._table import HEAD, measure, row, text


@pytest.fixture
def made(monkeypatch):
    """A function that makes a benchmark of these lines or errors, and gives its name."""

    def make(*steps):
        def run():
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                yield step

        module = ModuleType("benchmarks.made_up")
        module.run = run
        monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
        return ["made_up"]

    return make


ROOT = Path(__file__).parents[2]


def line(**fields):
    return Line("a job", 2.0, 9.0, "s", "a rival", **fields)


def test_a_line_of_before_needs_no_new_field():
    assert row(Line("a job", 2.0, 9.0, "s", "a rival", "fine")) == (
        "a job",
        "2 s",
        "9 s (a rival)",
        "4.5 x",
        "",
        "fine",
    )


@pytest.mark.parametrize(("bar", "says"), [(4.0, "4 x met"), (5.0, "5 x MISSED")])
def test_a_bar_is_met_or_missed_and_missing_it_is_no_failure(made, bar, says):
    rows, well = measure(made(line(bar=bar)))
    assert rows[0][4] == says
    assert well


@pytest.mark.parametrize(("value", "well"), [(0.9, True), (0.8, True), (0.79, False), (math.nan, False)])
def test_a_quality_below_its_floor_fails(made, value, well):
    rows, found = measure(made(line(quality="recall", value=value, floor=0.8), line()))
    assert found == well
    assert len(rows) == 2
    assert ("BELOW 0.8" in rows[0][5]) != well


def test_what_cannot_run_is_a_row_that_says_why(made):
    rows, well = measure(made(line(), Skip("set TAG2BOX_RUN")))
    assert well
    assert rows[1] == ("made_up", "-", "-", "-", "-", "not run: set TAG2BOX_RUN")
    rows, well = measure(made(ModuleNotFoundError("No module named 'cv3'", name="cv3")))
    assert well
    assert "cv3 is not installed" in rows[0][5]


def test_what_breaks_is_a_row_and_fails(made, capsys):
    rows, well = measure(made(line(), ValueError("no such thing")))
    assert not well
    assert len(rows) == 2
    assert rows[1][5] == "BROKEN: ValueError: no such thing"
    assert "Traceback" in capsys.readouterr().err


def test_the_table_is_markdown_in_columns():
    lines = text([row(line(quality="a | b\nc")), row(line(bar=4.0))]).splitlines()
    assert len(lines) == 4
    assert {each.count("|") for each in lines} == {len(HEAD) + 1}
    assert len({each.index("a rival") for each in lines[2:]}) == 1


def test_the_command_refuses_an_unknown_name():
    command = [sys.executable, "-m", "benchmarks", "bgas"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "no benchmark bgas" in done.stderr
    assert "bags" in done.stderr
    assert done.stdout == ""


NAMES = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)} - {"__main__"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_benchmark_can_be_imported(name):
    """What they measure is renamed and moved: it has to be found under its name of today."""
    try:
        importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as missing:
        if missing.name.split(".")[0] in ("benchmarks", "tag2box"):
            raise
