"""`Adam`: layers learned by steps along the gradient (Kingma and Ba 2015), with decay of the weights."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tag2box.student.record import Layers

Floats = NDArray[np.float32]

MEAN_DECAY, SQUARE_DECAY, SMALLEST = 0.9, 0.99, 1e-8
WEIGHT_DECAY = 1e-4
# Steps in which the rate rises from 0, so that the first gradients do no harm.
WARM_UP = 50


class Adam:
    """A perceptron with ReLU between its layers, while it learns.

    sizes: of its input, hidden layers and output. rate: of the first steps; it falls to 0 along a cosine by
    the last of `n_steps`.
    """

    def __init__(self, sizes: tuple[int, ...], rate: float, n_steps: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._weights: list[Floats] = []
        for a, b in pairwise(sizes):
            self._weights += [(rng.standard_normal((a, b)) * np.sqrt(2 / a)).astype(np.float32)]
            self._weights += [np.zeros(b, np.float32)]
        self._weights[-2] *= np.float32(0.1)  # nothing is said yet
        self._mean = [np.zeros_like(w) for w in self._weights]
        self._square = [np.zeros_like(w) for w in self._weights]
        self._rate, self._n_steps, self._step = rate, n_steps, 0
        self._inputs: list[Floats] = []

    @property
    def layers(self) -> Layers:
        """W, b of each layer."""
        return tuple(self._weights)

    def __call__(self, x: Floats) -> Floats:
        """What it makes of rows x, kept in mind for `learn`."""
        self._inputs = []
        for i in range(0, len(self._weights), 2):
            self._inputs.append(x)
            x = x @ self._weights[i] + self._weights[i + 1]
            x = np.maximum(x, 0) if i + 2 < len(self._weights) else x
        return x

    def learn(self, gradient: Floats) -> None:
        """One step, from the gradient of the loss by what the last call returned."""
        gradients: list[Floats] = []
        for i in range(len(self._weights) - 2, -1, -2):
            x = self._inputs[i // 2]
            gradients = [x.T @ gradient, gradient.sum(axis=0), *gradients]
            if i:
                gradient = (gradient @ self._weights[i].T) * (x > 0)
        self._step += 1
        rate = np.float32(self._rate * self._share())
        for i, slope in enumerate(gradients):
            self._mean[i] += np.float32(1 - MEAN_DECAY) * (slope - self._mean[i])
            self._square[i] += np.float32(1 - SQUARE_DECAY) * (slope * slope - self._square[i])
            mean = self._mean[i] / np.float32(1 - MEAN_DECAY**self._step)
            root = np.sqrt(self._square[i] / np.float32(1 - SQUARE_DECAY**self._step))
            decay = np.float32(WEIGHT_DECAY if slope.ndim == 2 else 0) * self._weights[i]
            self._weights[i] -= rate * (mean / (root + np.float32(SMALLEST)) + decay)

    def _share(self) -> float:
        """The share of the rate that is left at this step."""
        fall = 0.5 * (1 + np.cos(np.pi * (self._step - 1) / self._n_steps))
        return float(fall * min(1, self._step / WARM_UP))
