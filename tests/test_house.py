"""What must hold of the package as a whole."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

import tag2box
from tag2box.cli.app import main

SOURCE = Path(tag2box.__file__).parent
HEAVY = ("numba", "sklearn", "scipy", "openvino", "onnx", "matplotlib", "PIL", "starlette", "uvicorn")


def test_every_public_name_is_there():
    for name in set(tag2box.__all__) - {"__version__"}:
        assert getattr(tag2box, name).__name__ == name
    assert dir(tag2box) == sorted(tag2box.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tag2box.nothing  # noqa: B018


def test_import_loads_nothing_heavy():
    code = f"import sys, tag2box; print([m for m in {HEAVY} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_module_says_what_it_is_for():
    for path, tree in trees().items():
        assert ast.get_docstring(tree), path


@pytest.mark.parametrize("command", [["-m", "tag2box"], ["-c", "from tag2box.cli.app import main; main()"]])
def test_version(command):
    answer = subprocess.run(
        [sys.executable, *command, "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == f"tag2box {tag2box.__version__}"


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


# The order of the data: a room may use what stands before it, never what comes after.
ROOMS = (
    *("_version", "errors", "names", "runtime", "boxes", "images"),
    *("data", "corrections", "windows", "networks", "description"),
    *("neighbors", "cover", "mil", "training"),
    *("detector", "detection", "evaluation", "config", "methods", "pipeline", "run", "exports"),
    *("report", "web", "review", "serving", "reproduce", "demo", "cli"),
)
# Where something is learned, or made that learning reads.
LEARNING = {
    *("windows", "networks", "description"),
    *("neighbors", "cover", "mil", "training", "methods", "pipeline"),
}


@cache
def trees():
    """Every file of the package, found by walking, and its syntax tree."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def modules():
    """Every module of the package: its file, its room (a folder or file at the top), and its tree."""
    for path, tree in trees().items():
        room = path.relative_to(SOURCE).with_suffix("").parts[0]
        if room not in ("__init__", "__main__"):
            yield path, room, tree


def map_of_the_code():
    """CONTRIBUTING's tree of rooms, and its table: (file, function) of every row."""
    page = SOURCE.parents[1] / "CONTRIBUTING.md"
    if not page.is_file():
        pytest.skip("the package is installed, without its CONTRIBUTING.md")
    tree, text = page.read_text().split("```")[1:3]
    rooms = re.findall(r"^(\w+)/", tree, flags=re.MULTILINE) + re.findall(r"(\w+)\.py", tree)
    return rooms, re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", text, flags=re.MULTILINE), text


def functions_of(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in functions_of(node))


def test_the_map_of_the_code_shows_the_code():
    """CONTRIBUTING has every room in its tree, and in its table no file or function that is not."""
    rooms, route, text = map_of_the_code()
    assert sorted(rooms) == sorted(ROOMS)
    assert len(route) > 10
    for file, name in route:
        assert name in functions_of(trees()[SOURCE / file]), file
    assert [name for name in re.findall(r"`([\w/]+\.py)`", text) if not (SOURCE / name).exists()] == []


def test_every_room_has_its_place():
    found = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert found - {"__init__", "__main__"} == set(ROOMS)


