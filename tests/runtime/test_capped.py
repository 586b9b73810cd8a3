"""Machines with less than this one: numba, numpy, its BLAS and oneDNN held back by their own switches."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from tests._toys import FAST, make_toys

ROOT = Path(__file__).parents[2]
AVX512 = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
MODES = {
    "AVX2": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c",
        "NPY_DISABLE_CPU_FEATURES": AVX512,
        "OPENBLAS_CORETYPE": "Haswell",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
    "SSE": {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NPY_DISABLE_CPU_FEATURES": list(__cpu_dispatch__),
        "OPENBLAS_CORETYPE": "Nehalem",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.machine().lower() not in {"x86_64", "amd64"}, reason="these are the switches of x86"
    ),
]


@pytest.fixture(params=MODES)
def environment(request):
    mode = dict(MODES[request.param])
    mine = [name for name in mode["NPY_DISABLE_CPU_FEATURES"] if __cpu_features__.get(name)]
    return os.environ | mode | {"NPY_DISABLE_CPU_FEATURES": " ".join(mine)}


def test_neighbors_are_right(environment):
    tests = str(ROOT / "tests" / "neighbors" / "test_neighbors.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_a_whole_run(environment, tmp_path):
    toys, out = tmp_path / "toys", tmp_path / "run"
    tags = make_toys(toys)
    sets = [word for setting in FAST for word in ("--set", setting)]
    words = ["run", toys, "--tags", tags, "--out", out, "--workers", "2", *sets]
    for command in (words, ["detect", toys, "--run", out, "--workers", "2"]):
        subprocess.run(
            [sys.executable, "-m", "tag2box", *map(str, command)], cwd=ROOT, env=environment, check=True
        )
    assert (out / "detections.coco.json").is_file()
