"""What an ONNX file is, where no TOML says so: its input, output, size and tokens, and where to cut it.

Nothing is run. OpenVINO infers the shape of every tensor for photos of a few sizes; what everything passes
through on its way from the image to the result is a place to cut, or to end.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.errors import InputError
from tag2box.networks.network import Network
from tag2box.networks.openvino_engine import image_input, read_model, reason, result_of, shape_of

if TYPE_CHECKING:
    import openvino as ov

Size = tuple[int, int]

# ImageNet's, as torchvision, timm and DINO have them.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
# Two shapes of photos, multiples of every usual patch and stride.
WIDE, SQUARE = (224, 448), (448, 448)
# A multiple of every stride: so many cells tell it exactly.
LARGE = (13440, 13440)
# Sizes to try of a network that takes one alone and does not say which.
USUAL = (224, 518, 256, 384, 336, 448, 512, 196, 192, 128)
# No network has more class and register tokens, or fewer numbers in each: so few are corners of boxes.
MOST_SPECIAL, LEAST_WIDTH = 16, 16
# EfficientNet-Lite0 is cut at its last map of this stride, by what docs/features.md has measured.
CUT_STRIDE = 16


def understand(path: Path) -> Network:
    """The network of the ONNX file `path`, by its graph alone; mean and std are a guess, ImageNet's."""
    network = Network(path, _image_name(path), None, *_colors(path))
    if image_input(read_model(path), network).get_element_type().is_integral():  # it normalizes itself
        network = replace(network, mean=(0.0,) * 3, std=(1.0,) * 3)
    size = _accepted_size(network)
    network = replace(network, output=_best_output(network, size))
    rank = len(result_shape(network, size))
    if takes(network, WIDE) and takes(network, SQUARE):
        if rank == 3:
            return _with_tokens(network, WIDE, SQUARE)
        network = _with_stride(_with_channels_first(network))
        return replace(network, cut=possible_cut(network))
    network = replace(network, size=size)
    return _with_tokens(network, size) if rank == 3 else network


def possible_cut(network: Network) -> str | None:
    """A place to cut at the wanted stride, if there is one: the last that is not widened inside a block.

    Where photos must be multiples of other sizes, pieces of their maps must be too: there is none.
    """
    if network.patch is not None or network.size is not None or not takes(network, SQUARE):
        return None
    side = SQUARE[0] // CUT_STRIDE
    widths = {
        name: shape[1]
        for name, shape in _inside(network, SQUARE)
        if shape[2:] == (side, side) and name != network.output
    }
    narrow = [name for name, width in widths.items() if width <= 2 * min(widths.values())]
    return narrow[-1] if narrow else None


