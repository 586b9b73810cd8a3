"""Networks on onnxruntime: for what OpenVINO does not know, cards of NVIDIA, Macs, and DirectX on Windows.

The normalization and the grid are ours, outside of the graph. Vectors on the CPU have a cosine of more than
0.9999 to those of OpenVINO in f32, which the tests check; other devices compute as their makers decide.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError, install_command
from tag2box.networks.engine import EngineOptions
from tag2box.networks.network import Network, external_files

# Our names of the devices, in the order in which "auto" takes them.
PROVIDERS = {
    "CUDA": "CUDAExecutionProvider",
    "CoreML": "CoreMLExecutionProvider",
    "DirectML": "DmlExecutionProvider",
    "CPU": "CPUExecutionProvider",
}

# What an input may be made of; others are given float32.
TYPES: dict[str, type[Any]] = {
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}


class OnnxRuntime:
    """An `Engine`."""

    def __init__(
        self,
        network: Network,
        shape: tuple[int, int, int],
        options: EngineOptions,
        *,
        start: str | None = None,
        end: str | None = None,
        grid: int | None = None,  # noqa: ARG002  averages are made of what comes out
    ) -> None:
        ort = _package()
        provider = choose_provider(options.device, ort.get_available_providers())
        self.session = _session(ort, network, part_of(network, start, end), provider)
        port = self.session.get_inputs()[0]
        n, h, w = shape
        own = port.shape[0]
        self.batch: int = own if isinstance(own, int) and own > 0 else n
        self.is_image = start is None
        self.type = TYPES.get(port.type, np.float32)
        self.name, self.network = port.name, network
        # DirectML does not run one session on several threads.
        self.threads = 1 if provider == PROVIDERS["DirectML"] else options.threads
        channels = 3 if self.is_image else port.shape[1] if isinstance(port.shape[1], int) else -1
        self.input: tuple[tuple[int, ...], np.dtype[Any]]
        self.input = (self.batch, h, w, channels), np.dtype(np.uint8 if self.is_image else np.float32)
        self.output = _channels_last(self.session.get_outputs()[0].shape)

    def each(self, batches: Iterable[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Run every batch, as many at a time as there are threads; results in order."""
        if self.threads == 1:
            return [self._run(batch) for batch in batches]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self._run, batches))

    def _run(self, batch: NDArray[Any]) -> NDArray[np.float32]:
        x: NDArray[Any] = batch.astype(np.float32)
        if self.is_image:
            x = (x - np.array(self.network.mean, np.float32)) / np.array(self.network.std, np.float32)
            x = x if self.network.channels == "rgb" else x[..., ::-1]
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2), self.type)
        try:
            (result,) = self.session.run(None, {self.name: x})
        except Exception as error:  # onnxruntime's own have no common base
            raise InputError(_refusal(self.network, batch, error)) from error
        result = np.asarray(result, np.float32)
        return np.ascontiguousarray(result.transpose(0, 2, 3, 1)) if result.ndim == 4 else result


def choose_provider(device: str, available: list[str]) -> str:
    """onnxruntime's name of a device; for "auto" the first of CUDA, CoreML and DirectML that is there."""
    here = {name: provider for name, provider in PROVIDERS.items() if provider in available}
    if device == "auto":
        return next(iter(here.values()))
    if device not in here:
        raise InputError(f"no device {device!r} here: onnxruntime finds {', '.join(here)}")
    return here[device]


def _session(ort: Any, network: Network, graph: bytes, provider: str) -> Any:
    options = ort.SessionOptions()
    # One thread a stream, as with OpenVINO: results do not depend on how many there are.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # what goes wrong is told here
    options.enable_mem_pattern = provider != PROVIDERS["DirectML"]  # as its documentation asks
    providers = dict.fromkeys([provider, PROVIDERS["CPU"]])  # what a device cannot do, the CPU does
    try:
        return ort.InferenceSession(graph, options, list(providers))
    except Exception as error:  # onnxruntime's own have no common base
        raise InputError(f"onnxruntime cannot run {network.path.name}: {_line(error)}") from error


def _package() -> Any:
    try:
        import onnx  # noqa: F401  cuts the graph
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f'features.runtime = "onnxruntime" needs a package: {install_command("onnxruntime")}'
        ) from error
    return onnxruntime


def _channels_last(shape: list[Any]) -> tuple[int, ...]:
    """The shape of a result as `each` gives it, -1 for what is open."""
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    return tuple(sizes if len(sizes) != 4 else [sizes[0], *sizes[2:], sizes[1]])


def _refusal(network: Network, batch: NDArray[Any], error: Exception) -> str:
    n, h, w = batch.shape[:3]
    return (
        f"{network.path.name} does not take {n} x {h} x {w} pixels ({_line(error)}): give the size that it "
        f"takes as size in its TOML; `tag2box network check {network.path.name}` finds it"
    )


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def part_of(network: Network, start: str | None, end: str | None) -> bytes:
    """The ONNX file of the part of `network` from the tensor `start` to `end`; None is its input, its output.

    The number and the size of images are left open, unless the network takes one size alone.
    """
    import onnx

    external_files(network.path)
    try:
        model = onnx.load(network.path)
        graph = model.graph
        if any(node.op_type in ("Loop", "Scan") for node in graph.node):
            raise InputError(f"{network.path} holds a loop, which may never end: export it unrolled")
        weights = {value.name for value in graph.initializer}
        images = [value for value in graph.input if value.name not in weights]
        image = _named("input", network, network.input, images)
        if network.size is None:
            for axis, name in ((0, "n"), (2, "h"), (3, "w")):
                image.type.tensor_type.shape.dim[axis].dim_param = name
        target = end or network.output or _named("output", network, None, graph.output).name
        del graph.value_info[:]  # sizes that hold no longer
        model = onnx.shape_inference.infer_shapes(model)
        graph = model.graph
        inside = {name for node in graph.node for name in node.output}
        if target not in inside:
            names = ", ".join(value.name for value in graph.output)
            raise InputError(f"{network.path.name} has no tensor {target!r}: its outputs are {names}")
        known = {value.name for value in (*graph.value_info, *graph.output)}
        for name in {target, start or target} - known:
            kind = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4)
            graph.value_info.append(kind if name == start else onnx.ValueInfoProto(name=name))
        part = onnx.utils.Extractor(model).extract_model([start or image.name], [target])
        if start is not None:
            for axis in (0, 2, 3):
                part.graph.input[0].type.tensor_type.shape.dim[axis].Clear()
        del part.graph.value_info[:]
        return bytes(part.SerializeToString())
    except InputError:
        raise
    except Exception as error:  # of onnx, or of protobuf
        raise InputError(f"{network.path} cannot be read as ONNX: {_line(error)}") from error


def _named(what: str, network: Network, name: str | None, values: Any) -> Any:
    """The value of that name, or the only one."""
    names = [value.name for value in values]
    if name is None and len(names) == 1:
        return values[0]
    if name not in names:
        asked = f"has no {what} {name!r}" if name else f"has several {what}s"
        raise InputError(f"{network.path.name} {asked}: name one of {', '.join(names)} as {what} in its TOML")
    return values[names.index(name)]
