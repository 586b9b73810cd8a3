"""What a network is, as one hash: its ONNX files, weights that they keep in others, and how it is fed."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tag2box.errors import InputError
from tag2box.networks.network import Network, load_network
from tag2box.runtime.files import known_hash, to_json

# The messages of onnx.proto in which tensors occur: field number -> kind of message.
INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def network_hash(network: Network | str) -> str:
    """64 hexadecimal digits that change with any weight, also of its 8-bit form, and with the TOML."""
    network = load_network(network) if isinstance(network, str) else network
    graphs = [network.path] if network.int8 is None else [network.path, network.int8]
    files = [known_hash(path) for graph in graphs for path in (graph, *_external_weights(graph))]
    feed = [network.input, network.output, network.mean, network.std, network.channels, network.cut]
    tokens = [network.patch, network.class_tokens, network.register_tokens, network.size]
    return hashlib.sha256(to_json([files, feed, tokens]).encode()).hexdigest()


def _external_weights(graph: Path) -> list[Path]:
    """The files that an ONNX file keeps weights in."""
    weights = [graph.parent / name for name in _external(graph, known_hash(graph))]
    if missing := [path for path in weights if not path.is_file()]:
        raise InputError(f"{graph} keeps weights in {missing[0]}, which is not there: put it beside it")
    return weights


@lru_cache(maxsize=16)
def _external(graph: Path, _content: str) -> tuple[str, ...]:
    return external_files(graph.read_bytes())


def external_files(onnx: bytes) -> tuple[str, ...]:
    """The names of the files that an ONNX file keeps weights in; none where it is damaged, or no ONNX."""
    try:
        return tuple(sorted(set(_locations(memoryview(onnx), "model"))))
    except (IndexError, ValueError, RecursionError):  # whoever runs it says what is wrong
        return ()


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for number, value in _fields(message):
        inner = INSIDE[kind].get(number)
        if inner == "entry":
            entry = dict(_fields(value))
            if bytes(entry.get(1, b"")) == b"location":
                yield bytes(entry[2]).decode()
        elif inner is not None:
            yield from _locations(value, inner)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(number, bytes) of the fields of a protocol buffer that have a length; others are passed over."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(message, at)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field is longer than its message")
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            raise ValueError(f"no such kind of field: {wire}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")
