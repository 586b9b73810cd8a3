"""What an ONNX file is, where no TOML says so: its input, output, size and tokens, and where to cut it.

Nothing is run. OpenVINO infers the shape of every tensor for photos of a few sizes; what everything passes
through on its way from the image to the result is a place to cut, or to end.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.errors import InputError
from tag2box.features.backbone import Network
from tag2box.features.networks.openvino_engine import (
    image_input,
    read_model,
    reason,
    result_of,
    shape_of,
)

if TYPE_CHECKING:
    import openvino as ov

__all__ = ["MEAN", "STD", "necks", "understand"]

Size = tuple[int, int]

# ImageNet's, as torchvision, timm and DINO have them.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
# Two shapes of photos, multiples of every usual patch and stride.
WIDE, SQUARE = (224, 448), (448, 448)
# Sizes to try of a network that takes one alone and does not say which.
USUAL = (224, 518, 256, 384, 336, 448, 512, 196, 192, 128)
# No network has more class and register tokens.
MOST_SPECIAL = 16
# The stride at which EfficientNet-Lite0 is cut, by what docs/features.md has measured.
CUT_STRIDE = 16


def understand(path: Path) -> Network:
    """The network of the ONNX file `path`, by its graph alone; mean and std are a guess, ImageNet's."""
    network = Network(path, _image_name(path), None, MEAN, STD)
    network = _colors_of_preprocessor(network)
    size, model = _some_size(network)
    network = replace(network, output=_best_output(network, model))
    rank = len(_result_shape(network, size))
    if _takes(network, WIDE) and _takes(network, SQUARE):
        if rank == 3:
            return _with_tokens(network, WIDE, SQUARE)
        return _with_cut(_with_stride(network))
    network = replace(network, size=size)
    return _with_tokens(network, size) if rank == 3 else network


def _image_name(path: Path) -> str:
    """The input that an image fits into."""
    ports = _shapes(parameter.output(0) for parameter in read_model(path).get_parameters())
    fitting = [name for name, shape in ports.items() if len(shape) == 4 and shape[1] in (3, -1)]
    if not fitting:
        inputs = ", ".join(f"{name} {shape}" for name, shape in ports.items())
        raise InputError(
            f"{path.name} has no input for an image (n, 3, height, width), but {inputs}: "
            f"export it with an image as its input"
        )
    return fitting[0]


