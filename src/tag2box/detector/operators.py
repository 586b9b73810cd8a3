"""`Operators`: an ONNX graph written as if its operators were functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.networks.onnx_writer import Attribute, Graph

Operand = str | int | float | NDArray[Any] | list[int]


class Operators:
    """`op("Add", x, 2.0)` adds an operator to the graph and returns the name of its result.

    Numbers and arrays become constants: whole numbers of int64, others of float32.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self._count = 0

    def __call__(self, op: str, *inputs: Operand, name: str | None = None, **attributes: Attribute) -> str:
        """The result of the operator `op`, by its name."""
        return self.graph.add(op, map(self._operand, inputs), name or self._next(op), **attributes)

    def several(self, op: str, *inputs: Operand, n: int, **attributes: Attribute) -> tuple[str, ...]:
        """The n results of the operator `op`."""
        names = [self._next(op) for _ in range(n)]
        self.graph.add(op, map(self._operand, inputs), names[0], *names[1:], **attributes)
        return tuple(names)

    def cut(self, x: str, start: int, end: int, axis: int) -> str:
        """x[start:end] along an axis."""
        return self("Slice", x, [start], [end], [axis])

    def constant(self, value: Operand) -> str:
        """A constant of the graph, by its name, where several operators read it."""
        array = np.asarray(value)
        return self.graph.constant(
            self._next("constant"), array.astype("<i8" if array.dtype.kind == "i" else "<f4")
        )

    def _operand(self, value: Operand) -> str:
        return value if isinstance(value, str) else self.constant(value)

    def _next(self, word: str) -> str:
        self._count += 1
        return f"{word}_{self._count}"
