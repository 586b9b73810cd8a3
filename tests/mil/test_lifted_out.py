"""`tag2box.mil` with `tag2box.errors` alone is a package whose tests pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tag2box

CONFTEST = """
from pathlib import Path
import tag2box
from hypothesis import settings
assert Path(tag2box.__file__).parents[1] == Path(__file__).parent
settings.register_profile("lifted", deadline=None, max_examples=10, derandomize=True)
settings.load_profile("lifted")
"""
TESTS = ("bags", "machines", "objective", "smoothing")
# Those with many fits: kernels run as Python there, as compiling them anew takes longer than the tests.
SLOW = "contract or faults or wrong or plain or calibrated or three or choice or stacking"


def test_mil_can_be_lifted_out(tmp_path):
    source, package = Path(tag2box.__file__).parent, tmp_path / "tag2box"
    shutil.copytree(source / "mil", package / "mil", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(source / "errors.py", package)
    (package / "__init__.py").touch()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in TESTS:
        shutil.copy(Path(__file__).parent / f"test_{name}.py", tmp_path)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not ({SLOW})"]
    answer = subprocess.run(command, check=False, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout[-2000:]
