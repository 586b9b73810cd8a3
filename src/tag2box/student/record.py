"""`Student`: what it has learned, and the constants that its arrays and its graph share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.packing import stored

Floats = NDArray[np.float32]
Layers = tuple[Floats, ...]  # W, b of each layer, one after another; W is (inputs, outputs)

# The network that it looks through, the maps that it reads there, and the pixels between two cells.
TRUNK, EARLY, LAST, CELL = "efficientnet-lite0", "block10", "block15", 16
# A cell has a slot for an object of about each of these sizes, the root of its area in pixels.
SIZES = (60.0, 150.0, 300.0)
# Where one size ends and the next begins.
BOUNDS = (0.0, 100.0, 220.0, np.inf)
# The logarithm of a side stays within so much of its slot's.
LARGEST_SIDE = 4.0
# Proposals that get a second look, and the overlap from which two of them are one.
PROPOSALS, THINNED = 150, 0.7
# Boxes of less confidence are left out: there runtimes round differently.
LEAST = 1e-4
# The second look sees grid x grid places of a proposal, fewer of it and its surroundings, and the mean;
# surroundings reach so many sizes from the middle.
GRID, AROUND, REACH = 4, 3, 0.8
# What the second look learns, times this: shifts in sizes, and growth as a logarithm; and its limit.
CENTER_STEP, SIZE_STEP, LARGEST_STEP = 5.0, 3.0, 1.0


@stored
@dataclass(frozen=True)
class Axes:
    """A projection of a map's channels: (x - mean) @ axes."""

    mean: Floats
    axes: Floats


@stored
@dataclass(frozen=True)
class Curves:
    """From scores to confidences: curves: (n_classes, 2), the slope and offset of each class's curve.

    reliability: (n_classes,), about the share of boxes of each class that are right; None is 1.
    """

    curves: NDArray[np.float64]
    reliability: NDArray[np.float64] | None = None

    def __call__(self, scores: NDArray[np.float64], label: NDArray[np.intp]) -> NDArray[np.float64]:
        """The confidence of each score, by the curve of its class: 1 / (1 + exp(-(a s + b)))."""
        a, b = self.curves[label].T
        sure = 1 / (1 + np.exp(-np.clip(a * scores + b, -500, 500)))
        return np.asarray(sure if self.reliability is None else sure * self.reliability[label])


@stored
@dataclass(frozen=True, eq=False)
class Student:
    """A network that finds boxes in a photo's maps alone, in two looks.

    classes: their names. side: the long side at which it sees a photo. early, last: projections of the two
    maps. dense: the layers of the first look, a convolution and two more at every cell. regions: those of the
    second look at a proposal. calibration: from scores to confidences. overlap, most: of the boxes that are
    left of a class.
    """

    classes: tuple[str, ...]
    side: int
    early: Axes
    last: Axes
    dense: Layers
    regions: Layers
    calibration: Curves
    overlap: float = 0.45
    most: int = 100
