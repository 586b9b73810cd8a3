"""Every Python snippet of README and docs: it parses, names what there is, and where it can, it runs here."""

import ast
import importlib
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests._toys import FAST, make_toys, make_truth

import tag2box
from tag2box.config import Config
from tag2box.runtime.config import read_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
if not PAGES[0].is_file() or len(PAGES) < 10:
    pytest.skip("the package is installed, without its pages", allow_module_level=True)


def snippets(page):
    return re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


ALL = {f"{page.relative_to(ROOT)} {i}": text for page in PAGES for i, text in enumerate(snippets(page))}


@pytest.mark.parametrize("name", ALL)
def test_a_snippet_names_what_there_is(name):
    for node in ast.walk(ast.parse(ALL[name])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tag2box"):
            if node.module.startswith("tag2box.serving") and find_spec("autodistill") is None:
                continue
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}"), alias.name
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "t2b":
            assert node.attr in tag2box.__all__


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folders and files that the snippets speak of."""
    root = tmp_path_factory.mktemp("world")
    make_toys(root / "toys")
    names = [line.split(",") for line in (root / "toys/tags.csv").read_text().splitlines()[1:]]
    for name, tag in names:
        target = root / "photos" / (tag or "background") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "toys" / name, target)
    for name in ("new.jpg", "photo.jpg"):
        Image.open(next((root / "toys").glob("*.png"))).convert("RGB").save(root / name)
    make_truth(root / "toys", root / "VOC2007")
    return root


# What runs with these files, in this order, each with the names that those before have made.
RUN = [
    "README.md 0",
    "README.md 1",
    "docs/howto/own_photos.md 0",
    "docs/windows.md 0",
    "docs/evaluation.md 0",
]


def test_snippets_run(world, monkeypatch, capsys):
    """With settings that take seconds in the place of the defaults."""
    monkeypatch.chdir(world)
    monkeypatch.setattr("tag2box.run.estimator.Config", lambda: read_settings(Config(), None, FAST))
    X = np.random.default_rng(0).normal(size=(12, 3))
    space = {"X": X, "offsets": np.arange(0, 13, 2), "y": np.array([1, -1] * 3)}
    space["images"] = tag2box.read_images("photos")
    for name in RUN:
        if name.startswith("docs/howto/own_photos"):
            shutil.copy("runs/photos/detector.npz", "detector.npz")
        if name.startswith("docs/evaluation"):
            truth = tag2box.read_images("VOC2007", split="test")
            boxes = tag2box.Detections([0], [[1, 1, 9, 9]], [0.9], [0], truth.ids, truth.classes)
            boxes.save("detections.npz")
            text = ALL[name].replace("bus", truth.classes[0])
        else:
            text = ALL[name]
        exec(compile(text, name, "exec"), space)
    assert Path("boxes.jpg").is_file()
    assert "boxes in" in capsys.readouterr().out


def test_what_is_to_run_is_there():
    assert set(RUN) <= set(ALL)
