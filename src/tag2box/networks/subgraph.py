"""A part of an ONNX graph as a file of its own, from the image or a tensor inside to another or the end.

OpenVINO cuts graphs itself; for onnxruntime this does it, with the `onnx` package.
"""

from typing import Any

from tag2box.errors import InputError
from tag2box.networks.network import Network

# A protocol buffer holds no more.
LARGEST = 2**31 - 1


def part_of(network: Network, start: str | None, end: str | None) -> bytes:
    """The ONNX file of the part of `network` from the tensor `start` to `end`; None is its input, its output.

    The number and the size of images are left open, unless the network takes one size alone.
    """
    from onnx import ValueInfoProto, helper

    model = _loaded(network)
    graph = model.graph
    constants = {value.name for value in graph.initializer}
    constants |= {value.values.name for value in graph.sparse_initializer}
    images = [value for value in graph.input if value.name not in constants]
    image = images[_index(network, [value.name for value in images])]
    source = start or image.name
    nodes = _nodes_between(network, graph, source, _target(network, graph, end), constants)
    if start is not None:
        image = helper.make_tensor_value_info(source, *_type_of(model, source))
    elif network.size is None:
        for axis, name in ((0, "n"), (2, "h"), (3, "w")):
            image.type.tensor_type.shape.dim[axis].dim_param = name
    _replace(graph.input, [image])
    _replace(graph.output, [ValueInfoProto(name=_target(network, graph, end))])
    _replace(graph.node, nodes)
    _replace(graph.value_info, [])  # sizes that hold no longer
    used = {name for node in nodes for name in _reads(node)}
    _replace(graph.initializer, [value for value in graph.initializer if value.name in used])
    if model.ByteSize() > LARGEST:
        raise InputError(f"{network.path.name} has more than 2 GB: only features.runtime=openvino takes it")
    return bytes(model.SerializeToString())


def _type_of(model: Any, name: str) -> tuple[int, list[int | None]]:
    """The kind of number in a map inside, and its shape of which only the channels are kept."""
    from onnx import TensorProto, shape_inference

    inferred = shape_inference.infer_shapes(model).graph
    for value in (*inferred.value_info, *inferred.output):
        if value.name == name:
            kind = value.type.tensor_type
            sizes = [dim.dim_value or None for dim in kind.shape.dim]
            return kind.elem_type, [None, sizes[1] if len(sizes) == 4 else None, None, None]
    return TensorProto.FLOAT, [None] * 4


def _loaded(network: Network) -> Any:
    import onnx

    try:
        return onnx.load(network.path)
    except Exception as error:  # of onnx, or of protobuf
        raise InputError(f"{network.path} cannot be read as ONNX: {error}") from error


def _index(network: Network, names: list[str]) -> int:
    """Which input is the image."""
    if network.input is None and len(names) == 1:
        return 0
    if network.input not in names:
        asked = f"has no input {network.input!r}" if network.input else "has several inputs"
        raise InputError(f"{network.path.name} {asked}: name one of {', '.join(names)} as input in its TOML")
    return names.index(network.input)


def _target(network: Network, graph: Any, end: str | None) -> str:
    """The tensor to end at."""
    names = [value.name for value in graph.output]
    if (end or network.output) is None and len(names) > 1:
        raise InputError(
            f"{network.path.name} has several outputs: name one of {', '.join(names)} in its TOML"
        )
    return end or network.output or str(names[0])


def _nodes_between(network: Network, graph: Any, source: str, target: str, constants: set[str]) -> list[Any]:
    """The operators that lead from `source` to `target`, in the order of the graph."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output}
    if target not in makers:
        names = ", ".join(value.name for value in graph.output)
        raise InputError(
            f"{network.path.name} has no tensor {target!r}: its outputs are {names}; Netron shows the names "
            f"inside"
        )
    needed: set[int] = set()
    wanted = [target]
    while wanted:
        name = wanted.pop()
        if name in constants or name in ("", source):
            continue
        if name not in makers:
            raise InputError(f"{network.path.name} cannot be cut at {source!r}: another way leads around it")
        if makers[name] not in needed:
            needed.add(makers[name])
            wanted.extend(_reads(graph.node[makers[name]]))
    return [graph.node[i] for i in sorted(needed)]


def _reads(node: Any) -> set[str]:
    """The tensors that an operator reads, those of its branches included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs:
            own = {value.name for value in (*graph.input, *graph.initializer)}
            own |= {name for inner in graph.node for name in inner.output}
            names |= {name for inner in graph.node for name in _reads(inner)} - own
    return names


def _replace(field: Any, values: list[Any]) -> None:
    """Give a repeated field of a protocol buffer other values."""
    del field[:]
    field.extend(values)
