"""`Convnet`: what the detector has learned, and the constants that its arrays and its graph share."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.runtime.packing import stored

# The long side of the second, smaller view is half of the first one's; photos are resized to whole blocks.
LEVELS, BLOCK = 2, 64
# The pixels of the first view between two cells of each level's map.
CELLS = (32, 64)
# A cell has a slot for an object of about each of these sizes, the root of its area in pixels of its view.
SIZES = (40.0, 90.0, 180.0)
# Where one size ends and the next begins.
BOUNDS = (0.0, 64.0, 128.0, np.inf)
# At each level, sizes between these are learned, in pixels of its view.
LEARNED = ((0.0, 256.0), (32.0, np.inf))
# The logarithm of a side stays within so much of its slot's.
LARGEST_SIDE = 3.0
# Proposals that get a second look, and the overlap from which two of them are one.
PROPOSALS, THINNED = 150, 0.7
# Of each level: grid x grid bins of a proposal, and of it with its surroundings, which reach so many sizes
# from its middle; a bin is the mean of SAMPLES x SAMPLES places.
GRIDS, AROUND, REACH, SAMPLES = (3, 2), (2, 2), 0.8, 2
PARTS = sum(g * g for g in GRIDS + AROUND) + 1
# What the second look learns, times this: shifts in sizes, and growth as a logarithm; and its limit.
CENTER_STEP, SIZE_STEP, LARGEST_STEP = 5.0, 3.0, 1.0
# Hidden numbers of the two looks.
DENSE, HIDDEN = 128, 512
# Boxes of less confidence are left out: there runtimes round differently.
LEAST = 1e-4


# Channels of the late blocks: in, in the middle, and out; and the size of their depthwise kernel.
BLOCKS = dict.fromkeys(range(12, 15), (192, 1152, 192, 5))
BLOCKS |= {11: (112, 672, 192, 5), 15: (192, 1152, 320, 3)}
HEAD, MAPPED = 1280, 256


def shapes(n_classes: int) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a network of so many classes, by its name."""
    out: dict[str, tuple[int, ...]] = {}
    for i, (first, middle, last, k) in BLOCKS.items():
        out |= {f"{i}.expand.W": (first, middle), f"{i}.expand.b": (middle,)}
        out |= {f"{i}.depthwise.W": (k, k, middle), f"{i}.depthwise.b": (middle,)}
        out |= {f"{i}.project.W": (middle, last), f"{i}.project.b": (last,)}
    looks = (DENSE, len(SIZES) * (n_classes + 4)), (HIDDEN, n_classes + 5)
    pairs = {"head": (320, HEAD), "mapped": (HEAD, MAPPED)}
    pairs |= {"cells.0": (9 * MAPPED, DENSE), "cells.1": looks[0]}
    pairs |= {"boxes.0": (PARTS * MAPPED, HIDDEN), "boxes.1": looks[1]}
    for name, pair in pairs.items():
        out |= {f"{name}.W": pair, f"{name}.b": pair[1:]}
    return out


@stored
@dataclass(frozen=True, eq=False)
class Convnet:
    """What has been learned: the late blocks of the network, and two looks at what they see.

    classes: their names. side: the long side at which a photo is seen. weights: W and b of each layer by its
    name. curves: (n_classes, 2), the slope and offset that make a confidence of the logit of a class's
    probability.
    """

    classes: tuple[str, ...]
    side: int
    weights: dict[str, NDArray[np.float32]]
    curves: NDArray[np.float64]

    def __post_init__(self) -> None:
        expected = shapes(len(self.classes))
        if (given := {name: w.shape for name, w in self.weights.items()}) != expected:
            wrong = sorted(name for name in {*given, *expected} if given.get(name) != expected.get(name))
            raise InputError(
                f"the weights of a network of {len(self.classes)} classes are others: {wrong[0]}"
            )
        if self.curves.shape != (len(self.classes), 2) or not 0 < self.side <= 4096:
            raise InputError(f"no network has curves {self.curves.shape} and sees {self.side} pixels")

    @cached_property
    def name(self) -> str:
        """A hash of everything, by which it is known."""
        digest = hashlib.sha256(repr((self.classes, self.side)).encode() + self.curves.tobytes())
        for name, array in self.weights.items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Convnet) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)
