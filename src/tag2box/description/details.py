"""`Details`: what the fine cells of a photo speak for, and windows where they stand out. Beyond the paper.

Selective search has no window for a pore of a dozen pixels: its regions start larger. But `Details` know the
cells that speak for a class. Boxes around the regions of these that exceed a level, for levels from a
twentieth to nine tenths of the way from the mean of the photo to its greatest cell, are windows too: the best
of a class by what is above the photo's mean,

    sqrt(area) x (mean inside - mean in a ring around)

as objectness is measured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tag2box.boxes import thin
from tag2box.description.record import Maps
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored

Floats = NDArray[np.float32]

LEVELS = np.array([0.05, *np.arange(1, 10) / 10])
# Cells are read between their centers, so many times as fine: a box then ends within a cell.
FINER = 2
# Windows of a class, at most, and the overlap at which the better one stands for both.
MOST, SAME = 30, 0.8
# How far the surroundings of a box reach beyond each of its sides, as a share of its size.
RING = 0.25


@stored
@dataclass(frozen=True)
class Details:
    """What a cell of the map at the cut speaks for: W x, of each class, where objects are small.

    W: (n_classes, c); zeros for a class whose objects are not that small.
    """

    W: NDArray[np.float32]

    def __call__(self, early: NDArray[np.floating]) -> Maps:
        """The scores of the cells of a photo's map at the cut, (h, w, c), as a map with a number a class."""
        with one_thread():  # products of one photo are small
            return Maps.of_image((np.asarray(early, np.float32) @ self.W.T).astype(np.float16))


def detail_windows(scores: NDArray[np.floating], size: NDArray[np.int64]) -> Floats:
    """Boxes where the scores (h, w, n_classes) of a photo's cells stand out; size: its width and height."""
    boxes = [np.empty((0, 4))]
    for c in np.flatnonzero(scores.any(axis=(0, 1))):
        cells = ndimage.zoom(
            np.asarray(scores[..., c], np.float32), FINER, order=1, mode="nearest", grid_mode=True
        )
        boxes.append(_of_class(cells - cells.mean()) * np.tile(size / cells.shape[::-1], 2))
    return np.concatenate(boxes).astype(np.float32)


def _of_class(above: Floats) -> NDArray[np.float64]:
    """The best boxes of one class, in cells; above: what each is above the mean of the photo."""
    spans = [
        (columns.start, rows.start, columns.stop, rows.stop)
        for level in LEVELS * above.max()
        for rows, columns in ndimage.find_objects(ndimage.label(above > level)[0])
    ]
    if not spans:
        return np.empty((0, 4))
    cells = np.unique(np.array(spans), axis=0)
    total = np.pad(np.maximum(above, 0).astype(np.float64), ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    inside, area = _sum(total, cells), _area(cells)
    margin = np.ceil(RING * (cells[:, 2:] - cells[:, :2])).astype(cells.dtype)
    wider = np.concatenate([cells[:, :2] - margin, cells[:, 2:] + margin], axis=1)
    # What lies outside of the photo counts as 0.
    around = _sum(total, np.clip(wider, 0, np.tile(above.shape[::-1], 2))) - inside
    stands_out = np.sqrt(area) * (inside / area - around / (_area(wider) - area))
    best = cells[np.argsort(-stands_out, kind="stable")]
    # A cell that exceeds a level does so from about half way to its neighbor on.
    inner = best + np.array([0.25, 0.25, -0.25, -0.25])
    return np.asarray(inner[thin(inner, SAME)[:MOST]])


def _sum(total: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum over each box of cells; total: the sums from the corner of the photo on."""
    left, top, right, bottom = cells.T
    return np.asarray(total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left])


def _area(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.prod(cells[:, 2:] - cells[:, :2], axis=1))
