"""`docs/paper.md`: every equation of the paper once, and every name of the code that it cites exists."""

import re
from importlib import import_module
from pathlib import Path

from tag2box import Config
from tag2box.runtime.config import settings

PAGE = (Path(__file__).parents[2] / "docs" / "paper.md").read_text()
LABELS = ("eq:1", "eq:totalcover", "eq:submodcover", "lem:bound", "eq:decision", "eq:latentsvm", "eq:fmax")
LABELS += ("eq:smoothedf", "eq:simplex", "eq:proj")


def test_every_equation_has_its_row():
    assert re.findall(r"^\| \((\d+)\)", PAGE, re.MULTILINE) == [str(n) for n in range(1, 15)]
    for label in LABELS:
        assert PAGE.count(f"`{label}`") == 1, label


def test_every_name_exists():
    names = re.findall(r"`([a-z_0-9/]+)\.py::([A-Za-z_0-9.]+)`", PAGE)
    assert len(names) > 30
    for file, name in names:
        owner = import_module(f"tag2box.{file.replace('/', '.')}")
        for part in name.split("."):
            owner = getattr(owner, part)


def test_every_setting_exists():
    known = {name for name, _ in settings(Config())}
    rooms = "cover|initial|refine|windows|features|detect"
    assert set(re.findall(rf"`((?:{rooms})\.[a-z_]+)`", PAGE)) <= known
