"""L2 distance of two rows, the same bits on every machine: float64 sums in one fixed order of 16 lanes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from tag2box.runtime.compiled import cpu_features, is_x86, kernel

__all__ = ["as_rows", "distance"]

array_view: Any = make_array  # untyped in numba
LANES = 16
I32, I64, DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
# Without this instruction LLVM would call a library function for half floats, which is not there.
SPELLED_OUT = is_x86() and "f16c" not in cpu_features()
# Half floats come as their bits: numba does not compute with them.
ELEMENT = {types.uint16: ir.HalfType(), types.float32: ir.FloatType(), types.float64: DOUBLE}


def as_rows(X: NDArray[Any]) -> NDArray[Any]:
    """X as `distance` wants it: row after row, float16 as its bits."""
    rows = np.ascontiguousarray(X)
    return rows.view(np.uint16) if rows.dtype == np.float16 else rows


@kernel
def distance(X: NDArray[Any], i: int, j: int) -> np.float32:
    """|x_i - x_j|, summed in float64, rounded to float32."""
    return np.float32(np.sqrt(_squared(X, i, j)))


def _squared_typing(_context: Any, X: Any, _i: Any, _j: Any) -> Any:
    signature = types.float64(X, types.intp, types.intp)

    def codegen(context: Any, b: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        kind = ELEMENT[signature.args[0].dtype]
        array = array_view(signature.args[0])(context, b, arguments[0])
        d = b.extract_value(array.shape, 1)
        data = b.bitcast(array.data, kind.as_pointer())
        rows = [b.gep(data, [b.mul(row, d)]) for row in arguments[1:]]
        sums = _whole(b, kind, rows, d)
        total = _tree(b, sums)
        return _rest(b, kind, rows, d, total)

    return signature, codegen


_squared: Any = intrinsic(_squared_typing)


def _from_bits(b: ir.IRBuilder, half: ir.Value, lanes: int) -> ir.Value:
    """Half floats as floats: exponent and mantissa moved to their places, times 2^112 for the other bias."""

    def kind(scalar: ir.Type) -> ir.Type:
        return ir.VectorType(scalar, lanes) if lanes > 1 else scalar

    def constant(scalar: ir.Type, value: float) -> ir.Constant:
        return ir.Constant(kind(scalar), [value] * lanes if lanes > 1 else value)

    bits = b.zext(b.bitcast(half, kind(ir.IntType(16))), kind(I32))
    size = b.bitcast(b.shl(b.and_(bits, constant(I32, 0x7FFF)), constant(I32, 13)), kind(ir.FloatType()))
    size = b.fmul(size, constant(ir.FloatType(), 2.0**112))  # exact, for the smallest too
    sign = b.shl(b.and_(bits, constant(I32, 0x8000)), constant(I32, 16))
    return b.bitcast(b.or_(b.bitcast(size, kind(I32)), sign), kind(ir.FloatType()))


def _wide(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    if (value.type.element if lanes > 1 else value.type) == ir.HalfType() and SPELLED_OUT:
        value = _from_bits(b, value, lanes)
    for kind in (ir.FloatType(), DOUBLE):
        target = ir.VectorType(kind, lanes) if lanes > 1 else kind
        element = value.type.element if lanes > 1 else value.type
        if element == ir.HalfType() or (element == ir.FloatType() and kind == DOUBLE):
            value = b.fpext(value, target)
    return value


def _square(b: ir.IRBuilder, kind: ir.Type, rows: Sequence[ir.Value], at: ir.Value, lanes: int) -> ir.Value:
    """(a - b)² of `lanes` entries from `at` on, in float64."""
    loaded = []
    for row in rows:
        place = b.gep(row, [at])
        if lanes > 1:
            place = b.bitcast(place, ir.VectorType(kind, lanes).as_pointer())
        loaded.append(_wide(b, b.load(place, align=2), lanes))
    difference = b.fsub(*loaded)
    return b.fmul(difference, difference)


def _loop(
    b: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int, total: ir.Value, body: Any
) -> ir.Value:
    """`total`, with body(i) added for i = start, start + step, ... below stop."""
    before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", start, stop), loop, after)
    b.position_at_end(loop)
    i, running = b.phi(I64), b.phi(total.type)
    grown = b.fadd(running, body(i))
    following = b.add(i, I64(step))
    for phi, first, new in ((i, start, following), (running, total, grown)):
        phi.add_incoming(first, before)
        phi.add_incoming(new, loop)
    b.cbranch(b.icmp_signed("<", following, stop), loop, after)
    b.position_at_end(after)
    result = b.phi(total.type)
    result.add_incoming(total, before)
    result.add_incoming(grown, loop)
    return result


def _whole(b: ir.IRBuilder, kind: ir.Type, rows: Sequence[ir.Value], d: ir.Value) -> ir.Value:
    zeros = ir.Constant(ir.VectorType(DOUBLE, LANES), [0.0] * LANES)
    stop = b.and_(d, I64(-LANES))
    return _loop(b, I64(0), stop, LANES, zeros, lambda i: _square(b, kind, rows, i, LANES))


def _rest(b: ir.IRBuilder, kind: ir.Type, rows: Sequence[ir.Value], d: ir.Value, total: ir.Value) -> ir.Value:
    return _loop(b, b.and_(d, I64(-LANES)), d, 1, total, lambda i: _square(b, kind, rows, i, 1))


def _tree(b: ir.IRBuilder, sums: ir.Value) -> ir.Value:
    """Halves added to halves until one number is left."""
    n = LANES
    while n > 1:
        halves = [
            b.shuffle_vector(sums, sums, ir.Constant(ir.VectorType(ir.IntType(32), n // 2), list(lanes)))
            for lanes in (range(n // 2), range(n // 2, n))
        ]
        sums, n = b.fadd(*halves), n // 2
    return b.extract_element(sums, ir.IntType(32)(0))
