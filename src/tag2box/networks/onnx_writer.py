"""Write an ONNX file: the few messages of its protocol buffer that a plain network needs, and no more.

Field numbers are those of onnx.proto (IR version 8, operator set 13). A test reads the result back with the
`onnx` package and its checker. With this, 60 lines stand for a dependency of 60 MB.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Graph"]

IR_VERSION, OPERATOR_SET = 8, 13
FLOAT = 1  # TensorProto.DataType
TYPES = {np.dtype("<f4"): FLOAT, np.dtype("u1"): 2, np.dtype("i1"): 3}
INT_ATTRIBUTE, STRING_ATTRIBUTE, INTS_ATTRIBUTE = 2, 3, 7  # AttributeProto.AttributeType

Attribute = int | str | Sequence[int]
Shape = Sequence[int | str]  # a string is a free dimension


@dataclass
class Graph:
    """A network under construction: `add` appends an operator and returns the name of its output."""

    nodes: list[bytes] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[np.float32] | NDArray[np.int8] | NDArray[np.uint8]) -> str:
        """Add the tensor `value`, of float32, int8 or uint8, and return its name."""
        data = value.astype("<f4") if value.dtype.kind == "f" else value
        dims = [_int(1, n) for n in value.shape]
        self.constants.append(
            b"".join([*dims, _int(2, TYPES[data.dtype]), _text(8, name), _bytes(9, data.tobytes())])
        )
        return name

    def add(self, op: str, inputs: Iterable[str], output: str, **attributes: Attribute) -> str:
        """Add the operator `op` and return `output`, the name of its result."""
        fields = [*(_text(1, name) for name in inputs), _text(2, output), _text(3, output), _text(4, op)]
        fields += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(b"".join(fields))
        return output

    def serialize(self, name: str, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]) -> bytes:
        """The bytes of the ONNX file with these inputs and outputs."""
        graph = [_bytes(1, node) for node in self.nodes] + [_text(2, name)]
        graph += [_bytes(5, constant) for constant in self.constants]
        graph += [_bytes(11, _value(*item)) for item in inputs.items()]
        graph += [_bytes(12, _value(*item)) for item in outputs.items()]
        opset = _bytes(8, _text(1, "") + _int(2, OPERATOR_SET))
        return _int(1, IR_VERSION) + _text(2, "tag2box") + _bytes(7, b"".join(graph)) + opset


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _int(3, value) + _int(20, INT_ATTRIBUTE)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _int(20, STRING_ATTRIBUTE)
    return _text(1, name) + b"".join(_int(8, n) for n in value) + _int(20, INTS_ATTRIBUTE)


def _value(name: str, shape: Shape) -> bytes:
    dims = b"".join(_bytes(1, _int(1, n) if isinstance(n, int) else _text(2, n)) for n in shape)
    tensor = _int(1, FLOAT) + _bytes(2, dims)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + struct.pack("B", value)
