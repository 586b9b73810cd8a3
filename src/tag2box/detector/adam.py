"""Adam: steps along the gradient (Kingma and Ba 2015), and the average of the weights over the last steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.detector.trunk import Weights
from tag2box.runtime.packing import stored

MEAN_DECAY, SQUARE_DECAY, SMALLEST = 0.9, 0.99, 1e-8
# Steps in which the rate rises from 0, so that the first gradients do no harm.
WARM_UP = 50
AVERAGED = 0.997


@stored
@dataclass(frozen=True, eq=False)
class Moments:
    """What Adam remembers of its steps: means of gradients and of their squares, and the weights' average."""

    mean: Weights
    square: Weights
    average: Weights
    steps: int = 0

    @classmethod
    def none(cls, weights: Weights) -> "Moments":
        """Those before the first step."""
        mean, square = ({name: np.zeros_like(w) for name, w in weights.items()} for _ in range(2))
        return cls(mean, square, copied(weights))


@stored
@dataclass(frozen=True, eq=False)
class Epoch:
    """A network while it learns, after whole epochs."""

    weights: Weights
    moments: Moments
    loss: float = float("nan")


class Adam:
    """Weights while they learn. rates: of the first steps, for each weight."""

    def __init__(self, weights: Weights, moments: Moments, rates: dict[str, NDArray[np.float32]]) -> None:
        self.weights, self._rates, self._step = copied(weights), rates, moments.steps
        self._mean, self._square, self._average = map(copied, (moments.mean, moments.square, moments.average))

    @property
    def moments(self) -> Moments:
        """What it remembers."""
        return Moments(self._mean, self._square, self._average, self._step)

    def learn(self, gradient: Weights, done: float) -> None:
        """One step. done: the share of all steps that is behind: the rate falls to 0 along a cosine."""
        self._step += 1
        share = 0.5 * (1 + np.cos(np.pi * done)) * min(1, self._step / WARM_UP)
        rise = np.float32(1 - MEAN_DECAY**self._step), np.float32(1 - SQUARE_DECAY**self._step)
        kept = np.float32(min(AVERAGED, self._step / (10 + self._step)))
        for name, slope in gradient.items():
            w, mean, square = self.weights[name], self._mean[name], self._square[name]
            mean += np.float32(1 - MEAN_DECAY) * (slope - mean)
            square += np.float32(1 - SQUARE_DECAY) * (slope * slope - square)
            root = np.sqrt(square / rise[1]) + np.float32(SMALLEST)
            w -= np.float32(share) * self._rates[name] * (mean / rise[0] / root)
            self._average[name] += (1 - kept) * (w - self._average[name])


def copied(weights: Weights) -> Weights:
    """The same weights in memory of their own, where they may change."""
    return {name: np.array(w) for name, w in weights.items()}
