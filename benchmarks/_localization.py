"""How well features localize, before any cover: CorLoc of the best window of each positive image.

A window's degree: find its nearest window in every image, take the k = |P| / 2 nearest images;
the share of positive ones among them. Two scores pick the best window of an image: the degree itself, and
its contrast (`tag2box.cover.snapping`).
"""

import numpy as np
from tag2box.cover.snapping import contrast

from tag2box.boxes import iou_matrix

BLOCK = 2048


def corloc(X, images, windows, halves=3):
    """CorLoc by degree and by contrast, (2, halves): means over classes, for random halves of negatives."""
    distance = nearest(X, windows.offsets)
    found = np.zeros((halves, 2, len(images.classes)))
    for half in range(halves):
        for c, name in enumerate(images.classes):
            positive, negatives = images.positives(name), images.negatives(name)
            some = np.sort(np.random.default_rng(half).permutation(negatives)[: len(negatives) // 2])
            columns = np.concatenate([positive, some])
            hits = [hit(distance, images, windows, i, c, columns, len(positive)) for i in positive]
            found[half, :, c] = np.mean(hits, axis=0)
    return found.mean(axis=2).T


def nearest(X, offsets):
    """Squared distance from every window to the nearest window of every image, (n, n_images), in blocks."""
    X = np.asarray(X, np.float32)
    norms = np.square(X).sum(axis=1)
    out = np.empty((len(X), len(offsets) - 1), np.float32)
    for start in range(0, len(X), BLOCK):
        d = norms - 2 * X[start : start + BLOCK] @ X.T  # less the row's own norm, which changes no order
        out[start : start + BLOCK] = np.minimum.reduceat(d, offsets[:-1], axis=1)
    return out + norms[:, None]


def hit(distance, images, windows, image, label, columns, n_positive):
    """Whether the best window of the image, by degree and by contrast, is on an object."""
    own = distance[windows.rows_of(image)][:, columns]
    degree, tie = degrees(own, n_positive)
    boxes = windows[image]
    k = n_positive // 2
    above = (k * degree - 1) / (k - 1) - (n_positive - 1) / (len(columns) - 1)  # its own image left out
    evidence = contrast(boxes, [0, len(boxes)], above)
    truth = images.truth
    true = truth.xyxy[(truth.image == image) & (truth.label == label)]
    return [iou_matrix(boxes[[np.argmax(s + tie)]], true).max() >= 0.5 for s in (degree, evidence)]


def degrees(d, n_positive):
    """Share of positives (the first columns) among the n_positive / 2 nearest; ties: the smaller distance."""
    top = np.argpartition(d, n_positive // 2 - 1, axis=1)[:, : n_positive // 2]
    total = np.take_along_axis(d, top, axis=1).sum(axis=1)
    return (top < n_positive).mean(axis=1), -1e-6 * total / total.max()
