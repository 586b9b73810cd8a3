"""The network: an ONNX file, how its input is prepared, and how it runs, whole or cut in two.

Names: `efficientnet-lite0` (the default, weights from a pip package), `-lite1`, `-lite2`, or the path of any
ONNX file with a TOML of the same name beside it:

    input = "image"                  # may be left out where there is one
    output = "map"                   # (n, c, h, w), or (n, c) where the network pools by itself
    mean = [123.7, 116.3, 103.5]     # of the red, green and blue of 0..255
    std = [58.4, 57.1, 57.4]
    channels = "rgb"                 # or "bgr"
    cut = "layer2"                   # the map at which `shared` cuts: nothing may lead around it
    shift = 0.0                      # see `Network.shift`

OpenVINO runs it: on two cores of an AVX-512 machine, EfficientNet-Lite0 at 224 px in bf16 makes 2.1 times
the windows per second of onnxruntime in fp32 (docs/features.md). Every stream runs on one thread and
every batch has the same shape, so a window's numbers do not depend on its batch nor on the streams.
"""

import os
import tempfile
import tomllib
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.networks import efficientnet

if TYPE_CHECKING:
    import openvino as ov

__all__ = ["PRECISIONS", "Network", "Part", "load_network"]

PRECISIONS = ("auto", "f32", "bf16", "f16")
# Raised when the graphs that `networks` writes change: it names the cached files.
GRAPH_VERSION = 1


@dataclass(frozen=True)
class Network:
    """An ONNX file with what is needed to feed it.

    shift: by how many pixels the centre of cell i of the map at `cut` lies beyond (i + 1/2) stride. A chain of
    convolutions with padding SAME at even sizes has (stride - 1) / 2; with torch's symmetric padding it is
    the negative of that; patches have 0.
    """

    path: Path
    input: str | None = None
    output: str | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    channels: str = "rgb"
    cut: str | None = None
    shift: float = 0.0


def load_network(name: str | Path) -> Network:
    """The network of that name, or of that ONNX file; built-in ones are written to the cache once."""
    if str(name) in efficientnet.VARIANTS:
        path = _cached(str(name))
        return Network(path, "image", "map", (127.0,) * 3, (128.0,) * 3, "rgb", _CUTS[str(name)], 3.5)
    path = Path(name)
    if path.suffix != ".onnx":
        raise InputError(f"no network {name!s}: give {', '.join(efficientnet.VARIANTS)} or an .onnx file")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return _described(path, path.with_suffix(".toml"))


# The last map of stride 8: the default for `shared`, by the table in docs/features.md.
_CUTS = {"efficientnet-lite0": "block4", "efficientnet-lite1": "block6", "efficientnet-lite2": "block6"}


def _cached(name: str) -> Path:
    """The ONNX file of a built-in network, written at its first use (a temporary file, then one move)."""
    weights = efficientnet.weights_file(name)
    home = os.environ.get("TAG2BOX_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "tag2box"
    folder = Path(home).expanduser()
    path = folder / f"{name}-{efficientnet.VARIANTS[name].sha256[:8]}-v{GRAPH_VERSION}.onnx"
    if path.is_file():
        return path
    graph = efficientnet.to_onnx(name, weights)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
            part.write(graph)
        Path(part.name).replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}. Set TAG2BOX_CACHE to a folder that can be written"
        ) from error
    return path


