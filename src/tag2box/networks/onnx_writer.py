"""Write an ONNX file: the few messages of its protocol buffer that our networks need, and no more.

Field numbers are those of onnx.proto (IR version 8, operator set 13). A test reads the result back with the
`onnx` package and its checker. With this, 80 lines stand for a dependency of 60 MB.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

IR_VERSION, OPERATOR_SET = 8, 13
FLOAT = 1  # TensorProto.DataType
TYPES = {np.dtype("<f4"): FLOAT, np.dtype("u1"): 2, np.dtype("i1"): 3, np.dtype("<i8"): 7}
# AttributeProto.AttributeType
FLOAT_ATTRIBUTE, INT_ATTRIBUTE, STRING_ATTRIBUTE, INTS_ATTRIBUTE = 1, 2, 3, 7

Attribute = int | float | str | Sequence[int]
Shape = Sequence[int | str]  # a string is a free dimension


@dataclass
class Graph:
    """A network under construction: `add` appends an operator and returns the name of its output."""

    nodes: list[bytes] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add the tensor `value`, of floats, int8, uint8 or int64, and return its name."""
        data = value.astype("<f4") if value.dtype.kind == "f" else value
        dims = [_int(1, n) for n in value.shape]
        self.constants.append(
            b"".join([*dims, _int(2, TYPES[data.dtype]), _text(8, name), _bytes(9, data.tobytes())])
        )
        return name

    def add(self, op: str, inputs: Iterable[str], output: str, *others: str, **attributes: Attribute) -> str:
        """Add the operator `op` and return `output`, the name of its result; others: of further results."""
        fields = [*(_text(1, name) for name in inputs), *(_text(2, name) for name in (output, *others))]
        fields += [_text(3, output), _text(4, op)]
        fields += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(b"".join(fields))
        return output

    def serialize(
        self,
        name: str,
        inputs: Mapping[str, Shape],
        outputs: Mapping[str, Shape],
        *,
        types: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> bytes:
        """The bytes of the ONNX file with these inputs and outputs.

        types: the dtypes of those that are not of float32. metadata: texts by name, which runtimes show.
        """
        kinds = {key: TYPES[np.dtype(value)] for key, value in (types or {}).items()}
        graph = [_bytes(1, node) for node in self.nodes] + [_text(2, name)]
        graph += [_bytes(5, constant) for constant in self.constants]
        graph += [_bytes(11, _value(key, s, kinds.get(key, FLOAT))) for key, s in inputs.items()]
        graph += [_bytes(12, _value(key, s, kinds.get(key, FLOAT))) for key, s in outputs.items()]
        opset = _bytes(8, _text(1, "") + _int(2, OPERATOR_SET))
        texts = [_bytes(14, _text(1, key) + _text(2, text)) for key, text in (metadata or {}).items()]
        head = _int(1, IR_VERSION) + _text(2, "tag2box")
        return b"".join([head, _bytes(7, b"".join(graph)), opset, *texts])


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _int(3, value) + _int(20, INT_ATTRIBUTE)
    if isinstance(value, float):
        return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _int(20, FLOAT_ATTRIBUTE)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _int(20, STRING_ATTRIBUTE)
    return _text(1, name) + b"".join(_int(8, n) for n in value) + _int(20, INTS_ATTRIBUTE)


def _value(name: str, shape: Shape, kind: int) -> bytes:
    dims = b"".join(_bytes(1, _int(1, n) if isinstance(n, int) else _text(2, n)) for n in shape)
    tensor = _int(1, kind) + _bytes(2, dims)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value % (1 << 64))  # of a negative number, its two's complement


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