def rooms_imported(tree):
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if names == ["tag2box"] and isinstance(node, ast.ImportFrom):
            names = [f"tag2box.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("tag2box."))


def test_rooms_import_only_earlier_rooms():
    for path, room, tree in modules():
        later = set(ROOMS[ROOMS.index(room) + 1 :])
        assert not later & set(rooms_imported(tree)), path


SHARED = {"_version", "errors", "names", "boxes", "images", "runtime"}


def doors():
    """CONTRIBUTING's table of rooms: what each may import besides `SHARED`, and its lines at most."""
    page = SOURCE.parents[1] / "CONTRIBUTING.md"
    if not page.is_file():
        pytest.skip("the package is installed, without its CONTRIBUTING.md")
    table = re.findall(r"^\| `(\w+)` \| (.*) \| (\d+) \|$", page.read_text(), flags=re.MULTILINE)
    return {room: (set(re.findall(r"`(\w+)`", allowed)), int(lines)) for room, allowed, lines in table}


def test_rooms_use_their_doors_alone_and_keep_to_their_budget():
    allowed, lines, used = doors(), Counter(), set()
    for path, room, tree in modules():
        lines[room] += len(path.read_text().splitlines())
        if room in allowed:
            others = set(rooms_imported(tree)) - SHARED - {room}
            used |= {(room, other) for other in others}
            assert others <= allowed[room][0], path
    assert set(allowed) == {*set(ROOMS) - SHARED, "runtime", "tests"}
    assert len(used) <= 100
    assert {room: n for room, n in lines.items() if room in allowed and n > allowed[room][1]} == {}
    tests = sum(len(path.read_text().splitlines()) for path in Path(__file__).parent.rglob("*.py"))
    assert tests <= allowed["tests"][1]


def test_nothing_needs_posix_to_be_imported():
    """Who uses one of these does so inside a function, and has another way without it."""
    posix = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"}
    for path, _, tree in modules():
        names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        assert not posix & {name.partition(".")[0] for name in names}, path


def test_multiple_instance_learning_stands_alone():
    allowed = {"mil", "errors"}
    for path, room, tree in modules():
        assert room != "mil" or set(rooms_imported(tree)) <= allowed, path


def test_training_code_never_names_the_truth():
    assert set(ROOMS) >= LEARNING
    for path, room, tree in modules():
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert room not in LEARNING or "truth" not in names, path


PACKAGES = {
    "PIL": "pillow",
    "python_multipart": "python-multipart",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "cvat_sdk": "cvat-sdk",
    "yaml": "pyyaml",
}
ASKED_FOR = {"fiftyone", "supervision"}  # by the error of the one function that wants it


def test_every_package_that_is_imported_is_declared():
    pyproject = SOURCE.parents[1] / "pyproject.toml"
    if not pyproject.is_file():
        pytest.skip("the package is installed, without its pyproject.toml")
    project = tomllib.loads(pyproject.read_text())["project"]
    declared = chain(project["dependencies"], *project["optional-dependencies"].values())
    known = {re.split("[<>=!~ ]", line)[0] for line in declared} | ASKED_FOR | set(sys.stdlib_module_names)
    for path, _, tree in modules():
        for node in ast.walk(tree):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found = {name.split(".")[0] for name in names} - {"tag2box"}
            assert {PACKAGES.get(name, name) for name in found} <= known, path


def is_kernel(function):
    return any(isinstance(found, ast.Name) and found.id == "kernel" for found in function.decorator_list)


def nodes(*kinds):
    """Every node of these kinds in every file of the package, with the file."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield path, node


def test_functions_are_short():
    """At most 50 lines without the docstring; kernels are loops, and excepted."""
    for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        first = node.body[0]
        said = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
        assert is_kernel(node) or node.end_lineno - node.lineno + 1 - said <= 50, f"{path}: {node.name}"


def test_calls_are_short():
    """At most 8 arguments by their place: more want names, or a record."""
    for path, call in nodes(ast.Call):
        assert len(call.args) <= 8, f"{path}:{call.lineno}"
    for path, function in nodes(ast.FunctionDef):  # a call may unpack its arguments from one
        assert not is_kernel(function) or len(function.args.args) <= 8, f"{path}: {function.name}"


def test_no_public_name_is_a_module():
    code = """if True:
        import pkgutil, types, tag2box
        for found in pkgutil.walk_packages(tag2box.__path__, "tag2box."):
            if not found.name.endswith("__main__"):
                __import__(found.name)
        print([name for name in tag2box.__all__ if isinstance(getattr(tag2box, name), types.ModuleType)])
    """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