def for_photos(network: Network, size: Size) -> "ov.Model":
    """The graph from the image to the output, if that is known, with its shapes for photos of `size`."""
    import openvino as ov

    model = read_model(network.path)
    image = image_input(model, network)
    n = max(shape_of(image.output(0))[0], 1)
    if network.output is not None:
        others = [parameter.output(0).get_any_name() for parameter in model.get_parameters()]
        try:
            model = ov.Model([result_of(model, network)], [image], network.path.stem)
        except RuntimeError:
            raise InputError(
                f"{network.path.name} needs more than an image, also "
                f"{', '.join(name for name in others if name != network.input)}: export it with the image as "
                f"its only input"
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


def _inside(network: Network, size: Size) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of the maps and tokens that everything passes through, in order."""
    for tensor in necks(for_photos(network, size)):
        shape = shape_of(tensor)
        if tensor.get_names() and (_is_map(shape) or _is_tokens(shape)):
            yield str(min(tensor.get_names())), shape


def _image_name(path: Path) -> str:
    """The input that an image fits into."""
    parameters = [parameter.output(0) for parameter in read_model(path).get_parameters()]
    shapes: dict[str, tuple[int, ...]] = {port.get_any_name(): shape_of(port) for port in parameters}
    fitting = [name for name, shape in shapes.items() if len(shape) == 4 and shape[1] in (3, -1)]
    if not fitting:
        inputs = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"{path.name} has no input for an image (n, 3, height, width), but {inputs}: "
            f"export it with an image as its input"
        )
    if shapes[fitting[0]][1] != 3 and shapes[fitting[0]][3] == 3:
        raise InputError(
            f"{path.name} takes images with their channels last, (n, height, width, 3): export it with "
            f"channels first, as tf2onnx does with --inputs-as-nchw {fitting[0]}"
        )
    return fitting[0]


def _colors(path: Path) -> tuple[Any, Any]:
    """The mean and std that Hugging Face's preprocessor_config.json beside it says, or else ImageNet's."""
    try:
        told = json.loads(path.with_name("preprocessor_config.json").read_text(encoding="utf-8"))
        scale = 1 / float(told.get("rescale_factor", 1 / 255))
        values = (told["image_mean"], told["image_std"])
        mean, std = (tuple(round(scale * float(each[i]), 3) for i in range(3)) for each in values)
        return mean, std
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError):
        return MEAN, STD


def _accepted_size(network: Network) -> Size:
    """A size that the network takes, its own where it has one."""
    _, _, h, w = shape_of(image_input(read_model(network.path), network).output(0))
    refusals = []
    for size in [(h, w)] if h > 0 and w > 0 else [(side, side) for side in USUAL]:
        try:
            for_photos(network, size)
        except RuntimeError as error:
            refusals.append(reason(error))
        else:
            return size
    raise InputError(
        f"{network.path.name} says that it takes any size, but takes none of the usual ones ({refusals[0]}): "
        f"export it with the one size that it takes, or with positions that are interpolated"
    )


def _is_map(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and min(shape[2:]) > 1


def _is_tokens(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[1] > 1 and shape[2] >= LEAST_WIDTH


def _best_output(network: Network, size: Size) -> str:
    """The smallest map of the outputs, else the first tokens; without either, the last of them inside."""
    ports = for_photos(network, size).outputs
    shapes: dict[str, tuple[int, ...]] = {port.get_any_name(): shape_of(port) for port in ports}
    if maps := [name for name, shape in shapes.items() if _is_map(shape)]:
        return min(maps, key=lambda name: shapes[name][2] * shapes[name][3])
    if tokens := [name for name, shape in shapes.items() if _is_tokens(shape)]:
        return tokens[0]
    if inside := [name for name, _ in _inside(replace(network, output=next(iter(shapes))), size)]:
        return inside[-1]
    told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise InputError(
        f"{network.path.name} gives {told}, and no map (n, c, h, w) or tokens (n, tokens, c) lead "
        f"there: export one of them as output"
    )


def _with_tokens(network: Network, *sizes: Size) -> Network:
    """With the patch and the special tokens that explain how many there are at these sizes."""
    counts = [result_shape(network, size)[1] for size in sizes]
    sides = [side for size in sizes for side in size]
    for patch in sorted(range(4, min(sides) + 1), key=lambda p: any(side % p for side in sides)):
        special = {t - (h // patch) * (w // patch) for t, (h, w) in zip(counts, sizes, strict=True)}
        if len(special) == 1 and 0 <= (k := min(special)) <= MOST_SPECIAL:
            return replace(network, patch=patch, class_tokens=min(k, 1), register_tokens=max(k - 1, 0))
    told = " and ".join(f"{t} of {h} x {w}" for t, (h, w) in zip(counts, sizes, strict=True))
    raise InputError(
        f"{network.path.name} makes tokens, {told} pixels, that no patch size explains: "
        f"export the tokens of its last layer, with those of class and registers in front"
    )


def _with_channels_first(network: Network) -> Network:
    """With another output, a tensor before it, where the channels of the map come last."""
    wide, square = (result_shape(network, size) for size in (WIDE, SQUARE))
    if wide[1] == square[1]:  # as many channels, however large the photo is
        return network
    maps = [{name: shape[1] for name, shape in _inside(network, size)} for size in (WIDE, SQUARE)]
    first = [name for name, channels in maps[0].items() if maps[1].get(name) == channels]
    if not first:
        raise InputError(
            f"{network.path.name} gives its map with channels last, (n, h, w, c): export it with channels "
            f"first, as tf2onnx does with --outputs-as-nchw {network.output}"
        )
    return replace(network, output=first[-1])


def _with_stride(network: Network) -> Network:
    """With the pixels that sizes of photos are multiples of, where that is not 32: whole cells, and taken."""
    large = LARGE if takes(network, LARGE) else SQUARE
    stride = round(large[0] / result_shape(network, large)[2])
    usual = [network.block] if network.block % stride == 0 else []
    for block in (*usual, *range(stride, SQUARE[0] + 1, stride)):
        size = 3 * block, 4 * block
        if takes(network, size):
            if result_shape(network, size)[2:] == (size[0] // stride, size[1] // stride):
                return network if block == network.block else replace(network, patch=block)
            break
    raise InputError(
        f"{network.path.name} has a cell every {stride} pixels, but no whole number of them in photos of "
        f"such sizes: export it with padded convolutions"
    )