def _colors_of_preprocessor(network: Network) -> Network:
    """With the mean and std of the preprocessor_config.json that Hugging Face puts beside a network."""
    file = network.path.with_name("preprocessor_config.json")
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        scale = 1 / float(told.get("rescale_factor", 1 / 255))
        mean, std = ([round(scale * float(x), 3) for x in told[f"image_{key}"]] for key in ("mean", "std"))
        return replace(network, mean=(mean[0], mean[1], mean[2]), std=(std[0], std[1], std[2]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError):
        return network


def _some_size(network: Network) -> tuple[Size, "ov.Model"]:
    """A size that the network takes, its own where it has one, and its graph for such photos."""
    model = read_model(network.path)
    _, _, h, w = shape_of(image_input(model, network).output(0))
    refusals = []
    for size in [(h, w)] if h > 0 and w > 0 else [(side, side) for side in USUAL]:
        try:
            return size, _for_photos(network, size)
        except RuntimeError as error:
            refusals.append(reason(error))
    raise InputError(
        f"{network.path.name} says that it takes any size, but takes none of the usual ones ({refusals[0]}): "
        f"export it with the one size that it takes, or with positions that are interpolated"
    )


def _for_photos(network: Network, size: Size) -> "ov.Model":
    """The graph from the image to the output, if that is known, with its shapes for photos of `size`."""
    import openvino as ov

    model = read_model(network.path)
    image = image_input(model, network)
    n = max(shape_of(image.output(0))[0], 1)
    if network.output is not None:
        model = ov.Model([result_of(model, network)], [image], network.path.stem)
    model.reshape({model.inputs[[*model.get_parameters()].index(image)]: ov.PartialShape([n, 3, *size])})
    return model


def _takes(network: Network, size: Size) -> bool:
    try:
        return len(_result_shape(network, size)) > 0
    except RuntimeError:
        return False


def _result_shape(network: Network, size: Size) -> tuple[int, ...]:
    """The shape of what the network makes of photos of `size`."""
    return shape_of(_for_photos(network, size).output(0))


def _is_map(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and min(shape[2:]) > 1


def _is_tokens(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[1] > 1


def _best_output(network: Network, model: "ov.Model") -> str:
    """The smallest map of the outputs, else the first tokens; without either, the last of them inside."""
    shapes = _shapes(model.outputs)
    maps = [name for name, shape in shapes.items() if _is_map(shape)]
    if maps:
        return min(maps, key=lambda name: shapes[name][2] * shapes[name][3])
    if tokens := [name for name, shape in shapes.items() if _is_tokens(shape)]:
        return tokens[0]
    inside = [
        tensor
        for tensor in necks(_for_photos(replace(network, output=next(iter(shapes))), _photo_size(model)))
        if tensor.get_names() and (_is_map(shape_of(tensor)) or _is_tokens(shape_of(tensor)))
    ]
    if not inside:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"{network.path.name} gives {told}, and no map (n, c, h, w) or tokens (n, tokens, c) lead "
            f"there: export one of them as output"
        )
    return _name(inside[-1])


def _photo_size(model: "ov.Model") -> Size:
    """The size of photos that a graph has its shapes for."""
    h, w = next(shape_of(port)[2:] for port in model.inputs if len(shape_of(port)) == 4)
    return h, w


def _with_tokens(network: Network, *sizes: Size) -> Network:
    """With the patch and the special tokens that explain how many there are at these sizes."""
    counts = [_result_shape(network, size)[1] for size in sizes]
    sides = [side for size in sizes for side in size]
    patches = range(4, min(sides) + 1)
    for patch in sorted(patches, key=lambda p: any(side % p for side in sides)):
        special = {t - (h // patch) * (w // patch) for t, (h, w) in zip(counts, sizes, strict=True)}
        if len(special) == 1 and 0 <= min(special) <= MOST_SPECIAL:
            k = special.pop()
            return replace(network, patch=patch, class_tokens=min(k, 1), register_tokens=max(k - 1, 0))
    told = " and ".join(f"{t} of {h} x {w}" for t, (h, w) in zip(counts, sizes, strict=True))
    raise InputError(
        f"{network.path.name} makes tokens, {told} pixels, that no patch size explains: "
        f"export the tokens of its last layer, with those of class and registers in front"
    )


def _with_stride(network: Network) -> Network:
    """With the pixels between two cells, where photos in multiples of 32 would not be whole cells."""
    stride = SQUARE[0] / _result_shape(network, SQUARE)[2]
    return network if network.block % stride == 0 else replace(network, patch=round(stride))


def _with_cut(network: Network) -> Network:
    """With a place to cut at the wanted stride, if there is one: the middle one of the narrowest."""
    side = SQUARE[0] // CUT_STRIDE
    widths = {
        _name(tensor): shape_of(tensor)[1]
        for tensor in necks(_for_photos(network, SQUARE))
        if tensor.get_names() and shape_of(tensor)[2:] == (side, side) and _name(tensor) != network.output
    }
    narrowest = [name for name, width in widths.items() if width == min(widths.values())]
    return replace(network, cut=narrowest[len(narrowest) // 2]) if narrowest else network


def _shapes(ports: Iterable[Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by their names."""
    return {port.get_any_name(): shape_of(port) for port in ports}


def _name(tensor: Any) -> str:
    """One name of a tensor, always the same."""
    return str(min(tensor.get_names()))


def necks(model: "ov.Model") -> list[Any]:
    """The tensors behind the image that everything passes through on its way to the result, in order."""
    operations = model.get_ordered_ops()
    inside = {op.get_name() for op in operations}
    waiting: dict[tuple[str, int], int] = {}  # tensors that were made of the image, and readers to come
    found = []
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
            found.append(op.output(next(iter(waiting))[1]))
    return found
