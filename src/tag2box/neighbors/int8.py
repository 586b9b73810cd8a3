"""Products of 8-bit vectors in tiles of `LANES` queries by `ROWS` windows, held in registers from end to end.

One instruction (AVX-512 VNNI's `vpdpbusd`) does 64 multiply-adds: four times what float32 does. numba cannot
be brought to emit it from a loop, so the tile is written in LLVM's own terms here. On machines without it
the same tile is spelled out in plain integer operations: the same numbers, only slower.

Queries are unsigned bytes (value + 128), packed as (groups, LANES, 4): byte j of group g in a lane is
dimension 4g + j. Windows are rows of signed bytes. Neither saturates: an int32 holds any sum we make.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "ROWS",
    "has_vnni",
    "make_row_scores",
    "make_score_tile",
    "make_top_tile",
    "plain_dot4",
    "row_scores",
    "score_tile",
    "top_tile",
]

VECTORS = 4
LANES = 16 * VECTORS
ROWS = 6  # 6 x 4 accumulators, 4 vectors of queries and one window fill 29 of 32 registers

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
WORDS = ir.VectorType(I32, 16)
BYTES = ir.VectorType(I8, 64)

Dot4 = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]
Step = Callable[[ir.Value, Sequence[ir.Value]], list[ir.Value]]


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


def _repeat(b: ir.IRBuilder, times: ir.Value, start: Sequence[ir.Value], step: Step) -> list[ir.Value]:
    """`start`, after `times` times x = step(i, x)."""
    before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed(">", times, I64(0)), loop, after)
    b.position_at_end(loop)
    i, running = b.phi(I64), [b.phi(x.type) for x in start]
    grown = step(i, running)
    following = b.add(i, I64(1))
    for phi, first, new in zip([i, *running], [I64(0), *start], [following, *grown], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(new, loop)
    b.cbranch(b.icmp_signed("<", following, times), loop, after)
    b.position_at_end(after)
    results = [b.phi(x.type) for x in start]
    for result, first, new in zip(results, start, grown, strict=True):
        result.add_incoming(first, before)
        result.add_incoming(new, loop)
    return results


def _accumulate(
    b: ir.IRBuilder,
    dot4: Dot4,
    q: ir.Value,
    rows: Sequence[ir.Value],
    groups: ir.Value,
    start: Sequence[ir.Value],
) -> list[ir.Value]:
    """`start` + the products over `groups` groups of four dimensions, (ROWS x VECTORS) vectors of words."""

    def step(i: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
        base = b.gep(q, [b.mul(i, I64(4 * LANES))])
        lanes = [_load(b, base, 64 * c, WORDS) for c in range(VECTORS)]
        grown = []
        for r in range(ROWS):
            window = _splat(b, _load(b, rows[r], b.mul(i, I64(4)), I32))
            grown += [dot4(b, totals[r * VECTORS + c], lanes[c], window) for c in range(VECTORS)]
        return grown

    return _repeat(b, groups, start, step)


def _bytes_at(b: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return b.inttoptr(address, I8.as_pointer())


def _rows(b: ir.IRBuilder, w: ir.Value, stride: ir.Value) -> list[ir.Value]:
    return [b.gep(w, [b.mul(stride, I64(r))]) for r in range(ROWS)]


def _biases(b: ir.IRBuilder, bias: ir.Value) -> list[ir.Value]:
    return [_splat(b, _load(b, bias, 4 * r, I32)) for r in range(ROWS) for _ in range(VECTORS)]


def _pair(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.call(_function(b, ir.FunctionType(WORDS, [WORDS, WORDS]), f"llvm.{name}.v16i32"), [x, y])


def _keep_top_two(
    b: ir.IRBuilder, places: Sequence[ir.Value], totals: Sequence[ir.Value], tag: ir.Value, mask: ir.Value
) -> None:
    low, name = _splat(b, mask), _splat(b, tag)
    high = b.not_(low)
    for c in range(VECTORS):
        top = reduce(lambda x, y: _pair(b, "smax", x, y), totals[c::VECTORS])
        tagged = b.or_(b.and_(top, high), name)
        best, second = (_at(b, place, 64 * c, WORDS) for place in places)
        beaten = _pair(b, "smin", b.load(best, align=4), tagged)
        b.store(_pair(b, "smax", b.load(second, align=4), beaten), second, align=4)
        b.store(_pair(b, "smax", b.load(best, align=4), tagged), best, align=4)


def make_top_tile(dot4: Dot4) -> Any:
    """An intrinsic: the largest of ROWS scores bias + product goes into `best` and `second` of its lane.

    These keep the two best tiles. A score's lowest bits (`mask`) give way to the tile's number (`tag`). Its
    arguments are addresses and counts: (q, w, bytes from window to window, bias, best, second, groups, tag,
    mask).
    """

    def tile(
        _c: Any, _q: Any, _w: Any, _s: Any, _b: Any, _best: Any, _second: Any, _g: Any, _t: Any, _m: Any
    ) -> Any:
        signature = types.void(*[types.intp] * 7, types.int32, types.int32)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, best, second, groups, tag, mask = arguments
            rows = _rows(b, _bytes_at(b, w), stride)
            totals = _accumulate(b, dot4, _bytes_at(b, q), rows, groups, _biases(b, _bytes_at(b, bias)))
            _keep_top_two(b, [_bytes_at(b, best), _bytes_at(b, second)], totals, tag, mask)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


def make_row_scores(dot4: Dot4) -> Any:
    """An intrinsic: scores (ROWS,) of one query, its bytes in a row: `chunks` of 64, filled up with zeros.

    Its arguments: (q, w, bytes from window to window, bias, scores, chunks). What it reads beyond the end of
    a window meets the query's zeros.
    """

    def scores(_c: Any, _q: Any, _w: Any, _stride: Any, _bias: Any, _scores: Any, _chunks: Any) -> Any:
        signature = types.void(*[types.intp] * 6)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, out, chunks = arguments
            q, out, rows = _bytes_at(b, q), _bytes_at(b, out), _rows(b, _bytes_at(b, w), stride)
            start = [ir.Constant(WORDS, [0] * 16)] * ROWS

            def step(i: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
                byte = b.mul(i, I64(64))
                query = _load(b, q, byte, WORDS)
                return [
                    dot4(b, t, query, _load(b, row, byte, WORDS)) for t, row in zip(totals, rows, strict=True)
                ]

            add = _function(b, ir.FunctionType(I32, [WORDS]), "llvm.vector.reduce.add.v16i32")
            for r, total in enumerate(_repeat(b, chunks, start, step)):
                score = b.add(b.call(add, [total]), _load(b, _bytes_at(b, bias), 4 * r, I32))
                b.store(score, _at(b, out, 4 * r, I32), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(scores)


def make_score_tile(dot4: Dot4) -> Any:
    """An intrinsic: scores (ROWS, LANES), all of them.

    Its arguments: (q, w, bytes from window to window, bias, scores, groups).
    """

    def tile(_c: Any, _q: Any, _w: Any, _stride: Any, _bias: Any, _scores: Any, _groups: Any) -> Any:
        signature = types.void(*[types.intp] * 6)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, scores, groups = arguments
            rows, out = _rows(b, _bytes_at(b, w), stride), _bytes_at(b, scores)
            totals = _accumulate(b, dot4, _bytes_at(b, q), rows, groups, _biases(b, _bytes_at(b, bias)))
            for at, total in enumerate(totals):
                b.store(total, _at(b, out, 64 * at, WORDS), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


_dot4 = vnni_dot4 if has_vnni() else plain_dot4
top_tile = make_top_tile(_dot4)
score_tile = make_score_tile(_dot4)
row_scores = make_row_scores(_dot4)
