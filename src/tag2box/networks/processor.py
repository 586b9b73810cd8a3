"""What this processor computes rightly, measured: its flags may promise more than it has.

Some virtual machines show the flags of AMX without its tiles. oneDNN, which OpenVINO runs on, believes them
and dies of SIGILL in its first bf16 convolution. Others add 8-bit products up in 16 bits, which overflow. So
`canary` runs a convolution in each precision, in a process of its own; the answer is kept in the cache.
Where it dies, oneDNN is held below AMX by its environment variable, before a network is compiled here.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tag2box.errors import Tag2BoxError
from tag2box.runtime.files import cache_folder, checked_json, unchecked, write_whole
from tag2box.runtime.processes import child_environment

# oneDNN's variable under its name of today and its former one.
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
# The highest instruction set below AMX.
CAP = "AVX512_CORE_FP16"
ALL = ("f32", "bf16", "f16", "int8")
PATIENCE = 120.0  # seconds for the canary, on a busy machine


class Abilities(NamedTuple):
    """The precisions that come out right, and the limit that oneDNN needs for it; "" where it needs none."""

    precisions: tuple[str, ...]
    limit: str = ""


def guard_onednn() -> None:
    """Hold oneDNN below AMX in this process where AMX is broken, unless the user has set a limit."""
    if limit := abilities().limit:
        os.environ[VARIABLES[0]] = limit


def abilities() -> Abilities:
    """What the processor can do within the limit that is set; measured once per machine and limit."""
    return _abilities(_limit())


def _limit() -> str:
    """The instruction set that oneDNN is held to; empty where it is not."""
    return next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")


@lru_cache(maxsize=4)
def _abilities(limit: str) -> Abilities:
    measured = measured_once("processor", [limit], lambda: _measured(limit))
    return Abilities(tuple(measured["precisions"]), measured["limit"]) if measured else Abilities(ALL)


def measured_once(
    name: str, key: Sequence[object], measure: Callable[[], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """What `measure` gives on this processor with this version of OpenVINO, from the cache where it is there.

    It is made again where the file was damaged, and None is not kept.
    """
    import openvino

    everything = hashlib.sha256(json.dumps([identity(), openvino.__version__, *key]).encode()).hexdigest()
    file = cache_folder() / f"{name}-{everything[:16]}.json"
    with suppress(OSError, ValueError, TypeError):
        return unchecked(json.loads(file.read_text(encoding="utf-8")))
    if (measured := measure()) is not None:
        with suppress(Tag2BoxError):  # a cache that cannot be written costs only the next measurement
            write_whole(file, checked_json(measured))
    return measured


def _measured(limit: str) -> dict[str, Any] | None:
    """What the canary says, held below AMX where it dies without; None where it could not be run."""
    lived, precisions = run_canary({})
    if not lived and not limit:
        lived, below = run_canary({VARIABLES[0]: CAP})
        if lived:
            return {"precisions": below, "limit": CAP}
    return {"precisions": precisions, "limit": ""} if "f32" in precisions else None


def run_canary(environment: dict[str, str]) -> tuple[bool, tuple[str, ...]]:
    """Whether it lived, and the precisions in which its convolution came out right."""
    command = [sys.executable, "-m", "tag2box.networks.canary"]
    try:
        answer = subprocess.run(
            command, env=child_environment(environment), capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False, ()
    printed = answer.stdout.decode("ascii", "replace").split()
    return answer.returncode == 0, tuple(precision for precision in ALL if precision in printed)


def identity() -> list[object]:
    """What tells one kind of processor from another, and how far oneDNN may use it."""
    return [processor_name(), instructions(), [os.environ.get(name) for name in VARIABLES]]


def processor_name() -> str:
    """The name that the system knows the processor by."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    named = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return named[1] if named else platform.machine()


def instructions() -> list[str]:
    """The instruction sets that NumPy finds here, in its words."""
    simd = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return [*simd.get("baseline", []), *simd.get("found", [])]
