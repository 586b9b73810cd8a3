"""EfficientNet-Lite with 8-bit convolutions: what each of them reads is rounded, by weights alone.

Between QuantizeLinear and DequantizeLinear, a runtime computes in integers: OpenVINO on processors with VNNI
or AMX two to three times as fast as in f32. No photo is needed to find the ranges (Nagel et al. 2019,
"Data-free quantization through weight equalization and bias correction"):

    the image      (x - 127) / 128 of x in 0..255: exact
    behind ReLU6   0 to 6
    a block        a sum of outputs of batch normalization, each of mean β and deviation |γ| over ImageNet,
                   so of mean Σβ and variance Σγ² per channel: ±max over channels of |Σβ| + SPREAD √Σγ²
    weights        ±max of each output channel, in 8 bits
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tag2box.networks.onnx_writer import Graph

# Deviations on each side that a range holds; the rest is clipped.
SPREAD = 6.0
LEVELS = 127.0


@dataclass
class Rounded:
    """The ranges of the maps that convolutions read, and the roundings that were added for them."""

    moments: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)

    def note_sum(
        self, out: str, state: Mapping[str, NDArray[np.float32]], norm: str, before: str | None
    ) -> None:
        """Note the mean and the variance of `out`: the batch normalization `norm`, plus the map `before`."""
        mean = state[f"{norm}.bias"].astype(np.float64)
        variance = state[f"{norm}.weight"].astype(np.float64) ** 2
        if before is not None:
            mean, variance = mean + self.moments[before][0], variance + self.moments[before][1]
        self.moments[out] = mean, variance

    def inputs(self, graph: Graph, x: str, weight: NDArray[np.float32], name: str) -> list[str]:
        """The rounded inputs of a convolution of `x` with `weight`."""
        if x not in self.done:
            self.done[x] = _round_trip(graph, x, *self._steps(x))
        scale = np.maximum(np.abs(weight).max(axis=(1, 2, 3)), 1e-12) / LEVELS
        whole = np.rint(weight / scale[:, None, None, None]).astype(np.int8)
        rounded = [
            graph.constant(f"{name}.int8", whole),
            graph.constant(f"{name}.scale", scale.astype(np.float32)),
            graph.constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
        ]
        return [self.done[x], graph.add("DequantizeLinear", rounded, name, axis=0)]

    def _steps(self, x: str) -> tuple[float, NDArray[np.uint8] | NDArray[np.int8]]:
        """The step of the rounding of a map, and the integer that stands for 0."""
        if x == "image":
            return 1 / 128, np.array(127, np.uint8)
        if x in self.moments:
            mean, variance = self.moments[x]
            return float((np.abs(mean) + SPREAD * np.sqrt(variance)).max()) / LEVELS, np.array(0, np.int8)
        return 6 / 255, np.array(0, np.uint8)


def _round_trip(graph: Graph, x: str, step: float, zero: NDArray[np.uint8] | NDArray[np.int8]) -> str:
    """`x` rounded to multiples of `step`, as far as 8 bits reach."""
    parameters = [
        graph.constant(f"{x}.step", np.array(step, np.float32)),
        graph.constant(f"{x}.zero", zero),
    ]
    whole = graph.add("QuantizeLinear", [x, *parameters], f"{x}.int8")
    return graph.add("DequantizeLinear", [whole, *parameters], f"{x}.rounded")
