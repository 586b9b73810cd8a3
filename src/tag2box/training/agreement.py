"""Agreement: do the boxes of a class in some photos tell where those in others are? Nobody draws a box.

The photos are halved, those that look alike on one side. The mean vector of the boxes of a class in one half,
less that of windows drawn anywhere and whitened by their covariance, looks for a box in each photo of the
other half. Boxes that were laid anywhere are not found again, but for those that are large anyway:

    agreement = (share of boxes found again - share by chance) / (1 - share by chance)

where chance is the share of pairs of photos whose boxes overlap, in shares of the photos. Over the 39 classes
of five sets its rank correlation with the share of boxes that are right is 0.75 (docs/experiments).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fclusterdata

from tag2box.boxes import iou_matrix
from tag2box.description.record import Described
from tag2box.images import draw_images
from tag2box.runtime.blas import one_thread

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Photos that are asked, at most: what bounds time and memory.
MOST_PHOTOS = 2000
# A class of fewer photos than this says nothing of how its boxes agree.
FEW = 6
# Photos in a group of those that look alike, on average.
ALIKE = 8
# Windows of a photo that the covariance is made of, and what is added to it, in mean variances.
DRAWN, RIDGE = 30, 0.1
# Boxes that overlap by this are the same.
SAME = 0.5


def agreement(described: Described, tags: NDArray[np.int8], best: Rows) -> Floats:
    """How well the boxes of a class in some photos tell where those in others are, (n_classes,), or NaN.

    best: the box of each photo for each class, among its windows.
    """
    windows, n_windows = described.windows, described.counts
    again, photos = np.zeros(tags.shape[1]), np.zeros(tags.shape[1])
    asked = draw_images(tags, MOST_PHOTOS) & (n_windows > 0)
    half = _half(described, np.flatnonzero(asked))
    present = (tags == 1) & asked[:, None]
    with one_thread():
        for learn in (asked & half, asked & ~half):
            if not present[learn].any():
                continue
            mean, covariance = _background(described, np.flatnonzero(learn))
            for c in np.flatnonzero(present[learn].any(axis=0) & present[~learn].any(axis=0)):
                own = np.flatnonzero(present[:, c] & learn)
                vectors = described.X[described.offsets[own] + best[own, c]]
                w = np.linalg.solve(covariance, vectors.astype(np.float64).mean(axis=0) - mean)
                for i in np.flatnonzero(present[:, c] & ~learn).tolist():
                    scores = described.X[described.offsets[i] : described.offsets[i + 1]] @ w
                    both = windows[i][[int(scores.argmax()), best[i, c]]]
                    again[c] += float(iou_matrix(both[:1], both[1:])[0, 0]) >= SAME
                    photos[c] += 1
    return _beyond_chance(again, photos, _chance(described, present, best))


def _half(described: Described, photos: Rows) -> NDArray[np.bool_]:
    """Half of the photos; those that look alike, as a tile at several exposures, are on one side."""
    half = np.zeros(len(described), np.bool_)
    if len(photos) < 2:
        return half
    looks = np.stack([_look(described, i) for i in photos.tolist()])
    spread = looks.std(axis=0)
    looks = (looks - looks.mean(axis=0)) / np.where(spread == 0, 1, spread)
    groups = fclusterdata(looks, max(len(looks) // ALIKE, 2), criterion="maxclust", method="ward")
    side = np.random.default_rng(0).permutation(int(groups.max()) + 1) % 2 == 0
    half[photos] = side[groups]
    return half


def _look(described: Described, i: int) -> Floats:
    """What a photo looks like as a whole: the mean of its cells, or of its windows where it has no map."""
    map_ = described.map_of(i)
    if map_ is None:
        map_ = described.X[described.offsets[i] : described.offsets[i + 1]][None]
    return np.asarray(map_.mean(axis=(0, 1), dtype=np.float64))


def _background(described: Described, photos: Rows) -> tuple[Floats, Floats]:
    """The mean and the covariance of windows that were drawn anywhere."""
    rng, d = np.random.default_rng(0), described.X.shape[1]
    n, total, squares = 0, np.zeros(d), np.zeros((d, d))
    for i in photos:
        rows = described.offsets[i] + rng.permutation(int(described.counts[i]))[:DRAWN]
        X = described.X[rows].astype(np.float64)
        n, total, squares = n + len(X), total + X.sum(axis=0), squares + X.T @ X
    mean = total / n
    covariance = squares / n - np.outer(mean, mean)
    return mean, covariance + RIDGE * max(np.trace(covariance) / len(covariance), 1e-9) * np.eye(
        len(covariance)
    )


def _chance(described: Described, present: NDArray[np.bool_], best: Rows) -> Floats:
    """The share of pairs of photos whose boxes overlap, in shares of the photos."""
    windows, out = described.windows, np.zeros(present.shape[1])
    for c in range(len(out)):
        own = np.flatnonzero(present[:, c])
        boxes = windows.xyxy[windows.offsets[own] + best[own, c]] / np.tile(windows.sizes[own], 2)
        pairs = len(own) * (len(own) - 1)
        if pairs:
            out[c] = ((iou_matrix(boxes, boxes) >= SAME).sum() - len(own)) / pairs
    return out


def _beyond_chance(again: Floats, photos: Floats, chance: Floats) -> Floats:
    told = photos >= FEW
    share = np.divide(again, photos, out=np.full_like(again, np.nan), where=told)
    return np.asarray((share - chance) / np.maximum(1 - chance, 1e-6))
