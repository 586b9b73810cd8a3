"""`Sample`: the images that neighbors and cover look at, all of them or a bounded number.

To compare every window with every image takes time that grows with the square of their number, and a class
needs no more than some hundred positive images to be found. So above `CoverConfig.most_images` a sample is
drawn, the same number of positive images of each class first and then any. Within it everything is exact.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import compared
from tag2box.cover.greedy import Cover
from tag2box.features.record import Features
from tag2box.windows.record import Windows

__all__ = ["Sample", "draw_images", "draw_sample"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Some images of many: their windows, what is compared of their features, and their tags.

    images: (n,) their places among all, ascending; rows: those of their windows among all. Both are None
    where the sample is everything.
    """

    windows: Windows
    features: Features
    tags: NDArray[np.int8]
    images: Rows | None = None
    rows: Rows | None = None

    def taken(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the windows of the sample have, of what all windows have."""
        return values if self.rows is None else values[self.rows]

    def found(self, cover: Cover) -> Cover:
        """The cover of the sample, with rows and images among all."""
        if self.rows is None or self.images is None:
            return cover
        return replace(
            cover,
            selected=self.rows[cover.selected],
            covered=self.rows[cover.covered],
            image=self.images[cover.image].astype(np.int32),
        )


def draw_sample(windows: Windows, features: Features, tags: NDArray[np.int8], config: CoverConfig) -> Sample:
    """The sample of these images. Memory: what is compared of it."""
    if len(tags) <= config.most_images:
        return Sample(windows, features, tags)
    images = draw_images(tags, config.most_images)
    rows = windows.rows_of(images)
    offsets = np.append(0, np.cumsum(windows.counts[images]))
    some = Windows(windows.xyxy[rows], offsets, windows.sizes[images])
    return Sample(some, Features(compared(features, config, rows), offsets), tags[images], images, rows)


def draw_images(tags: NDArray[np.int8], most: int) -> Rows:
    """`most` images, ascending: half of them for the classes, as many positives of each; then any others."""
    order = np.random.default_rng(0).permutation(len(tags))
    chosen = np.zeros(len(tags), np.bool_)
    quota = most // (2 * tags.shape[1])
    for column in tags.T:
        chosen[order[column[order] == 1][:quota]] = True
    others = order[~chosen[order]]
    chosen[others[: most - int(chosen.sum())]] = True
    return np.flatnonzero(chosen)
