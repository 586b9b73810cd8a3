import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numba import njit

from tag2box.neighbors import int8
from tag2box.neighbors.arithmetic import arithmetics
from tag2box.neighbors.int8 import LANES, ROWS
from tag2box.runtime import compiled
from tag2box.runtime.compiled import cpu_features, is_x86

HERE = arithmetics(cpu_features(), x86=is_x86())
AVX2 = {"avx2"}
AVX512 = AVX2 | {"avx512bw"}


@pytest.mark.parametrize(
    ("features", "x86", "best"),
    [
        (AVX512 | {"avx512vnni", "avxvnni"}, True, "avx512vnni"),
        (AVX512, True, "avx512bw"),
        (AVX2 | {"avxvnni"}, True, "avxvnni"),
        (AVX2, True, "avx2"),
        (set(), True, "sse2"),
        ({"neon", "dotprod"}, False, "plain"),
    ],
)
def test_the_best_arithmetic_of_a_processor(features, x86, best):
    found = arithmetics(features, x86=x86)
    assert found[0].name == best
    assert found[-1].name == "plain"


def test_what_numba_is_held_to_counts(monkeypatch):
    monkeypatch.setattr(compiled.config, "CPU_FEATURES", "+avx2,-avx512bw,+fma")
    assert cpu_features() == {"avx2", "fma"}


@pytest.fixture(scope="module", params=HERE, ids=lambda how: how.name)
def kernels(request):
    """The three products, in every way that this machine can do them."""
    how = request.param
    top, score, row = int8.make_top_tile(how), int8.make_score_tile(how), int8.make_row_scores(how)

    @njit
    def run(Q, q, W, bias, scores, of_one, best, second, tag, mask):
        packed, windows, biases = Q.ctypes.data, W.ctypes.data, bias.ctypes.data
        stride = W.strides[0]
        score(packed, windows, biases, scores.ctypes.data, Q.shape[0])
        row(q.ctypes.data, windows, stride, biases, of_one.ctypes.data, len(q))
        top(packed, windows, biases, best.ctypes.data, second.ctypes.data, Q.shape[0], tag, mask)

    return how, run


@pytest.mark.parametrize("d", [4, 64, 100])
def test_tiles_are_products_of_whole_numbers(kernels, d):
    """With the largest numbers there are among them: nothing saturates."""
    how, run = kernels
    rng = np.random.default_rng(d)
    queries = rng.integers(-127, 128, (LANES, d)) + how.shift
    queries[0] = 127 + how.shift
    W = rng.integers(-127, 128, (ROWS + 64, d)).astype(np.int8 if how.dimensions == 4 else np.int16)
    W[0], W[1] = 127, -127
    bias = rng.integers(-(10**6), 10**6, ROWS).astype(np.int32)
    as_words = queries.astype(np.uint8 if how.shift else W.dtype).view(np.int32)  # (LANES, groups)
    Q = np.ascontiguousarray(as_words.T)
    one = np.zeros(-(-Q.shape[0] // 16) * 16, np.int32)
    one[: len(Q)] = as_words[5]
    scores, of_one = np.empty((ROWS, LANES), np.int32), np.empty(ROWS, np.int32)
    best, second = rng.integers(-(10**6), 10**6, (2, LANES)).astype(np.int32)
    best, second = np.maximum(best, second), np.minimum(best, second)
    expected = W[:ROWS].astype(np.int64) @ queries.T + bias[:, None]
    tagged = (expected.max(axis=0) & ~15) | 9
    three = np.sort([best, second, tagged], axis=0)
    run(Q, one, W, bias, scores, of_one, best, second, np.int32(9), np.int32(15))
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(of_one, expected[:, 5])
    np.testing.assert_array_equal([second, best], three[1:])


@pytest.mark.skipif(HERE[-1] is HERE[0], reason="LLVM knows the instructions of x86 only there")
@pytest.mark.parametrize(
    ("features", "instruction", "register"),
    [
        ("avx512vnni", "vpdpbusd", "zmm"),
        ("avxvnni", "vpdpbusd", "ymm"),
        ("avx512bw", "vpmaddwd", "zmm"),
        ("avx2", "vpmaddwd", "ymm"),
        ("sse2", "pmaddwd", "xmm"),
    ],
)
def test_llvm_knows_the_instruction_on_machines_that_have_it(features, instruction, register):
    """They cannot all be run here: what can be said is that a product becomes that one instruction."""
    how = arithmetics({features}, x86=True)[0]
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(how.kind, [how.kind] * 3), "dot")
    b = ir.IRBuilder(function.append_basic_block())
    b.ret(how.dot(b, *function.args))
    target = llvm.Target.from_default_triple().create_target_machine(cpu="", features=f"+{features}")
    code = target.emit_assembly(llvm.parse_assembly(str(module)))
    lines = [line for line in code.splitlines() if instruction in line]
    assert len(lines) == 1
    assert register in lines[0]
