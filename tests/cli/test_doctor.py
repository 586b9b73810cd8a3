"""`tag2box doctor`: what the machine has, in words and in JSON; a broken machine is still described."""

import json
from pathlib import Path

import pytest
from tests._review import copied
from tests._schemas import check
from typer.testing import CliRunner

import tag2box
from tag2box.cli import doctor as machine
from tag2box.cli.app import app
from tag2box.description.config import FeaturesConfig
from tag2box.description.resolving import measure_precision
from tag2box.errors import InputError, Tag2BoxError
from tag2box.run.fitting import result_packages
from tag2box.run.folder import RunFolder


def test_it_says_what_is_there():
    answer = CliRunner().invoke(app, ["doctor", "--json"])
    assert answer.exit_code == 0
    found = json.loads(answer.stdout)
    check("doctor", found)
    assert found["tag2box"] == tag2box.__version__
    speeds = measure_precision(FeaturesConfig())
    assert found["precision"]["chosen"] == speeds.precision
    assert found["precision"]["why"] == str(speeds)
    assert found["packages"]["pillow"] == __import__("PIL").__version__
    assert found["memory"]["total"] > found["memory"]["available"] > 0
    words = CliRunner().invoke(app, ["doctor"]).stdout
    for text in (str(speeds), tag2box.__version__, found["processor"]["name"], found["system"]):
        assert text in words


def test_a_system_that_says_nothing_of_its_memory_is_described(monkeypatch):
    """As Windows: there is no sysconf and no /proc."""
    monkeypatch.delattr(machine.os, "sysconf", raising=False)
    monkeypatch.setattr(machine, "_read", lambda _: "")
    assert machine._memory() == {"total": None, "available": None}


def test_it_names_no_home(monkeypatch, tmp_path):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert machine._cache()["folder"] == str(Path("~/cache"))


def test_what_is_broken_is_a_problem_and_not_an_error(monkeypatch):
    def broken(*_):
        raise Tag2BoxError("no weights: install them")

    monkeypatch.setattr("tag2box.description.resolving.measure_precision", broken)
    monkeypatch.setattr(machine, "_memory", lambda: {"total": 10**9, "available": 5 * 10**8})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10**6}))
    found = machine.examine()
    assert found["precision"] is None
    assert [line.partition(":")[0] for line in found["problems"]] == ["precision", "memory", "disk"]
    assert "no weights: install them" in machine.in_words(found)


@pytest.mark.parametrize(("limit", "few"), [("1000000000\n", True), ("max\n", False)])
def test_a_container_may_have_less_memory_than_the_machine(monkeypatch, limit, few):
    monkeypatch.setattr(
        machine, "_read", lambda path: limit if "cgroup" in path else "MemAvailable: 9000000 kB"
    )
    memory = machine._memory()
    assert memory["available"] == (10**9 if few else 9_216_000_000)
    found = {"memory": memory, "cache": machine._cache(), "processor": {"workers": 2}, "run": None}
    assert any(line.startswith("memory") for line in machine._problems(found)) == few


def test_a_run_says_which_packages_it_was_made_with(review_run, tmp_path):
    run = copied(review_run, tmp_path)
    folder = RunFolder(run)
    note = folder.index.note("run")
    assert note["packages"] == result_packages()
    assert note["packages"]["pillow"] == __import__("PIL").__version__
    older = {**note, "packages": {**note["packages"], "pillow": "1.0"}}
    with folder.index.writing() as change:
        change.put("notes", [("run", json.dumps(older))])
    answer = CliRunner().invoke(app, ["doctor", "--run", str(run), "--json"])
    found = json.loads(answer.stdout)
    check("doctor", found)
    assert found["run"] == older["packages"]
    assert any(line.startswith("run: made with pillow 1.0, and here is ") for line in found["problems"])
    assert "pillow 1.0" in machine.in_words(found)


def test_what_is_no_run_is_one_line(tmp_path):
    with pytest.raises(InputError, match="does not say what it was made with: give the folder of a run"):
        machine.examine(tmp_path)
