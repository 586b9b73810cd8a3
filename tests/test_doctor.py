"""`tag2box doctor`: what the machine has, in words and in JSON; a broken machine is still described."""

import json
from pathlib import Path

import pytest
from tests._schemas import check
from typer.testing import CliRunner

import tag2box
from tag2box.cli import machine
from tag2box.cli.app import app
from tag2box.description.config import FeaturesConfig
from tag2box.description.resolving import measure_precision
from tag2box.errors import Tag2BoxError


def test_it_says_what_is_there():
    answer = CliRunner().invoke(app, ["doctor", "--json"])
    assert answer.exit_code == 0
    found = json.loads(answer.stdout)
    check("doctor", found)
    assert found["tag2box"] == tag2box.__version__
    speeds = measure_precision(FeaturesConfig())
    assert found["precision"]["chosen"] == speeds.precision
    assert found["precision"]["why"] == str(speeds)
    assert "CPU" in [device["name"] for device in found["devices"]]
    assert found["packages"]["pillow"] == __import__("PIL").__version__
    assert found["memory"]["total"] > found["memory"]["available"] > 0
    words = CliRunner().invoke(app, ["doctor"]).stdout
    for text in (str(speeds), tag2box.__version__, found["processor"]["name"], found["system"]):
        assert text in words


def test_it_names_no_home(monkeypatch, tmp_path):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert machine._cache()["folder"] == str(Path("~/cache"))


def test_what_is_broken_is_a_problem_and_not_an_error(monkeypatch):
    def broken(*_):
        raise Tag2BoxError("no weights: install them")

    monkeypatch.setattr(machine, "measure_precision", broken)
    monkeypatch.setattr(machine, "_memory", lambda: {"total": 10**9, "available": 5 * 10**8, "limit": None})
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
    assert memory["limit"] == (10**9 if few else None)
    found = {"memory": memory, "cache": machine._cache(), "processor": {"workers": 2}}
    assert any(line.startswith("memory") for line in machine._problems(found)) == few
