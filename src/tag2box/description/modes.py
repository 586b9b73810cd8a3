"""Windows of one image through the network, in three ways.

`warp` is R-CNN (Girshick et al. 2014): each window is cut out of the photo, warped and run from the start.
`shared` runs the early layers once per photo, at a few sizes, and the late layers on each window's crop of
the map, as Faster R-CNN does on ResNets (Ren et al. 2015). The cut must not come late: before it, a cell sees
mostly its own surroundings. `pool` averages the last map inside of each window: fast, and possible with every
network that gives a map or tokens, but there every part of an object sees all of it. `pyramid` runs the whole
photo at several sizes and takes maxima over a grid of each window, out of the last map and the one at the
cut, at the size where the window has cells enough for the grid: its layout is kept, as in the paper's
features, at a fraction of their cost (He et al. 2014).
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.description.crops import crop_map, max_pool, pool_map
from tag2box.description.whole_photo import Seen, WholePhoto
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import Network

Boxes = NDArray[np.float32]
Pixels = NDArray[np.uint8]  # (h, w, 3)

# Windows per batch of the network, and per round of crops: what bounds the memory, whatever the image.
BATCH = 8
ROUND = 512
# A window is taken where it has so many times the crop's cells per direction, if a level is so large: from a
# larger photo a cell sees less of what is around the window. 1 is the size that `warp` would see.
FINER = 2**0.5
# The side, in pixels, that windows have in a pyramid where a size allows it: ten cells of the last map, for a
# grid of six. At the 224 of ImageNet's crops (seven cells) AP was 4 to 6 points less (docs/experiments).
SIDE = 320


def padded(boxes: Boxes, padding: float) -> Boxes:
    """`boxes` with context: each side moved out by `padding` times the width or height."""
    margin = padding * (boxes[:, 2:] - boxes[:, :2])
    return np.concatenate([boxes[:, :2] - margin, boxes[:, 2:] + margin], axis=1).astype(np.float32)


class Mode(Protocol):
    """A way to describe windows. reading_side: what photos are shrunk to.

    widths: numbers per window, of each part that is projected for itself.
    """

    @property
    def widths(self) -> tuple[int, ...]: ...  # noqa: D102

    reading_side: int

    def __call__(self, seen: Seen, boxes: Boxes) -> NDArray[np.float32]:
        """The vector of each box, in pixels of `seen.photo`: (n, sum of widths) once it is flat."""
        ...


class Pool:
    """The whole photo through the network once, its long side near `side`; averages of the map per window."""

    def __init__(self, channels: int, *, side: int, reading_side: int, padding: float, grid: int) -> None:
        self.side, self.padding, self.grid = side, padding, grid
        self.reading_side = reading_side
        self.widths = (channels * grid * grid,)

    def __call__(self, seen: Seen, boxes: Boxes) -> NDArray[np.float32]:
        """The vector of each window, (n, grid, grid, c)."""
        size = np.array(seen.photo.shape[1::-1])
        return self.pooled(seen.last(self.side), boxes, size)

    def pooled(
        self, map_: NDArray[np.floating], boxes: Boxes, size: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The same from a map that is there already; size: the photo's width and height."""
        shares = padded(boxes, self.padding) / np.tile(size, 2).astype(np.float64)
        return pool_map(np.asarray(map_, np.float32), shares, self.grid)


class Warp:
    """Every window cut out, resized to `size` x `size` or what the network takes, and run through it."""

    # Larger photos are shrunk to this long side before windows are cut out of them: a bound for memory.
    reading_side = 2048

    def __init__(
        self, network: Network, options: EngineOptions, *, size: int, padding: float, grid: int
    ) -> None:
        self.size, self.padding = network.size or (size, size), padding
        self.net = Part(network, (BATCH, *self.size), options, grid=grid)
        self.widths = (self.net.channels * grid * grid,)

    def __call__(self, seen: Seen, boxes: Boxes) -> NDArray[np.float32]:
        """The vector of each window, (n, grid, grid, c)."""
        boxes = padded(boxes, self.padding)
        rounds = [
            self.net(np.stack([self._crop(seen.photo, box) for box in boxes[i : i + ROUND]]))
            for i in range(0, len(boxes), ROUND)
        ]
        return np.concatenate(rounds)

    def _crop(self, photo: Pixels, box: Boxes) -> Pixels:
        """One window, anti-aliased; outside of the photo its border is repeated."""
        (left, top), (right, bottom) = np.floor(box[:2]).astype(int), np.ceil(box[2:]).astype(int)
        rows = np.clip(np.arange(top, bottom), 0, photo.shape[0] - 1)
        columns = np.clip(np.arange(left, right), 0, photo.shape[1] - 1)
        patch = Image.fromarray(photo[rows[:, None], columns])
        inner = (box[0] - left, box[1] - top, box[2] - left, box[3] - top)
        return np.asarray(patch.resize(self.size[::-1], Image.Resampling.BILINEAR, box=inner))


