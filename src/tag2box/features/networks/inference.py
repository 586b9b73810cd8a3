"""Run a network, whole or cut in two, with OpenVINO.

Chosen by measurement: on two cores with AVX-512, EfficientNet-Lite0 at 224 px in bf16 makes 2.1 times the
windows per second of onnxruntime in fp32 (docs/features.md). Every stream runs on one thread and every batch
has the same shape, so that a window's numbers depend neither on its batch nor on the number of streams.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.features.backbone import Network
from tag2box.features.networks.processor import guard_onednn
from tag2box.runtime.checks import check_choice

if TYPE_CHECKING:
    import openvino as ov

__all__ = ["PRECISIONS", "How", "Part", "offered"]

# Each with OpenVINO's word for a device that computes in it.
PRECISIONS = {"f32": "FP32", "bf16": "BF16", "f16": "FP16"}


@dataclass(frozen=True)
class How:
    """precision: one of `PRECISIONS`; what a device does not offer is computed in f32, or emulated.

    streams: threads to use, one for each. device: "auto" is a GPU where OpenVINO offers one; there, its
    driver decides whether results repeat.
    """

    precision: str = "f32"
    streams: int = 1
    device: str = "auto"


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
        how: How,
        *,
        start: str | None = None,
        end: str | None = None,
        grid: int | None = None,
    ) -> None:
        import openvino as ov

        model = _prepared(_part(network, start, end, grid), network, shape, image=start is None)
        device, settings = _settings(how, _core().available_devices)
        self.compiled = _core().compile_model(model, device, settings)
        self.batch = shape[0]
        shape_out = self.compiled.output(0).get_partial_shape()
        self.gives_map: bool = shape_out.rank.get_length() == 4
        self.channels: int = shape_out[-1].get_length() if shape_out[-1].is_static else -1
        self.queue = ov.AsyncInferQueue(self.compiled, how.streams)

    @property
    def input(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of a batch, where no size was left open."""
        port = self.compiled.input(0)
        return tuple(port.shape), np.dtype(port.element_type.to_dtype())

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Run any number of images or maps, in batches of the compiled size; the last one is filled up."""
        batches = [_filled(x[i : i + self.batch], self.batch) for i in range(0, len(x), self.batch)]
        return np.concatenate(self.each(batches))[: len(x)]

    def each(self, batches: Iterable[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Run every batch, as many at a time as there are streams; results in order.

        A batch may be made while the one before it runs: `batches` is read as streams become free.
        """
        results: list[Any] = []

        def keep(request: Any, i: int) -> None:
            results[i] = request.get_output_tensor(0).data.copy()

        self.queue.set_callback(keep)
        for i, batch in enumerate(batches):
            results.append(None)
            self.queue.start_async({0: batch}, i)
        self.queue.wait_all()
        return results


def _settings(how: How, available: list[str]) -> tuple[str, dict[str, Any]]:
    """OpenVINO's device and settings."""
    device = _device(how.device, available)
    settings: dict[str, Any] = {"NUM_STREAMS": how.streams}
    if device == "CPU":
        settings["INFERENCE_NUM_THREADS"] = how.streams
        # Every process would bind its first thread to the first core: workers would share that one.
        settings["ENABLE_CPU_PINNING"] = False
    check_choice("precision", how.precision, PRECISIONS)
    settings["INFERENCE_PRECISION_HINT"] = how.precision
    return device, settings


def offered(device: str) -> tuple[str, ...]:
    """The precisions that a device can compute in, f32 first."""
    core = _core()
    words = core.get_property(_device(device, core.available_devices), "OPTIMIZATION_CAPABILITIES")
    return tuple(precision for precision, word in PRECISIONS.items() if word in words)


def _device(device: str, available: list[str]) -> str:
    if device == "auto":
        device = next((name for name in available if name.startswith("GPU")), "CPU")
    if device not in available:
        raise InputError(f"no device {device!r} here: OpenVINO finds {', '.join(available)}")
    return device


def _filled(x: NDArray[Any], n: int) -> NDArray[Any]:
    """`x` with zeros behind it up to `n` rows."""
    if len(x) == n:
        return np.ascontiguousarray(x)
    return np.concatenate([x, np.zeros((n - len(x), *x.shape[1:]), x.dtype)])


@lru_cache(maxsize=1)
def _core() -> "ov.Core":
    import openvino as ov

    guard_onednn()
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
    if network.output is not None:
        return _named(model, network, network.output)
    if len(model.outputs) > 1:
        names = ", ".join(output.get_any_name() for output in model.outputs)
        raise InputError(f"{network.path.name} has several outputs: name one of {names} in its TOML")
    return model.get_results()[0].input_value(0)


def _named(model: "ov.Model", network: Network, name: str) -> Any:
    """The tensor `name`, an output of the network or anything on the way there."""
    for node in model.get_ordered_ops():
        for output in node.outputs():
            if name in output.get_names():
                return output
    names = ", ".join(output.get_any_name() for output in model.outputs)
    raise InputError(
        f"{network.path.name} has no tensor {name!r}: its outputs are {names}; Netron shows the names inside"
    )


def _prepared(model: "ov.Model", network: Network, shape: tuple[int, int, int], *, image: bool) -> "ov.Model":
    """Channels last at both ends; for images, uint8 in and the normalization inside."""
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
        order = 1 if network.channels == "rgb" else -1
        mean, std = (list(values)[::order] for values in (network.mean, network.std))
        steps.input(0).preprocess().convert_element_type(ov.Type.f32).mean(mean).scale(std)
    if model.output(0).get_partial_shape().rank.get_length() == 4:
        steps.output(0).model().set_layout(ov.Layout("NCHW"))
        steps.output(0).tensor().set_layout(ov.Layout("NHWC"))
    steps.output(0).tensor().set_element_type(ov.Type.f32)
    return steps.build()
