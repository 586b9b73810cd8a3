"""Products of 8-bit vectors in tiles of `LANES` queries by `ROWS` windows, held in registers from end to end.

One instruction (AVX-512 VNNI's `vpdpbusd`) does 64 multiply-adds: four times what float32 does. numba cannot
be brought to emit it from a loop, so the tile is written in LLVM's own terms here. On machines without it
the same tile is spelled out in plain integer operations: the same numbers, only slower.

Queries are unsigned bytes (value + 128), packed as (groups, LANES, 4): byte j of group g in a lane is
dimension 4g + j. Windows are rows of signed bytes. Neither saturates: an int32 holds any sum we make.
"""

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "ROWS",
    "has_vnni",
    "make_max_tile",
    "make_score_tile",
    "max_tile",
    "plain_dot4",
    "score_tile",
]

VECTORS = 4
LANES = 16 * VECTORS
ROWS = 6  # 6 x 4 accumulators, 4 vectors of queries and one window fill 29 of 32 registers

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
WORDS = ir.VectorType(I32, 16)
BYTES = ir.VectorType(I8, 64)

Dot4 = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


def has_vnni() -> bool:
    """Whether this machine has the instruction."""
    return bool(llvm.get_host_cpu_features().get("avx512vnni", False))


def _splat(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    undefined = ir.Constant(WORDS, ir.Undefined)
    one = b.insert_element(undefined, scalar, I32(0))
    return b.shuffle_vector(one, undefined, ir.Constant(WORDS, [0] * 16))


def _function(b: ir.IRBuilder, kind: ir.FunctionType, name: str) -> ir.Value:
    return b.module.globals.get(name) or ir.Function(b.module, kind, name)


def vnni_dot4(b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value) -> ir.Value:
    """`total` + the sum over each lane's four bytes of unsigned x signed, in one instruction."""
    # From LLVM 22 on the intrinsic takes bytes; before, the same bits as words.
    operand = BYTES if llvm.llvm_version_info[0] >= 22 else WORDS
    kind = ir.FunctionType(WORDS, [WORDS, operand, operand])
    function = _function(b, kind, "llvm.x86.avx512.vpdpbusd.512")
    return b.call(function, [total, b.bitcast(unsigned, operand), b.bitcast(signed, operand)])


def plain_dot4(b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value) -> ir.Value:
    """The same sum on any machine."""

    def constant(value: int) -> ir.Constant:
        return ir.Constant(WORDS, [value] * 16)

    for j in range(4):
        u = b.and_(b.lshr(unsigned, constant(8 * j)), constant(255))
        s = b.ashr(b.shl(signed, constant(24 - 8 * j)), constant(24))
        total = b.add(total, b.mul(u, s))
    return total


def _load(b: ir.IRBuilder, base: ir.Value, byte: ir.Value | int, kind: ir.Type) -> ir.Value:
    return b.load(_at(b, base, byte, kind), align=4)


def _at(b: ir.IRBuilder, base: ir.Value, byte: ir.Value | int, kind: ir.Type) -> ir.Value:
    offset = I64(byte) if isinstance(byte, int) else byte
    return b.bitcast(b.gep(base, [offset]), kind.as_pointer())


def _accumulate(
    b: ir.IRBuilder,
    dot4: Dot4,
    q: ir.Value,
    rows: Sequence[ir.Value],
    groups: ir.Value,
    start: Sequence[ir.Value],
) -> list[ir.Value]:
    """`start` + the products over `groups` groups of four dimensions, (ROWS x VECTORS) vectors of words."""
    before = b.block
    loop, after = b.append_basic_block("dims"), b.append_basic_block("done")
    b.cbranch(b.icmp_signed(">", groups, I64(0)), loop, after)
    b.position_at_end(loop)
    i = b.phi(I64)
    i.add_incoming(I64(0), before)
    totals = [b.phi(WORDS) for _ in start]
    base = b.gep(q, [b.mul(i, I64(4 * LANES))])
    lanes = [_load(b, base, 64 * c, WORDS) for c in range(VECTORS)]
    grown = []
    for r in range(ROWS):
        window = _splat(b, _load(b, rows[r], b.mul(i, I64(4)), I32))
        grown += [dot4(b, totals[r * VECTORS + c], lanes[c], window) for c in range(VECTORS)]
    for total, first, new in zip(totals, start, grown, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(new, loop)
    following = b.add(i, I64(1))
    i.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, groups), loop, after)
    b.position_at_end(after)
    results = []
    for first, new in zip(start, grown, strict=True):
        result = b.phi(WORDS)
        result.add_incoming(first, before)
        result.add_incoming(new, loop)
        results.append(result)
    return results


def _bytes_at(b: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return b.inttoptr(address, I8.as_pointer())


def _keep_max(b: ir.IRBuilder, out: ir.Value, totals: Sequence[ir.Value]) -> None:
    larger = _function(b, ir.FunctionType(WORDS, [WORDS, WORDS]), "llvm.smax.v16i32")
    for c in range(VECTORS):
        place = _at(b, out, 64 * c, WORDS)
        best = b.load(place, align=4)
        for r in range(ROWS):
            best = b.call(larger, [best, totals[r * VECTORS + c]])
        b.store(best, place, align=4)


def _rows(b: ir.IRBuilder, w: ir.Value, stride: ir.Value) -> list[ir.Value]:
    return [b.gep(w, [b.mul(stride, I64(r))]) for r in range(ROWS)]


def _biases(b: ir.IRBuilder, bias: ir.Value) -> list[ir.Value]:
    return [_splat(b, _load(b, bias, 4 * r, I32)) for r in range(ROWS) for _ in range(VECTORS)]


def make_max_tile(dot4: Dot4) -> Any:
    """An intrinsic: `best[lane]` = max of what it was and of bias + product over ROWS windows.

    Its arguments are addresses and counts: (q, w, bytes from window to window, bias, best, groups).
    """

    def tile(_context: Any, _q: Any, _w: Any, _stride: Any, _bias: Any, _best: Any, _groups: Any) -> Any:
        signature = types.void(*[types.intp] * 6)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, best, groups = arguments
            rows = _rows(b, _bytes_at(b, w), stride)
            totals = _accumulate(b, dot4, _bytes_at(b, q), rows, groups, _biases(b, _bytes_at(b, bias)))
            _keep_max(b, _bytes_at(b, best), totals)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


def make_score_tile(dot4: Dot4) -> Any:
    """An intrinsic: as `make_max_tile`, and the scores themselves are written to scores (ROWS, LANES).

    Its arguments: (q, w, bytes from window to window, bias, scores, best, groups).
    """

    def tile(
        _c: Any, _q: Any, _w: Any, _stride: Any, _bias: Any, _scores: Any, _best: Any, _groups: Any
    ) -> Any:
        signature = types.void(*[types.intp] * 7)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, scores, best, groups = arguments
            rows, out = _rows(b, _bytes_at(b, w), stride), _bytes_at(b, scores)
            totals = _accumulate(b, dot4, _bytes_at(b, q), rows, groups, _biases(b, _bytes_at(b, bias)))
            for at, total in enumerate(totals):
                b.store(total, _at(b, out, 64 * at, WORDS), align=4)
            _keep_max(b, _bytes_at(b, best), totals)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


max_tile = make_max_tile(vnni_dot4 if has_vnni() else plain_dot4)
score_tile = make_score_tile(vnni_dot4 if has_vnni() else plain_dot4)
