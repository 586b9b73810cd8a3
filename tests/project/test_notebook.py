"""The notebook of the first steps: every cell runs, in order, and shows what it promises."""

import ast
import json
from pathlib import Path

import pytest

import tag2box

NOTEBOOK = Path(__file__).parents[2] / "examples/first_steps.ipynb"
if not NOTEBOOK.is_file():
    pytest.skip("the package is installed, without its examples", allow_module_level=True)
CELLS = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if "outputs" in cell]
# The same with fewer and smaller things; what is right of few scenes is not asked.
SMALL = {"TRAIN, TEST, WINDOWS = 60, 24, 200": "TRAIN, TEST, WINDOWS = 6, 5, 20"}


def run(cell, space):
    """As a notebook does: the value of the last line, if it is an expression."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space) if last else None


def test_the_notebook_names_what_there_is():
    used = {
        node.attr
        for cell in CELLS
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "t2b"
    }
    assert {"Tag2Box", "evaluate", "write_detections"} <= used <= set(tag2box.__all__)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = [CELLS[0].replace(*change) for change in SMALL.items()]
    assert small != CELLS[:1]
    space = {}
    shown = [run(cell, space) for cell in [*small, *CELLS[1:]]]
    pictures = [value._repr_html_().count("<img ") for value in shown if hasattr(value, "_repr_html_")]
    assert len(pictures) == 3
    assert pictures[0] > 0  # the boxes learned
    assert pictures[1] == 5  # the boxes detected, in every scene
    assert pictures[2] == 1  # the surest of them, by the detector alone
    said = capsys.readouterr().out
    assert "voc07 AP" in said
    assert "What it is not good for" in said
    assert json.loads((tmp_path / "runs/first_steps/boxes.json").read_text())["annotations"]


def test_the_notebook_is_a_notebook():
    nbformat = pytest.importorskip("nbformat", reason="pip install nbformat")
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))


def test_the_notebook_is_small():
    assert NOTEBOOK.stat().st_size < 500_000
