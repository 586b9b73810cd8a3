"""The cache of compiled kernels: what an earlier version left there does no harm."""

import importlib
import sys

import pytest

MODULE = """
from typing import NamedTuple
from tag2box.runtime.compiled import kernel

class {name}(NamedTuple):
    x: int

@kernel
def double(record):
    return 2 * record.x

def answer():
    return double({name}(21))
"""


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """The answer of a module whose record has that name, as a new process would compute it."""
    monkeypatch.syspath_prepend(tmp_path)

    def ask(name):
        (tmp_path / "with_a_kernel.py").write_text(MODULE.format(name=name))
        sys.modules.pop("with_a_kernel", None)
        importlib.invalidate_caches()
        return importlib.import_module("with_a_kernel").answer()

    yield ask
    sys.modules.pop("with_a_kernel", None)


def test_a_record_that_was_renamed_is_compiled_anew(answer, tmp_path):
    assert answer("Before") == 42
    assert list(tmp_path.rglob("*.nbi"))
    assert answer("Behind") == 42


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: b"\xff" * 99])
def test_a_damaged_cache_is_compiled_anew(answer, tmp_path, damage):
    assert answer("Before") == 42
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(damage(index.read_bytes()))
    assert answer("Before") == 42
