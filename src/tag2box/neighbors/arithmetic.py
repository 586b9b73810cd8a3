"""How this processor multiplies small whole numbers: by the instruction that does most of them at once.

With VNNI that is `vpdpbusd`: four times the multiply-adds of one instruction in float32, on bytes. Without
it bytes are kept as half words, and `pmaddwd` does twice as many. Where there is neither, the same is spelled
out in plain operations. The products are the same numbers everywhere, and nothing saturates.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite import ir

from tag2box.runtime.compiled import cpu_features, is_x86

__all__ = ["ARITHMETIC", "Arithmetic", "arithmetics", "llvm_function"]

I8, I16, I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)

# (builder, totals, words of queries, words of windows) -> totals + products, all of them vectors of words
Dot = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Arithmetic:
    """How a processor multiplies small whole numbers.

    dimensions: in a word, 4 as bytes or 2 as half words. shift: added to a query's values; with it they are
    unsigned, as `vpdpbusd` wants them. words: in a vector. vectors: of queries that are worked on at a time,
    so that ROWS times as many accumulators and what else is needed fit the registers.
    """

    name: str
    dimensions: int
    shift: int
    words: int
    vectors: int
    dot: Dot

    @property
    def kind(self) -> ir.VectorType:
        """A vector of words."""
        return ir.VectorType(I32, self.words)


def llvm_function(b: ir.IRBuilder, kind: ir.FunctionType, name: str) -> ir.Value:
    """The function of that name, declared where it is not yet."""
    return b.module.globals.get(name) or ir.Function(b.module, kind, name)


def _vnni(b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value) -> ir.Value:
    """`total` + the sum over each word's four bytes of unsigned x signed, in one instruction."""
    words = total.type.count
    # From LLVM 22 on the intrinsic takes bytes; before, the same bits as words.
    operand = ir.VectorType(I8, 4 * words) if llvm.llvm_version_info[0] >= 22 else total.type
    kind = ir.FunctionType(total.type, [total.type, operand, operand])
    function = llvm_function(b, kind, f"llvm.x86.avx512.vpdpbusd.{32 * words}")
    return b.call(function, [total, b.bitcast(unsigned, operand), b.bitcast(signed, operand)])


def _madd(name: str) -> Dot:
    """`total` + the sum over each word's two half words, by the instruction of that name and one addition."""

    def dot(b: ir.IRBuilder, total: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        operand = ir.VectorType(I16, 2 * total.type.count)
        function = llvm_function(b, ir.FunctionType(total.type, [operand, operand]), name)
        return b.add(total, b.call(function, [b.bitcast(one, operand), b.bitcast(other, operand)]))

    return dot


def _plain(b: ir.IRBuilder, total: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
    """The same on any machine."""
    half = ir.Constant(total.type, [16] * total.type.count)
    high = b.mul(b.ashr(one, half), b.ashr(other, half))
    low = b.mul(b.ashr(b.shl(one, half), half), b.ashr(b.shl(other, half), half))
    return b.add(total, b.add(high, low))


def arithmetics(features: Container[str], *, x86: bool) -> list[Arithmetic]:
    """What a processor can do, the best first."""
    known = [
        ("avx512vnni", Arithmetic("avx512vnni", 4, 128, 16, 4, _vnni)),
        ("avxvnni", Arithmetic("avxvnni", 4, 128, 8, 2, _vnni)),
        ("avx512bw", Arithmetic("avx512bw", 2, 0, 16, 4, _madd("llvm.x86.avx512.pmaddw.d.512"))),
        ("avx2", Arithmetic("avx2", 2, 0, 8, 2, _madd("llvm.x86.avx2.pmadd.wd"))),
    ]
    found = [arithmetic for feature, arithmetic in known if x86 and feature in features]
    if x86:  # all of them have SSE2
        found.append(Arithmetic("sse2", 2, 0, 4, 2, _madd("llvm.x86.sse2.pmadd.wd")))
    return [*found, Arithmetic("plain", 2, 0, 4, 2, _plain)]


ARITHMETIC = arithmetics(cpu_features(), x86=is_x86())[0]