class Shared:
    """Early layers once per photo and level, late layers per window on a `crop` x `crop` piece of the map.

    `levels`: the photo's long side, in pixels, at each level. A window is taken from the level at which its
    side comes nearest to `FINER` times `crop` cells.
    """

    def __init__(
        self,
        network: Network,
        options: EngineOptions,
        *,
        crop: int,
        levels: tuple[int, ...],
        padding: float,
        grid: int,
    ) -> None:
        self.crop, self.levels, self.padding = crop, np.array(sorted(levels, reverse=True)), padding
        self.reading_side = max(levels)
        self.late = Part(network, (BATCH, crop, crop), options, start=network.cut, grid=grid)
        self.grid, self.widths = grid, (self.late.channels * grid * grid,)

    def __call__(self, seen: Seen, boxes: Boxes) -> NDArray[np.float32]:
        """The vector of each window, (n, grid, grid, c)."""
        boxes = padded(boxes, self.padding)
        h, w = seen.photo.shape[:2]
        level = nearest_level(self.levels, (h, w), boxes, FINER * self.crop * seen.net.stride)
        used = np.unique(level)
        maps = [seen.early(int(self.levels[k])) for k in used]
        # Cell i looks at [i, i + 1) stride, to a quarter of it, in spite of SAME's uneven padding: tested.
        cells_per_pixel = [np.array(m.shape[1::-1]) / (w, h) for m in maps]
        out = np.empty((len(boxes), self.grid, self.grid, self.late.channels), np.float32)
        order = np.argsort(level, kind="stable")  # batches are filled across levels: few rows are wasted
        for i in range(0, len(order), ROUND):
            rows = order[i : i + ROUND]
            crops = np.empty((len(rows), self.crop, self.crop, maps[0].shape[2]), np.float32)
            for k, map_, scale in zip(used, maps, cells_per_pixel, strict=True):
                a, z = np.searchsorted(level[rows], [k, k + 1])
                cells = (boxes[rows[a:z]].reshape(-1, 2, 2) * scale).reshape(-1, 4)
                crop_map(map_, cells.astype(np.float32), self.crop, 1, crops[a:z])
            out[rows] = self.late(crops)
        return out


class Pyramid:
    """The whole photo at several sizes; maxima over a grid of each window, of the last and the cut map.

    `levels`: the photo's long side, in pixels, at each size. A window is taken from the size at which its
    side comes nearest to `SIDE`.
    """

    def __init__(self, whole: WholePhoto, *, levels: tuple[int, ...], padding: float, grid: int) -> None:
        self.levels, self.padding, self.grid = np.array(sorted(levels, reverse=True)), padding, grid
        self.reading_side = whole.reading_side(max(levels))
        channels = (whole.channels, *([whole.early_channels] if whole.cut else []))
        self.widths = tuple(each * grid * grid for each in channels)

    def __call__(self, seen: Seen, boxes: Boxes) -> NDArray[np.float32]:
        """The vector of each window, (n, sum of widths)."""
        boxes = padded(boxes, self.padding)
        h, w = seen.photo.shape[:2]
        level = nearest_level(self.levels, (h, w), boxes, SIDE)
        sides = [int(self.levels[k]) for k in np.unique(level)]
        seen.run([], sides)
        parts = [np.empty((len(boxes), width), np.float32) for width in self.widths]
        for k, side in zip(np.unique(level), sides, strict=True):
            rows = np.flatnonzero(level == k)
            for out, map_ in zip(parts, (seen.last(side), seen.early(side)), strict=False):
                cells = boxes[rows] * np.tile(np.array(map_.shape[1::-1]) / (w, h), 2)
                pooled = np.empty((len(rows), self.grid, self.grid, map_.shape[2]), np.float32)
                max_pool(np.ascontiguousarray(map_), cells.astype(np.float32), self.grid, pooled)
                out[rows] = pooled.reshape(len(rows), -1)
        return np.concatenate(parts, axis=1)


def nearest_level(
    levels: NDArray[np.int64], size: tuple[int, int], boxes: Boxes, target: float
) -> NDArray[np.intp]:
    """The level of each box at which its side (geometric mean) is nearest to `target` pixels, by ratio.

    levels: the long sides of the photo; size: its height and width, in which the boxes are given.
    """
    sides = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    ratio = sides[:, None] * (levels / max(size)) / target  # (n, levels)
    nearest: NDArray[np.intp] = np.abs(np.log(ratio)).argmin(axis=1)
    return nearest
