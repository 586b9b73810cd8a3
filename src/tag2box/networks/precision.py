"""The precision that a network is fastest in on this machine: measured, not read off a flag.

A processor that offers bf16 may be slower in it than in f32, by up to four times where it is emulated
(docs/features.md). The measurement takes a fraction of a second and is kept in the cache folder.
"""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.networks.inference import Part
from tag2box.networks.openvino_engine import offered
from tag2box.networks.processor import measured_once

ROUNDS = 5
# A lower precision must be faster than f32 by this much: else two measurements might choose differently.
GAIN = 0.9
# The least cosine of vectors in 8 bits to those in f32.
FAITHFUL = 0.98


@dataclass(frozen=True)
class Speeds:
    """The fastest precision, and the milliseconds a window takes in each that was measured."""

    precision: str
    ms: Mapping[str, float]

    def __str__(self) -> str:
        if len(self.ms) < 2:
            return f"{self.precision}, the only one here"
        figures = ", ".join(f"{precision} {ms:.2g}" for precision, ms in self.ms.items())
        return f"{self.precision}, the fastest here (ms a window: {figures})"


def fastest(
    make: Callable[[str], Part], device: str, content: Sequence[object], without: Container[str] = ()
) -> Speeds:
    """The precision in which the network that `make(precision)` compiles is fastest on `device`.

    content: what tells this network from others. The answer is kept for it, this processor and this version
    of OpenVINO. without: precisions that the network does not have.
    """
    candidates = tuple(precision for precision in offered(device) if precision not in without)
    if len(candidates) == 1:
        return Speeds(candidates[0], {})

    def measure() -> dict[str, Any]:
        parts = {precision: make(precision) for precision in candidates}
        if "int8" in parts and not _is_faithful(parts["int8"], parts["f32"]):
            del parts["int8"]
        return asdict(_choose(_measure(parts)))

    return Speeds(**(measured_once("precision", [device, candidates, *content], measure) or measure()))


def _is_faithful(rounded: Part, exact: Part) -> bool:
    """Whether a network in 8 bits still gives the same vectors: some processors saturate on the way."""
    x = _batch(exact)
    one, two = (part(x).reshape(len(x), -1).astype(np.float64) for part in (rounded, exact))
    cosine = (one * two).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1))
    return bool(cosine.min() > FAITHFUL)


def _measure(parts: Mapping[str, Part]) -> dict[str, float]:
    """Milliseconds of one batch row in each precision: the best of several rounds, taken in turns."""
    best = dict.fromkeys(parts, np.inf)
    batches = {name: _batch(part) for name, part in parts.items()}
    for _ in range(ROUNDS):
        for name, part in parts.items():
            start = time.perf_counter()
            part(batches[name])
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: float(1000 * best[name] / part.batch) for name, part in parts.items()}


def _batch(part: Part) -> NDArray[Any]:
    """Numbers as a network sees them: pixels, or activations between 0 and 6."""
    rng = np.random.default_rng(0)
    shape, kind = part.input
    return rng.integers(0, 256, shape, kind) if kind == np.uint8 else 6 * rng.random(shape, kind)


def _choose(ms: Mapping[str, float]) -> Speeds:
    quickest = min(ms, key=lambda name: ms[name])
    clear = "f32" not in ms or ms[quickest] < GAIN * ms["f32"]
    return Speeds(quickest if clear else "f32", ms)
