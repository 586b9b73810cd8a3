"""What runs a network: its settings, and what an engine offers. OpenVINO is one, onnxruntime another."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

RUNTIMES = ("openvino", "onnxruntime")
# Each with OpenVINO's word for a device that computes in it.
PRECISIONS = {"f32": "FP32", "bf16": "BF16", "f16": "FP16", "int8": "INT8"}


@dataclass(frozen=True)
class EngineOptions:
    """precision: one of `PRECISIONS`; what a device does not offer is computed in f32, or emulated; int8 is
    for networks that have an 8-bit form (`Network.int8`).

    threads: how many to use, one batch on each. device: "auto" is a GPU where the runtime offers one; there,
    its driver decides whether results repeat. runtime: one of `RUNTIMES`.
    """

    precision: str = "f32"
    threads: int = 1
    device: str = "auto"
    runtime: str = "openvino"


class Engine(Protocol):
    """A compiled part of a network. Images come as (n, h, w, 3) uint8, maps as (n, h, w, c) float32.

    batch: the rows of a batch. input: shape and type of one; -1 where a size was left open. output: the shape
    of the result, -1 where it is open: a map (n, h, w, c), tokens (n, tokens, c), or vectors (n, c).
    """

    batch: int
    input: tuple[tuple[int, ...], np.dtype[Any]]
    output: tuple[int, ...]

    def each(self, batches: Iterable[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Run every batch, as many at a time as there are threads; results in order."""
        ...