def _described(path: Path, toml: Path) -> Network:
    """The user's own network, by the TOML beside it."""
    if not toml.is_file():
        raise InputError(f"{path.name} needs {toml.name} beside it, with at least mean and std of its input")
    try:
        given = tomllib.loads(toml.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{toml} is not TOML: {error}") from error
    known = {f.name for f in fields(Network)} - {"path"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"{toml} has the unknown key {unknown[0]!r}: known are {', '.join(sorted(known))}")
    for key in ("mean", "std"):
        value = given.get(key)
        numbers = isinstance(value, list) and all(isinstance(x, int | float) for x in value)
        if not numbers or len(given[key]) != 3:
            raise InputError(f"{toml} must give {key} as three numbers, for red, green and blue of 0..255")
        given[key] = tuple(float(x) for x in value)
    if min(given["std"]) <= 0:
        raise InputError(f"{toml} has a std that is not positive")
    if given.get("channels", "rgb") not in ("rgb", "bgr"):
        raise InputError(f'{toml}: channels must be "rgb" or "bgr", but it is {given["channels"]!r}')
    return Network(path, **given)


class Part:
    """A network, or the part of it before or behind a cut, compiled and ready to run.

    `start` and `end` name maps in the graph; None is the image, or the network's output. Images come as
    (n, h, w, 3) uint8 RGB, maps as (n, h, w, c) float32; so do results. With `grid=g` the resulting map is
    averaged over g x g parts, (n, g, g, c). `shape` is the (n, h, w) of the input: -1 leaves one open.
    """

    def __init__(
        self,
        network: Network,
        shape: tuple[int, int, int],
        *,
        start: str | None = None,
        end: str | None = None,
        grid: int | None = None,
        precision: str = "auto",
        streams: int = 1,
    ) -> None:
        import openvino as ov

        if precision not in PRECISIONS:
            raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, but it is {precision!r}")
        model = _prepared(_part(network, start, end, grid), network, shape, image=start is None)
        settings: dict[str, Any] = {"NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": streams}
        if precision != "auto":
            settings["INFERENCE_PRECISION_HINT"] = precision
        self.compiled = _core().compile_model(model, "CPU", settings)
        self.batch = shape[0]
        self.queue = ov.AsyncInferQueue(self.compiled, streams)

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Run `x`, any number of images or maps, in batches of the compiled size; the last one is filled up."""
        n = len(x)
        starts = range(0, n, self.batch)
        parts: list[Any] = [None] * len(starts)

        def keep(request: Any, i: int) -> None:
            parts[i] = request.get_output_tensor(0).data.copy()

        self.queue.set_callback(keep)
        for i, start in enumerate(starts):
            self.queue.start_async({0: _filled(x[start : start + self.batch], self.batch)}, i)
        self.queue.wait_all()
        return np.concatenate(parts)[:n]


def _filled(x: NDArray[Any], n: int) -> NDArray[Any]:
    """`x` with zeros behind it up to `n` rows."""
    if len(x) == n:
        return np.ascontiguousarray(x)
    return np.concatenate([x, np.zeros((n - len(x), *x.shape[1:]), x.dtype)])


@lru_cache(maxsize=1)
def _core() -> "ov.Core":
    import openvino as ov

    return ov.Core()


def _part(network: Network, start: str | None, end: str | None, grid: int | None) -> "ov.Model":
    """The graph from the map `start` to the map `end`, pooled over a grid."""
    import openvino as ov
    from openvino import opset13 as ops

    model = _read(network)
    last = _output(model, network, end)
    inputs = [_input(model, network)]
    if start is not None:
        first = _named(model, network, start)
        inputs = [ops.parameter(first.get_partial_shape(), np.float32)]
        for target in first.get_target_inputs():
            target.replace_source_output(inputs[0].output(0))
    if grid is not None:
        last = _pooled(last, grid, network)
    try:
        return ov.Model([last], inputs, network.path.stem)
    except RuntimeError as error:
        raise InputError(
            f"{network.path.name} cannot be cut at {start!r}: another way leads around it"
        ) from error


def _pooled(map_: Any, grid: int, network: Network) -> Any:
    from openvino import opset13 as ops

    rank = map_.get_partial_shape().rank.get_length()
    if rank == 2 and grid == 1:  # the network pools by itself
        shape = ops.constant(np.array([0, -1, 1, 1]))
        return ops.reshape(map_, shape, special_zero=True).output(0)
    if rank != 4:
        raise InputError(
            f"{network.path.name} has an output with {rank} dimensions: "
            f"a grid of {grid} needs a map (n, c, h, w)"
        )
    return ops.adaptive_avg_pool(map_, ops.constant(np.array([grid, grid]))).output(0)


def _read(network: Network) -> "ov.Model":
    try:
        return _core().read_model(network.path)
    except RuntimeError as error:
        raise InputError(f"{network.path} cannot be read as ONNX: {str(error).splitlines()[-1]}") from error


def _input(model: "ov.Model", network: Network) -> Any:
    """The parameter of the image."""
    names = [parameter.output(0).get_any_name() for parameter in model.get_parameters()]
    if network.input is None and len(names) == 1:
        return model.get_parameters()[0]
    if network.input not in names:
        asked = f"has no input {network.input!r}" if network.input else "has several inputs"
        raise InputError(f"{network.path.name} {asked}: name one of {', '.join(names)} as input in its TOML")
    return model.get_parameters()[names.index(network.input)]


def _output(model: "ov.Model", network: Network, end: str | None) -> Any:
    """The tensor to end at: a map by its name, or the output of the network."""
    if end is not None:
        return _named(model, network, end)
    names = [result.get_any_name() for result in model.outputs]
    if network.output is None and len(names) == 1:
        return model.get_results()[0].input_value(0)
    if network.output not in names:
        asked = f"has no output {network.output!r}" if network.output else "has several outputs"
        raise InputError(f"{network.path.name} {asked}: name one of {', '.join(names)} as output in its TOML")
    return model.get_results()[names.index(network.output)].input_value(0)


def _named(model: "ov.Model", network: Network, name: str) -> Any:
    for node in model.get_ordered_ops():
        for output in node.outputs():
            if name in output.get_names():
                return output
    raise InputError(f"{network.path.name} has no tensor {name!r}: open the file in Netron to see its names")


def _prepared(
    model: "ov.Model", network: Network, shape: tuple[int, int, int], *, image: bool
) -> "ov.Model":
    """Channels last at both ends; for images, uint8 in and the normalisation inside."""
    import openvino as ov
    from openvino.preprocess import ColorFormat, PrePostProcessor

    n, h, w = shape
    channels = 3 if image else model.input(0).get_partial_shape()[1].get_length()
    model.reshape(ov.PartialShape([n, channels, h, w]))
    steps = PrePostProcessor(model)
    steps.input(0).model().set_layout(ov.Layout("NCHW"))
    steps.input(0).tensor().set_layout(ov.Layout("NHWC"))
    if image:
        steps.input(0).tensor().set_element_type(ov.Type.u8).set_color_format(ColorFormat.RGB)
        if network.channels == "bgr":
            steps.input(0).preprocess().convert_color(ColorFormat.BGR)
        flip = slice(None, None, -1 if network.channels == "bgr" else 1)
        mean, std = list(network.mean[flip]), list(network.std[flip])
        steps.input(0).preprocess().convert_element_type(ov.Type.f32).mean(mean).scale(std)
    if model.output(0).get_partial_shape().rank.get_length() == 4:
        steps.output(0).model().set_layout(ov.Layout("NCHW"))
        steps.output(0).tensor().set_layout(ov.Layout("NHWC"))
    steps.output(0).tensor().set_element_type(ov.Type.f32)
    return steps.build()
