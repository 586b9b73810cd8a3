"""Networks on OpenVINO, the default.

Chosen by measurement: on two cores with AVX-512, EfficientNet-Lite0 at 224 px in bf16 makes 2.1 times the
windows per second of onnxruntime in fp32 (docs/features.md).
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.networks.engine import PRECISIONS, EngineOptions
from tag2box.networks.network import Network, external_files
from tag2box.networks.processor import abilities, guard_onednn

if TYPE_CHECKING:
    import openvino as ov

LOOPS = frozenset({"Loop", "TensorIterator"})


class OpenVino:
    """An `Engine`; with `grid`, a map (n, c, h, w) is averaged over its parts inside of the graph."""

    def __init__(
        self,
        network: Network,
        shape: tuple[int, int, int],
        options: EngineOptions,
        *,
        start: str | None = None,
        end: str | None = None,
        grid: int | None = None,
    ) -> None:
        import openvino as ov

        device, settings = _settings(options, _core().available_devices)
        if options.precision == "int8":
            rounded = network.rounded()
            # Overflowing sums are further from a run's 8-bit numbers than exact ones are.
            network = rounded if device != "CPU" or "int8" in abilities().precisions else network
        model = _part(network, start, end, grid)
        if network.size is not None and start is None:
            shape = _own_batch(model, shape)
        try:
            prepared = _prepared(model, network, shape, image=start is None)
            compiled = _core().compile_model(prepared, device, settings)
        except RuntimeError as error:
            raise InputError(_refusal(network, shape, error)) from error
        port = compiled.input(0)
        self.network, self.batch = network, shape[0]
        self.input = shape_of(port), np.dtype(port.element_type.to_dtype())
        self.output = shape_of(compiled.output(0))
        self.queue = ov.AsyncInferQueue(compiled, options.threads)

    def each(self, batches: Iterable[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Run every batch, as many at a time as there are threads; results in order."""
        results: list[Any] = []

        def keep(request: Any, i: int) -> None:
            results[i] = request.get_output_tensor(0).data.copy()

        self.queue.set_callback(keep)
        try:
            for i, batch in enumerate(batches):
                results.append(None)
                size = batch.shape[:3]
                self.queue.start_async({0: batch}, i)
            self.queue.wait_all()
        except RuntimeError as error:
            raise InputError(_refusal(self.network, size, error)) from error
        return results


def shape_of(port: Any) -> tuple[int, ...]:
    """The shape of a tensor, -1 where it is open."""
    shape = port.get_partial_shape()
    return tuple(shape[i].get_length() if shape[i].is_static else -1 for i in range(shape.rank.get_length()))


def reason(error: RuntimeError) -> str:
    """What OpenVINO has to say, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def _refusal(network: Network, shape: tuple[int, int, int], error: RuntimeError) -> str:
    _, h, w = shape
    what = "photos of any size" if h < 0 else f"{h} x {w} pixels"
    return (
        f"{network.path.name} does not take {what} ({reason(error)}): give the size that it takes as size in "
        f"its TOML; `tag2box network check {network.path.name}` finds it"
    )


def _own_batch(model: "ov.Model", shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """`shape` with the number of images that the graph was made for, where it is only one."""
    own = shape_of(model.input(0))[0]
    return (own, *shape[1:]) if own > 0 else shape


def _settings(options: EngineOptions, available: list[str]) -> tuple[str, dict[str, Any]]:
    """OpenVINO's device and settings."""
    device, precision = _device(options.device, available), options.precision
    settings: dict[str, Any] = {"NUM_STREAMS": options.threads}
    if device == "CPU":
        settings["INFERENCE_NUM_THREADS"] = options.threads
        # Every process would bind its first thread to the first core: workers would share that one.
        settings["ENABLE_CPU_PINNING"] = False
        if precision not in abilities().precisions:
            precision = "f32"
    # Around 8-bit convolutions f32 is faster than bf16, where both are there.
    settings["INFERENCE_PRECISION_HINT"] = "f32" if precision == "int8" else precision
    return device, settings


def offered(device: str) -> tuple[str, ...]:
    """The precisions that a device computes in, f32 first: of those that it names, those that it computes."""
    core = _core()
    name = _device(device, core.available_devices)
    words = core.get_property(name, "OPTIMIZATION_CAPABILITIES")
    able = abilities().precisions if name == "CPU" else tuple(PRECISIONS)
    return tuple(precision for precision, word in PRECISIONS.items() if word in words and precision in able)


def _device(device: str, available: list[str]) -> str:
    if device == "auto":
        device = next((name for name in available if name.startswith("GPU")), "CPU")
    if device not in available:
        raise InputError(f"no device {device!r} here: OpenVINO finds {', '.join(available)}")
    return device


@lru_cache(maxsize=1)
def _core() -> "ov.Core":
    import openvino as ov

    guard_onednn()
    return ov.Core()


def _part(network: Network, start: str | None, end: str | None, grid: int | None) -> "ov.Model":
    """The graph from the map `start` to the map `end`, a map there averaged over a grid."""
    import openvino as ov
    from openvino import opset13 as ops

    model = read_model(network.path)
    last = result_of(model, network, end)
    inputs = [image_input(model, network)]
    if start is not None:
        first = _named(model, network, start)
        inputs = [ops.parameter(first.get_partial_shape(), np.float32)]
        for target in first.get_target_inputs():
            target.replace_source_output(inputs[0].output(0))
    if grid is not None and last.get_partial_shape().rank.get_length() == 4:
        last = ops.adaptive_avg_pool(last, ops.constant(np.array([grid, grid]))).output(0)
    try:
        return ov.Model([last], inputs, network.path.stem)
    except RuntimeError as error:
        where = (
            f"cannot be cut at {start!r}" if start else f"cannot be run from {network.input or 'its input'}"
        )
        raise InputError(f"{network.path.name} {where}: another way leads around it") from error


def read_model(path: Path) -> "ov.Model":
    """The graph of an ONNX file, which keeps no weights outside of its folder and has no loops."""
    external_files(path)
    try:
        model = _core().read_model(path)
    except RuntimeError as error:
        raise InputError(f"{path} cannot be read as ONNX: {reason(error)}") from error
    for operation in model.get_ops():
        if operation.get_type_name() in LOOPS:
            raise InputError(f"{path} holds a loop, which may never end: export it unrolled")
    return model


def compiled_graph(content: bytes | Path, threads: int = 1) -> Any:
    """An ONNX graph of ours, whole, that computes in f32 on so many threads."""
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
    try:
        model = _core().read_model(content)
        return _core().compile_model(model, "CPU", settings | {"INFERENCE_PRECISION_HINT": "f32"})
    except RuntimeError as error:
        raise InputError(f"the graph cannot be read as ONNX: {reason(error)}") from error


def image_input(model: "ov.Model", network: Network) -> Any:
    """The parameter of the image."""
    names = [parameter.output(0).get_any_name() for parameter in model.get_parameters()]
    if network.input is None and len(names) == 1:
        return model.get_parameters()[0]
    if network.input not in names:
        asked = f"has no input {network.input!r}" if network.input else "has several inputs"
        raise InputError(f"{network.path.name} {asked}: name one of {', '.join(names)} as input in its TOML")
    return model.get_parameters()[names.index(network.input)]


def result_of(model: "ov.Model", network: Network, end: str | None = None) -> Any:
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
