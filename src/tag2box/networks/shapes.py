"""The graph of an ONNX file for photos of some size: the shapes of its tensors, and what all passes through.

Nothing is run. OpenVINO infers the shape of every tensor.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.errors import InputError
from tag2box.networks.network import Network
from tag2box.networks.openvino_engine import image_input, read_model, result_of, shape_of

if TYPE_CHECKING:
    import openvino as ov

Size = tuple[int, int]


def input_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs by their names."""
    return shapes_of(parameter.output(0) for parameter in read_model(path).get_parameters())


def for_photos(network: Network, size: Size) -> "ov.Model":
    """The graph from the image to the output, if that is known, with its shapes for photos of `size`."""
    import openvino as ov

    model = read_model(network.path)
    image = image_input(model, network)
    n = max(shape_of(image.output(0))[0], 1)
    if network.output is not None:
        try:
            model = ov.Model([result_of(model, network)], [image], network.path.stem)
        except RuntimeError:
            more = ", ".join(name for name in input_shapes(network.path) if name != network.input)
            raise InputError(
                f"{network.path.name} needs more than an image, also {more}: export it with the image as its "
                f"only input"
            ) from None
    model.reshape({model.inputs[[*model.get_parameters()].index(image)]: ov.PartialShape([n, 3, *size])})
    return model


def takes(network: Network, size: Size) -> bool:
    """Whether photos of `size` can go through the network."""
    try:
        return len(result_shape(network, size)) > 0
    except RuntimeError:
        return False


def result_shape(network: Network, size: Size) -> tuple[int, ...]:
    """The shape of what the network makes of photos of `size`."""
    return shape_of(for_photos(network, size).output(0))


def shapes_of(ports: Iterable[Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by their names."""
    return {port.get_any_name(): shape_of(port) for port in ports}


def name_of(tensor: Any) -> str:
    """One name of a tensor, always the same."""
    return str(min(tensor.get_names()))


def necks(model: "ov.Model") -> list[Any]:
    """The tensors behind the image that everything passes through on its way to the result, in order."""
    operations = model.get_ordered_ops()
    inside = {op.get_name() for op in operations}
    waiting: dict[tuple[str, int], int] = {}  # tensors that were made of the image, and readers to come
    tensors = []
    for op in operations:
        sources = [port.get_source_output() for port in op.inputs()]
        read = [key for key in ((s.get_node().get_name(), s.get_index()) for s in sources) if key in waiting]
        if not read and op.get_type_name() != "Parameter":
            continue  # made of constants
        for key in read:
            waiting[key] -= 1
        for output in op.outputs():
            readers = [port.get_node().get_name() for port in output.get_target_inputs()]
            waiting[op.get_name(), output.get_index()] = sum(name in inside for name in readers)
        waiting = {key: readers for key, readers in waiting.items() if readers > 0}
        if read and len(waiting) == 1 and next(iter(waiting))[0] == op.get_name():
            tensors.append(op.output(next(iter(waiting))[1]))
    return tensors
