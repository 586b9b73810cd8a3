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
from tag2box.networks.processor import CAP, abilities, guard_onednn


@pytest.fixture
def canary(monkeypatch, tmp_path):
    """`canary(answers)` replaces the canary, by an answer for each limit; returns the calls."""
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path))
    for name in processor.VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever it was
        monkeypatch.delenv(name)

    def replace(answers):
        calls = []

        def run_canary(environment):
            calls.append(environment.get("ONEDNN_MAX_CPU_ISA", ""))
            return answers[calls[-1]]

        monkeypatch.setattr(processor, "run_canary", run_canary)
        processor._abilities.cache_clear()
        return calls

    yield replace
    processor._abilities.cache_clear()


def test_onednn_is_held_below_what_kills_the_canary(canary):
    calls = canary({"": (False, ("f32", "int8", "f16")), CAP: (True, ("f32", "bf16"))})
    guard_onednn()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == CAP
    assert calls == ["", CAP]


def test_a_limit_of_the_user_stays(canary, monkeypatch):
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    canary({"": (False, ("f32",))})
    guard_onednn()
    assert "ONEDNN_MAX_CPU_ISA" not in os.environ
    assert abilities().precisions == ("f32",)


def test_the_canary_is_asked_once_per_machine_and_again_where_its_answer_was_damaged(canary, tmp_path):
    assert canary({"": (True, ("f32", "int8"))}) == []
    first = abilities()
    calls = canary({"": (True, ("f32",))})
    assert abilities() == first == (("f32", "int8"), "")
    assert calls == []
    (file,) = tmp_path.glob("processor-*.json")
    file.write_text(file.read_text().replace("int8", "bf16"))
    processor._abilities.cache_clear()
    assert abilities().precisions == ("f32",)


def test_a_canary_that_cannot_be_started_forbids_nothing_and_is_asked_again(canary, tmp_path):
    canary({"": (False, ()), CAP: (False, ())})
    assert abilities() == (processor.ALL, "")
    assert not list(tmp_path.iterdir())


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
    says = "from tag2box.networks.openvino_engine import offered\nprint(*offered('CPU'))"
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
