"""What must hold of the package as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tag2box
from tag2box.cli import app, main

SOURCE = Path(tag2box.__file__).parent
HEAVY = ("numba", "sklearn", "scipy", "openvino", "onnx", "matplotlib", "PIL")


def test_every_public_name_is_there():
    for name in tag2box.__all__:
        assert getattr(tag2box, name) is not None
    assert dir(tag2box) == sorted(tag2box.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tag2box.nothing  # noqa: B018


def test_import_loads_nothing_heavy():
    code = f"import sys, tag2box; print([m for m in {HEAVY} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_module_says_what_it_is_for():
    for path in SOURCE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("command", [["-m", "tag2box"], ["-c", "from tag2box.cli import main; main()"]])
def test_version(command):
    answer = subprocess.run(
        [sys.executable, *command, "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == f"tag2box {tag2box.__version__}"


def test_every_command_has_an_example():
    runner = CliRunner()
    assert "reproduce" in runner.invoke(app, ["--help"]).stdout
    for table in ("table1", "table2", "table3"):
        assert "Example: tag2box" in runner.invoke(app, ["reproduce", table, "--help"]).stdout


def test_an_error_is_one_line_and_its_status(monkeypatch, capsys, tmp_path):
    arguments = ["tag2box", "reproduce", "table1", "--data", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(sys, "argv", [*arguments, "--debug"])
    with pytest.raises(tag2box.InputError):
        main()


# The order of the paper: a stage may use what came before it, never what comes after.
STAGES = (
    "images",
    "windows",
    "backbone",
    "features",
    "photo_maps",
    "object_maps",
    "neighbors",
    "cover",
    "contrast",
    "mining",
    "first_windows",
    "initial",
    "calibration",
    "refinement",
    "detections",
    "detector",
    "evaluation",
    "shards",
    "pipeline",
)


def test_stages_import_only_earlier_stages():
    for at, stage in enumerate(STAGES):
        tree = ast.parse((SOURCE / f"{stage}.py").read_text())
        imported = {
            node.module.removeprefix("tag2box.").split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tag2box.")
        }
        assert not imported & set(STAGES[at:]), stage


def test_training_code_never_names_the_truth():
    for stage in (*STAGES[1 : STAGES.index("refinement") + 1], "latent"):
        tree = ast.parse((SOURCE / f"{stage}.py").read_text())
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "truth" not in names, stage
