"""What an ONNX file is, where no TOML says so: its input, output, size and tokens, and where to cut it.

Nothing is run. OpenVINO infers the shape of every tensor for photos of a few sizes; what everything passes
through on its way from the image to the result is a place to cut, or to end.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tag2box.errors import InputError
from tag2box.networks.network import Network
from tag2box.networks.openvino_engine import image_input, read_model, reason, shape_of
from tag2box.networks.shapes import (
    Size,
    for_photos,
    input_shapes,
    name_of,
    necks,
    result_shape,
    shapes_of,
    takes,
)

if TYPE_CHECKING:
    import openvino as ov

__all__ = ["MEAN", "STD", "possible_cut", "understand"]

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
    network = _colors_of_preprocessor(Network(path, _image_name(path), None, MEAN, STD))
    if _takes_pixels(network):
        network = replace(network, mean=(0.0,) * 3, std=(1.0,) * 3)
    size, model = _accepted_size(network)
    network = replace(network, output=_best_output(network, model))
    rank = len(result_shape(network, size))
    if takes(network, WIDE) and takes(network, SQUARE):
        if rank == 3:
            return _with_tokens(network, WIDE, SQUARE)
        network = _with_stride(_with_channels_first(network))
        return replace(network, cut=possible_cut(network))
    network = replace(network, size=size)
    return _with_tokens(network, size) if rank == 3 else network


def _image_name(path: Path) -> str:
    """The input that an image fits into."""
    ports = input_shapes(path)
    fitting = [name for name, shape in ports.items() if len(shape) == 4 and shape[1] in (3, -1)]
    if fitting and ports[fitting[0]][1] != 3 and ports[fitting[0]][3] == 3:
        raise InputError(
            f"{path.name} takes images with their channels last, (n, height, width, 3): export it with "
            f"channels first, as tf2onnx does with --inputs-as-nchw {fitting[0]}"
        )
    if not fitting:
        inputs = ", ".join(f"{name} {shape}" for name, shape in ports.items())
        raise InputError(
            f"{path.name} has no input for an image (n, 3, height, width), but {inputs}: "
            f"export it with an image as its input"
        )
    return fitting[0]


def _takes_pixels(network: Network) -> bool:
    """Whether its input is of whole numbers: it does the normalization itself."""
    return bool(image_input(read_model(network.path), network).get_element_type().is_integral())


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


def _accepted_size(network: Network) -> tuple[Size, "ov.Model"]:
    """A size that the network takes, its own where it has one, and its graph for such photos."""
    model = read_model(network.path)
    _, _, h, w = shape_of(image_input(model, network).output(0))
    refusals = []
    for size in [(h, w)] if h > 0 and w > 0 else [(side, side) for side in USUAL]:
        try:
            return size, for_photos(network, size)
        except RuntimeError as error:
            refusals.append(reason(error))
    raise InputError(
        f"{network.path.name} says that it takes any size, but takes none of the usual ones ({refusals[0]}): "
        f"export it with the one size that it takes, or with positions that are interpolated"
    )


def _is_map(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and min(shape[2:]) > 1


def _is_tokens(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[1] > 1 and shape[2] >= LEAST_WIDTH


def _best_output(network: Network, model: "ov.Model") -> str:
    """The smallest map of the outputs, else the first tokens; without either, the last of them inside."""
    shapes = shapes_of(model.outputs)
    maps = [name for name, shape in shapes.items() if _is_map(shape)]
    if maps:
        return min(maps, key=lambda name: shapes[name][2] * shapes[name][3])
    if tokens := [name for name, shape in shapes.items() if _is_tokens(shape)]:
        return tokens[0]
    inside = [
        tensor
        for tensor in necks(for_photos(replace(network, output=next(iter(shapes))), _photo_size(model)))
        if tensor.get_names() and (_is_map(shape_of(tensor)) or _is_tokens(shape_of(tensor)))
    ]
    if not inside:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"{network.path.name} gives {told}, and no map (n, c, h, w) or tokens (n, tokens, c) lead "
            f"there: export one of them as output"
        )
    return name_of(inside[-1])


def _photo_size(model: "ov.Model") -> Size:
    """The size of photos that a graph has its shapes for."""
    h, w = next(shape_of(port)[2:] for port in model.inputs if len(shape_of(port)) == 4)
    return h, w


def _with_tokens(network: Network, *sizes: Size) -> Network:
    """With the patch and the special tokens that explain how many there are at these sizes."""
    counts = [result_shape(network, size)[1] for size in sizes]
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


def _with_channels_first(network: Network) -> Network:
    """With another output, a tensor before it, where the channels of the map come last."""
    wide, square = (result_shape(network, size) for size in (WIDE, SQUARE))
    if wide[1] == square[1]:  # as many channels, however large the photo is
        return network
    inside = [_maps_inside(network, size) for size in (WIDE, SQUARE)]
    first = [name for name, channels in inside[0].items() if inside[1].get(name) == channels]
    if not first:
        raise InputError(
            f"{network.path.name} gives its map with channels last, (n, h, w, c): export it with channels "
            f"first, as tf2onnx does with --outputs-as-nchw {network.output}"
        )
    return replace(network, output=first[-1])


def _maps_inside(network: Network, size: Size) -> dict[str, int]:
    """The maps that everything passes through, as if with channels first: name and number of channels."""
    return {
        name_of(tensor): shape_of(tensor)[1]
        for tensor in necks(for_photos(network, size))
        if tensor.get_names() and _is_map(shape_of(tensor))
    }


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


def possible_cut(network: Network) -> str | None:
    """A place to cut at the wanted stride, if there is one: the last that is not widened inside a block.

    Where photos must be multiples of other sizes, pieces of their maps must be too: there is none.
    """
    if network.patch is not None or network.size is not None or not takes(network, SQUARE):
        return None
    side = SQUARE[0] // CUT_STRIDE
    widths = {
        name_of(tensor): shape_of(tensor)[1]
        for tensor in necks(for_photos(network, SQUARE))
        if tensor.get_names() and shape_of(tensor)[2:] == (side, side) and name_of(tensor) != network.output
    }
    narrow = [name for name, width in widths.items() if width <= 2 * min(widths.values())]
    return narrow[-1] if narrow else None
