"""`Known`: what training starts from: photos described, and their tags."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.description.description import Description
from tag2box.description.record import Described
from tag2box.training.object_maps import Objectness

# Photos in a part, at least; and parts, at most. So no bit depends on the number of workers.
SMALL, PARTS = 32, 256


@dataclass(frozen=True)
class Known:
    """Photos described, and their tags (n_photos, n_classes): 1, -1, or 0 for those that nobody knows.

    objectness: of the windows for every class, where a method measures it; description: how photos are
    described.
    """

    described: Described
    tags: NDArray[np.int8]
    objectness: Objectness | None = None
    description: Description | None = None

    def __len__(self) -> int:
        return len(self.tags)

    def part(self, a: int, z: int) -> "Known":
        """The photos a to z."""
        objectness = self.objectness.part(a, z) if self.objectness else None
        return Known(self.described.part(a, z), self.tags[a:z], objectness, self.description)

    def parts(self) -> Iterator[tuple[int, "Known"]]:
        """All photos, part by part, each with the row of its first window; arrays that are mapped stay so."""
        size = max(SMALL, -(-len(self) // PARTS))
        for a in range(0, len(self), size):
            yield int(self.described.offsets[a]), self.part(a, min(a + size, len(self)))
