"""The processor is known for what it has; networks run, and threads go where they may, on any of them."""

import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tag2box.networks import processor
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import load_network
from tag2box.networks.processor import CAP, guard_onednn, onednn_cap, saturates

AVX2 = {"avx2", "fma"}
AVX512 = AVX2 | {"avx512f", "avx512vnni", "avx512bf16", "avx512fp16"}
AMX = AVX512 | {"amx-tile", "amx-bf16", "amx-int8"}
# eax 0x1D.1: 1024 bytes a tile, 8192 in all; ebx: 8 tiles, 64 bytes a row; ecx: 16 rows.
PALETTE = (1024 << 16 | 8192, 8 << 16 | 64, 16, 0)


def fake_cpuid(last, leaves):
    """CPUID of a processor whose last leaf is `last`; beyond it that one is repeated, as Intel does."""

    def cpuid(leaf, subleaf):
        if (leaf, subleaf) == (0, 0):
            return (last, 0, 0, 0)
        return leaves.get((min(leaf, last), subleaf), (0, 0, 0, 0))

    return cpuid


@pytest.mark.parametrize(
    ("features", "cpuid", "cap"),
    [
        pytest.param(AMX, fake_cpuid(0x1C, {(0x1C, 0): (7, 7, 7, 7)}), CAP, id="ends before the palettes"),
        pytest.param(AMX, fake_cpuid(0x20, {}), CAP, id="no palette"),
        pytest.param(AMX, fake_cpuid(0x20, {(0x1D, 0): (1, 0, 0, 0)}), CAP, id="a palette without tiles"),
        pytest.param(
            AMX,
            fake_cpuid(0x20, {(0x1D, 0): (1, 0, 0, 0), (0x1D, 1): (0, *PALETTE[1:])}),
            CAP,
            id="a palette with tiles of no size",
        ),
        pytest.param(
            AMX, fake_cpuid(0x20, {(0x1D, 0): (1, 0, 0, 0), (0x1D, 1): PALETTE}), None, id="AMX that works"
        ),
        pytest.param(AMX, None, CAP, id="AMX, but CPUID cannot be read"),
        pytest.param(AVX512, fake_cpuid(0x1C, {}), None, id="AVX-512"),
        pytest.param(AVX2, fake_cpuid(0xD, {}), None, id="AVX2"),
        pytest.param({"neon", "sve"}, None, None, id="ARM"),
        pytest.param(set(), None, None, id="unknown"),
    ],
)
def test_amx_is_trusted_only_with_its_palettes(features, cpuid, cap):
    assert onednn_cap(features, cpuid) == cap


SMALL_VNNI = AVX2 | {"avxvnni"}


@pytest.mark.parametrize(
    ("features", "limit", "answer"),
    [
        (AVX512, "", False),
        (AVX512, "AVX512_CORE_VNNI", False),
        (AVX512, "AVX512_CORE", True),
        (AVX512, "avx2", True),
        (AVX512, "AVX2_VNNI", True),
        (SMALL_VNNI, "AVX2_VNNI", False),
        (SMALL_VNNI, "", False),
        (AVX2, "", True),
        (AVX2, "AVX512_CORE_FP16", True),
    ],
)
def test_8_bit_products_overflow_without_vnni(features, limit, answer):
    assert saturates(features | {"sse2"}, limit) == answer
    assert not saturates({"neon", "sve"}, limit)


@pytest.mark.parametrize("variable", processor.VARIABLES)
def test_the_limit_is_set_unless_the_user_did(monkeypatch, variable):
    monkeypatch.setattr(processor, "instructions", lambda: AMX)
    monkeypatch.setattr(processor, "_read_cpuid", lambda: fake_cpuid(0x1C, {}))
    for name in processor.VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever it was
        monkeypatch.delenv(name)
    monkeypatch.setenv(variable, "AVX2")
    guard_onednn()
    assert {name: os.environ.get(name) for name in processor.VARIABLES} == {
        name: "AVX2" if name == variable else None for name in processor.VARIABLES
    }
    monkeypatch.setenv(variable, "")  # as good as not set
    guard_onednn()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == CAP


def test_cpuid_is_read_where_it_exists():
    cpuid = processor._read_cpuid()
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        assert cpuid is None
        return
    last, *name = cpuid(0, 0)
    assert last >= 7
    vendor = b"".join(word.to_bytes(4, "little") for word in (name[0], name[2], name[1]))
    if (info := Path("/proc/cpuinfo")).is_file():
        assert f"vendor_id\t: {vendor.decode()}\n" in info.read_text()
    avx2 = bool(cpuid(7, 0)[1] >> 5 & 1)
    assert avx2 == ("avx2" in processor.instructions())


BF16 = """
import numpy as np
from tag2box.networks.network import load_network
from tag2box.networks.inference import EngineOptions, Part
part = Part(load_network("efficientnet-lite0"), (8, 64, 64), EngineOptions("bf16"), grid=2)
assert np.isfinite(part(np.full((8, 64, 64, 3), 99, np.uint8))).all()
"""


def test_a_bf16_network_runs_on_this_machine():
    environment = {k: v for k, v in os.environ.items() if k not in processor.VARIABLES}
    answer = subprocess.run(
        [sys.executable, "-c", BF16], env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.skipif(
    platform.machine().lower() not in {"x86_64", "amd64"}, reason="these are the limits of x86"
)
@pytest.mark.parametrize("limit", ["SSE41", "avx2"])
def test_a_run_in_bf16_or_int8_goes_on_where_onednn_is_held_below_it(limit):
    """OpenVINO would fail to compile, or crash: it looks at the processor and not at the limit."""
    environment = {k: v for k, v in os.environ.items() if k not in processor.VARIABLES}
    says = "from tag2box.networks.inference import offered\nprint(*offered('CPU'))"
    network = BF16.replace("bf16", "int8") + BF16
    answer = subprocess.run(
        [sys.executable, "-c", network + says],
        env=environment | {"ONEDNN_MAX_CPU_ISA": limit},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "f32\n"


def allowed_cpus():
    """The CPUs that each thread of this process may run on, as Linux writes them."""
    found = set()
    for status in Path("/proc/self/task").glob("*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:  # that thread has ended
            continue
        found |= {line.split()[1] for line in lines if line.startswith("Cpus_allowed_list")}
    return found


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux shows it")
@pytest.mark.parametrize("threads", [1, 2])
def test_no_thread_is_bound_to_fewer_cores_than_the_process(threads):
    before = allowed_cpus()
    part = Part(load_network("efficientnet-lite0"), (8, 64, 64), EngineOptions("f32", threads), grid=2)
    photos = np.zeros((64, 64, 64, 3), np.uint8)
    runner = threading.Thread(target=lambda: [part(photos) for _ in range(4)])
    runner.start()
    seen = set()
    while runner.is_alive():  # they are bound only while they work
        seen |= allowed_cpus()
        time.sleep(0.002)
    assert seen == before
