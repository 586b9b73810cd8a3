"""Windows: selective search (Uijlings et al., "Selective search for object recognition", 2013).

Segment the image in several colour spaces and at several scales, group each segmentation bottom-up by
several similarities, and take the bounding box of every region that ever existed.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.colour import blur, convert
from tag2box.decoding import Source, read_small
from tag2box.errors import InputError
from tag2box.grouping import group
from tag2box.images import ImageSet
from tag2box.regions import describe, neighbours, pixel_bins
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.segmentation import segment, sort_edges

__all__ = ["Windows", "WindowsConfig", "find_windows", "selective_search"]

# Which of colour, texture, size and fill a similarity adds up.
CTSF, TSF, F, S = (True, True, True, True), (False, True, True, True), (False,) * 3 + (True,), (False, False, True, False)


@dataclass(frozen=True)
class _Mode:
    spaces: tuple[str, ...]
    scales: tuple[float, ...]
    similarities: tuple[tuple[bool, bool, bool, bool], ...]


MODES = {
    "single": _Mode(("hsv",), (80.0,), (CTSF,)),
    "fast": _Mode(("hsv", "lab"), (80.0, 160.0), (CTSF, TSF, F, S)),
    "quality": _Mode(("hsv", "lab", "rgb", "rgi", "hue"), (40.0, 80.0, 160.0, 240.0), (CTSF, TSF, F, S)),
}

SIDE = 420
SIGMA = 0.8
MIN_PIXELS = 50


@dataclass(frozen=True)
class WindowsConfig:
    """Settings of `selective_search`, which explains them."""

    mode: str = "fast"
    min_size: float = 12
    max_windows: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class Windows:
    """Windows of many images: those of image i are `xyxy[offsets[i] : offsets[i + 1]]`, best rank first.

    xyxy: (n, 4) float32; offsets: (n_images + 1,) int64.
    """

    xyxy: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, image: int) -> NDArray[np.float32]:
        return self.xyxy[self.offsets[image] : self.offsets[image + 1]]


def find_windows(
    images: ImageSet,
    config: WindowsConfig = WindowsConfig(),
    workers: int | None = 1,
    progress: Progress = silent,
) -> Windows:
    """Selective search in every image, in `workers` processes. The result does not depend on their number."""
    search = partial(
        selective_search,
        mode=config.mode,
        min_size=config.min_size,
        max_windows=config.max_windows,
        seed=config.seed,
    )
    search(np.zeros((8, 8, 3), np.uint8))  # compiles here, once, rather than in every worker
    found = list(map_ordered(search, images.paths, workers=workers, progress=progress, label="windows"))
    offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return Windows(np.concatenate([np.empty((0, 4), np.float32), *found]), offsets)


def selective_search(
    image: Source, mode: str = "fast", min_size: float = 12, max_windows: int = 2000, seed: int = 0
) -> NDArray[np.float32]:
    """Windows that may hold an object: (n, 4) float32 xyxy in pixels of `image`, best rank first."""
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, but it is {mode!r}")
    if max_windows < 1:
        raise InputError(f"max_windows must be at least 1, but it is {max_windows}")
    rgb, (width, height) = read_small(image, SIDE)
    boxes, position = _hierarchies(rgb, MODES[mode])
    rank = position * np.random.default_rng(seed).random(len(position))
    boxes = _distinct(boxes[np.argsort(rank, kind="stable")])
    h, w, _ = rgb.shape
    scale = np.array((width / w, height / h, width / w, height / h))
    xyxy = np.minimum(boxes * scale, (width, height, width, height)).astype(np.float32)
    large = np.minimum(xyxy[:, 2] - xyxy[:, 0], xyxy[:, 3] - xyxy[:, 1]) >= min_size
    whole = (boxes == (0, 0, w, h)).all(axis=1)
    xyxy = xyxy[large | whole]
    if len(xyxy) > max_windows:
        whole = (xyxy == (0, 0, width, height)).all(axis=1)
        first = np.argsort(~whole, kind="stable")[:max_windows]
        xyxy = xyxy[np.sort(first)]
    return xyxy


def _hierarchies(rgb, mode):
    h, w, _ = rgb.shape
    smooth = blur(rgb, SIGMA)
    boxes, position = [], []
    for space in mode.spaces:
        colours = convert(smooth, space)
        edge, first = sort_edges(colours)
        bins = pixel_bins(colours)
        for k in mode.scales:
            labels, n = segment(edge, first, h, w, k, MIN_PIXELS)
            regions = describe(labels, n, bins)
            pairs = neighbours(labels, n)
            for similarity in mode.similarities:
                group(*regions, pairs, similarity)
                boxes.append(regions[1].copy())
                position.append(np.arange(2 * n - 1, 0, -1))
    return np.concatenate(boxes), np.concatenate(position)


def _distinct(boxes):
    """Exact duplicates out, the first of each stays in its place."""
    key = boxes.astype(np.int64) @ np.array((1 << 48, 1 << 32, 1 << 16, 1))
    return boxes[np.sort(np.unique(key, return_index=True)[1])]
