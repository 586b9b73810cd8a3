"""Products of 8-bit numbers in tiles of `LANES` queries by `ROWS` windows, held in registers from end to end.

numba cannot be brought to emit the instructions of `arithmetic.py` from a loop, so the tile is written in
LLVM's own terms here.

A word of 32 bits holds 4 or 2 dimensions of a query or window. Queries are packed as (groups, LANES) words:
word g of a lane holds its dimensions from 4g or 2g on. An int32 holds any sum we make.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tag2box.neighbors.arithmetic import ARITHMETIC, Arithmetic, llvm_function

__all__ = [
    "LANES",
    "ROWS",
    "make_row_scores",
    "make_score_tile",
    "make_top_tile",
    "row_scores",
    "score_tile",
    "top_tile",
]

LANES = 64
ROWS = 6

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)

Step = Callable[[ir.Value, Sequence[ir.Value]], list[ir.Value]]


def _splat(b: ir.IRBuilder, scalar: ir.Value, kind: ir.VectorType) -> ir.Value:
    undefined = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(undefined, scalar, I32(0))
    return b.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


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


def _bytes_at(b: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return b.inttoptr(address, I8.as_pointer())


def _rows(b: ir.IRBuilder, w: ir.Value, stride: ir.Value) -> list[ir.Value]:
    return [b.gep(w, [b.mul(stride, I64(r))]) for r in range(ROWS)]


class _Tile:
    """The code of a tile: for each part of the lanes, as wide as the registers allow, its ROWS scores."""

    def __init__(
        self, how: Arithmetic, b: ir.IRBuilder, q: ir.Value, w: ir.Value, bias: ir.Value, groups: ir.Value
    ) -> None:
        self.how, self.b, self.groups = how, b, groups
        self.q, self.bias = _bytes_at(b, q), _bytes_at(b, bias)
        self.rows = _rows(b, _bytes_at(b, w), b.mul(groups, I64(4)))

    def parts(self) -> range:
        """Where each part starts, in bytes of a row of lanes."""
        return range(0, 4 * LANES, 4 * self.how.words * self.how.vectors)

    def scores(self, part: int) -> list[ir.Value]:
        """bias + the products over all groups of dimensions: ROWS x vectors, row by row."""
        b, how, size = self.b, self.how, 4 * self.how.words

        def step(i: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
            base = b.gep(self.q, [b.add(b.mul(i, I64(4 * LANES)), I64(part))])
            lanes = [_load(b, base, size * c, how.kind) for c in range(how.vectors)]
            grown = []
            for r, row in enumerate(self.rows):
                window = _splat(b, _load(b, row, b.mul(i, I64(4)), I32), how.kind)
                for c, queries in enumerate(lanes):
                    grown.append(how.dot(b, totals[r * how.vectors + c], queries, window))
            return grown

        biases = [_splat(b, _load(b, self.bias, 4 * r, I32), how.kind) for r in range(ROWS)]
        return _repeat(b, self.groups, [bias for bias in biases for _ in range(how.vectors)], step)


def _pair(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    kind = ir.FunctionType(x.type, [x.type, x.type])
    return b.call(llvm_function(b, kind, f"llvm.{name}.v{x.type.count}i32"), [x, y])


def _keep_top_two(
    b: ir.IRBuilder, places: Sequence[ir.Value], totals: Sequence[ir.Value], name: ir.Value, low: ir.Value
) -> None:
    """The largest of `totals`, its bits of `low` replaced by `name`, among the two best of its lanes."""
    top = reduce(lambda x, y: _pair(b, "smax", x, y), totals)
    tagged = b.or_(b.and_(top, b.not_(low)), name)
    best, second = (_at(b, place, 0, top.type) for place in places)
    beaten = _pair(b, "smin", b.load(best, align=4), tagged)
    b.store(_pair(b, "smax", b.load(second, align=4), beaten), second, align=4)
    b.store(_pair(b, "smax", b.load(best, align=4), tagged), best, align=4)


def make_top_tile(how: Arithmetic) -> Any:
    """An intrinsic: the largest of ROWS scores bias + product goes into `best` and `second` of its lane.

    These keep the two best tiles. A score's lowest bits (`mask`) give way to the tile's number (`tag`). Its
    arguments are addresses and counts: (q, w, bias, best, second, groups, tag, mask).
    """

    def tile(_c: Any, _q: Any, _w: Any, _b: Any, _best: Any, _second: Any, _g: Any, _t: Any, _m: Any) -> Any:
        signature = types.void(*[types.intp] * 6, types.int32, types.int32)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, bias, best, second, groups, tag, mask = arguments
            name, low = _splat(b, tag, how.kind), _splat(b, mask, how.kind)
            kept = [_bytes_at(b, best), _bytes_at(b, second)]
            code = _Tile(how, b, q, w, bias, groups)
            for part in code.parts():
                totals = code.scores(part)
                for c in range(how.vectors):
                    at = I64(part + 4 * how.words * c)
                    _keep_top_two(b, [b.gep(k, [at]) for k in kept], totals[c :: how.vectors], name, low)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


def make_score_tile(how: Arithmetic) -> Any:
    """An intrinsic: scores (ROWS, LANES), all of them.

    Its arguments: (q, w, bias, scores, groups).
    """

    def tile(_c: Any, _q: Any, _w: Any, _bias: Any, _scores: Any, _groups: Any) -> Any:
        signature = types.void(*[types.intp] * 5)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, bias, scores, groups = arguments
            out = _bytes_at(b, scores)
            code = _Tile(how, b, q, w, bias, groups)
            for part in code.parts():
                for i, total in enumerate(code.scores(part)):
                    r, c = divmod(i, how.vectors)
                    at = 4 * LANES * r + part + 4 * how.words * c
                    b.store(total, _at(b, out, at, how.kind), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(tile)


def make_row_scores(how: Arithmetic) -> Any:
    """An intrinsic: scores (ROWS,) of one query, its words in a row, filled up with zeros to whole vectors.

    Its arguments: (q, w, bytes from window to window, bias, scores, words). What it reads beyond the end of
    a window meets the query's zeros.
    """

    def scores(_c: Any, _q: Any, _w: Any, _stride: Any, _bias: Any, _scores: Any, _words: Any) -> Any:
        signature = types.void(*[types.intp] * 6)

        def codegen(context: Any, b: ir.IRBuilder, _signature: Any, arguments: Sequence[Any]) -> Any:
            q, w, stride, bias, out, words = arguments
            q, out, rows = _bytes_at(b, q), _bytes_at(b, out), _rows(b, _bytes_at(b, w), stride)
            start = [ir.Constant(how.kind, [0] * how.words)] * ROWS

            def step(i: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
                byte = b.mul(i, I64(4 * how.words))
                query = _load(b, q, byte, how.kind)
                return [
                    how.dot(b, t, query, _load(b, row, byte, how.kind))
                    for t, row in zip(totals, rows, strict=True)
                ]

            kind = ir.FunctionType(I32, [how.kind])
            add = llvm_function(b, kind, f"llvm.vector.reduce.add.v{how.words}i32")
            for r, total in enumerate(_repeat(b, b.udiv(words, I64(how.words)), start, step)):
                score = b.add(b.call(add, [total]), _load(b, _bytes_at(b, bias), 4 * r, I32))
                b.store(score, _at(b, out, 4 * r, I32), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return intrinsic(scores)


top_tile = make_top_tile(ARITHMETIC)
score_tile = make_score_tile(ARITHMETIC)
row_scores = make_row_scores(ARITHMETIC)
