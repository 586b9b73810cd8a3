"""In a folder full of a stranger's files nothing of theirs is run, whichever way a process is started.

The folder holds a file for every module of Python and for some that we use: any of them that is imported
leaves a mark. The programs here are started as the command `tag2box` is, from a file elsewhere.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import httpx
import pytest
from tests._toys import FAST, make_toys

import tag2box
from tag2box.runtime.processes import SAFE, child_environment, safe_children

PACKAGES = ("dask", "distributed", "joblib", "numba", "numpy", "openvino", "tag2box", "uvicorn", "yaml")
TRAP = """import sys
with open({mark!r}, "a") as file:
    file.write(__name__ + " in " + repr(sys.orig_argv) + "\\n")
"""


class Strangers:
    """A folder of theirs, and programs that are run in it."""

    def __init__(self, place):
        self.folder, self.mark, self.program = place / "theirs", place / "mark", place / "bin" / "program.py"
        self.program.parent.mkdir()
        self.folder.mkdir()
        for name in {*sys.stdlib_module_names, *PACKAGES}:
            (self.folder / f"{name}.py").write_text(TRAP.format(mark=str(self.mark)))
        # numba would load compiled code from there.
        (self.folder / ".numba_config.yaml").write_text(f"cache_dir: {place / 'kernels'}\n")

    def started(self, code, *words, **more):
        """The process of a program that runs `code`."""
        self.program.write_text('if __name__ == "__main__":\n' + indent(code, "    "))
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        environment = {name: value for name, value in os.environ.items() if name not in SAFE}
        return subprocess.Popen(
            [sys.executable, str(self.program), *map(str, words)],
            cwd=self.folder,
            env=environment | {"PYTHONPATH": path},
            text=True,
            **more,
        )

    def run(self, code, *words):
        """Run it to its end, and check that nothing of theirs was."""
        with self.started(code, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        self.check()

    def check(self):
        assert not self.mark.exists(), self.mark.read_text()
        assert not (self.folder.parent / "kernels").exists()


@pytest.fixture
def strangers(tmp_path):
    return Strangers(tmp_path)


def test_the_trap_works(strangers):
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import json'])"
    with strangers.started(code) as process:
        assert process.wait() == 0
    assert "json" in strangers.mark.read_text()


STARTS = {
    "workers": """
from tag2box.runtime.executor import map_ordered
assert list(map_ordered(abs, range(4), workers=2)) == [0, 1, 2, 3]
""",
    "learn again": """
import time
from pathlib import Path
from tag2box.run.learning import Learning
learning = Learning(Path("no run"), print)
learning.start()
while learning.status["state"] == "working":
    time.sleep(0.05)
assert "no run" in learning.status["reason"], learning.status
""",
    "servers": """
from pathlib import Path
from tag2box.errors import Tag2BoxError
from tag2box.serving.pool import Limits, WorkerPool
try:
    WorkerPool(Path("no detector"), Limits()).start()
except Tag2BoxError as error:
    assert "no detector" in str(error), error
""",
    "a cluster here": """
from tag2box.runtime.cluster import using
from tag2box.runtime.executor import map_ordered
with using("local:1", "run"):
    assert list(map_ordered(abs, range(4))) == [0, 1, 2, 3]
""",
    "kernels": """
import numpy as np
from tag2box.runtime.halves import as_float32
as_float32(np.zeros(4, np.float16))
""",
}


@pytest.mark.parametrize("start", STARTS)
def test_no_process_runs_what_lies_in_its_folder(strangers, start):
    if start == "a cluster here":
        pytest.importorskip("distributed")
    strangers.run(STARTS[start])


COMMAND = "from tag2box.cli.app import main\nmain()"


@pytest.mark.torture
def test_no_command_runs_what_lies_in_its_folder(strangers):
    """The whole way: learn with workers and on a cluster, detect, learn again from the page, and serve."""
    make_toys(strangers.folder)
    settings = [word for each in FAST for word in ("--set", each)]
    learn = ["run", ".", "--tags", "tags.csv", *settings]
    strangers.run(COMMAND, *learn, "--workers", 2, "--out", "run")
    strangers.run(COMMAND, *learn, "--cluster", "local:2", "--out", "other")
    strangers.run(COMMAND, "detect", ".", "--run", "run", "--workers", 2, "--out", "boxes.json")
    strangers.run(COMMAND, "report", "run")
    photo = (strangers.folder / "toy-00.png").read_bytes()
    with serving(strangers, "serve", "run", "--port", 0, "--workers", 1) as address:
        assert httpx.post(f"{address}detect", content=photo, timeout=60).status_code == 200
    with serving(strangers, "review", "run", "--no-open") as address:
        origin = re.match(r"http://[^/]+", address)[0]
        state = httpx.post(f"{address}learn", json={}, headers={"origin": origin}).json()
        while state["state"] == "working":
            state = httpx.get(f"{address}learn").json()
        assert state["state"] == "done", state
    strangers.check()


class serving:  # noqa: N801
    """A command that serves, and its address."""

    def __init__(self, strangers, *words):
        self.process = strangers.started(COMMAND, *words, stdout=subprocess.PIPE)

    def __enter__(self):
        return re.search(r"http://\S+", self.process.stdout.readline())[0]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=30)


def test_every_process_of_ours_gets_the_environment_of_a_child():
    """A law of the house: no `subprocess` without `child_environment`."""
    calls = [
        (path, call)
        for path in Path(tag2box.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith(("subprocess.", "os.spawn"))
    ]
    assert len(calls) > 1
    for path, call in calls:
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.get("env", "").startswith("child_environment("), path


def test_the_environment_of_others_comes_back(monkeypatch):
    """Whoever uses this package as a library starts other processes as before, whoever leaves first."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    one, two = safe_children(), safe_children()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert os.environ["PYTHONSAFEPATH"] == "1"
    two.__exit__(None, None, None)
    assert "PYTHONSAFEPATH" not in os.environ
    assert child_environment({"A": "b"}) == {**os.environ, "PYTHONSAFEPATH": "1", "A": "b"}
    assert "PYTHONSAFEPATH" not in os.environ
