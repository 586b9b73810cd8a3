"""How well features localize, before any cover: CorLoc of the best window of each positive image.

A window's degree: find its nearest window in every image, take the k = |P| / 2 nearest images;
the share of positive ones among them picks the best window of an image.
"""

import numpy as np

from tag2box.boxes import iou_matrix

BLOCK = 2048


def corloc(X, images, windows, halves=3):
    """CorLoc by degree, (halves,): means over classes, for random halves of negatives."""
    distance = nearest(X, windows.offsets)
    shares = np.zeros((halves, len(images.classes)))
    for half in range(halves):
        for c, name in enumerate(images.classes):
            positive, negatives = images.positives(name), images.negatives(name)
            chosen = np.sort(np.random.default_rng(half).permutation(negatives)[: len(negatives) // 2])
            columns = np.concatenate([positive, chosen])
            hits = [hit(distance, images, windows, i, c, columns, len(positive)) for i in positive]
            shares[half, c] = np.mean(hits)
    return shares.mean(axis=1)


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
    """Whether the best window of the image is on an object."""
    own = distance[windows.rows_of(image)][:, columns]
    degree, tie = degrees(own, n_positive)
    truth = images.truth
    true = truth.xyxy[(truth.image == image) & (truth.label == label)]
    return iou_matrix(windows[image][[np.argmax(degree + tie)]], true).max() >= 0.5


def degrees(d, n_positive):
    """Share of positives (the first columns) among the n_positive / 2 nearest; ties: the smaller distance."""
    top = np.argpartition(d, n_positive // 2 - 1, axis=1)[:, : n_positive // 2]
    total = np.take_along_axis(d, top, axis=1).sum(axis=1)
    return (top < n_positive).mean(axis=1), -1e-6 * total / total.max()
