"""How well features localise, before any cover: CorLoc of the best window of each positive image.

A window's degree: find its nearest window in every image, take the k = |P| / 2 nearest images;
the share of positive ones among them. Two scores pick the best window of an image: the degree itself, and
the contrast that the pipeline uses (leads.md): the degree, times the root of the area, times how much
stronger the evidence is inside the window than in a ring of 25 % around it.
"""

import numpy as np

from tag2box.boxes import area, iou_matrix

GRID = 64  # cells per direction of the map of evidence
BLOCK = 2048


def corloc(X, images, windows, sizes, halves=3):
    """Mean CorLoc over classes and random halves of the negatives, by (degree, contrast), and per class."""
    offsets = windows.offsets
    distance = nearest(X, offsets)
    found = np.zeros((len(images.classes), halves, 2))
    for c, name in enumerate(images.classes):
        positive, negatives = images.positives(name), images.negatives(name)
        for half in range(halves):
            rng = np.random.default_rng(half)
            negative = np.sort(rng.permutation(negatives)[: len(negatives) // 2])
            columns = np.concatenate([positive, negative])
            hits = []
            for i in positive:
                d = distance[offsets[i] : offsets[i + 1]][:, columns]
                degree, tie = degrees(d, len(positive))
                chance = len(positive) / len(columns)
                scores = degree, contrast(windows[i], degree, chance, sizes[i])
                hits.append([correct(images.truth, i, c, windows[i][np.argmax(s + tie)]) for s in scores])
            found[c, half] = np.mean(hits, axis=0)
    return found.mean(axis=(0, 1)), found.mean(axis=1)


def nearest(X, offsets):
    """Squared distance from every window to the nearest window of every image, (n, n_images), in blocks."""
    X = np.asarray(X, np.float32)
    norms = np.square(X).sum(axis=1)
    out = np.empty((len(X), len(offsets) - 1), np.float32)
    for start in range(0, len(X), BLOCK):
        d = norms - 2 * X[start : start + BLOCK] @ X.T  # less the row's own norm, which changes no order
        out[start : start + BLOCK] = np.minimum.reduceat(d, offsets[:-1], axis=1)
    return out + norms[:, None]


def degrees(d, n_positive):
    """Share of positives (the first columns) among the n_positive / 2 nearest; ties: the smaller distance."""
    top = np.argpartition(d, n_positive // 2 - 1, axis=1)[:, : n_positive // 2]
    total = np.take_along_axis(d, top, axis=1).sum(axis=1)
    return (top < n_positive).mean(axis=1), -1e-6 * total / total.max()


def contrast(boxes, degree, chance, size):
    """Degree x root of area x (evidence inside - evidence in the ring)."""
    scale = np.tile(GRID / np.array(size), 2)
    inner = np.clip(np.round(boxes * scale).astype(int), 0, GRID)
    inner[:, 2:] = np.maximum(inner[:, 2:], inner[:, :2] + 1)
    margin = 0.25 * (boxes[:, 2:] - boxes[:, :2])
    outer = np.hstack([boxes[:, :2] - margin, boxes[:, 2:] + margin]) * scale
    outer = np.clip(np.round(outer).astype(int), 0, GRID)
    outer = np.hstack([np.minimum(outer[:, :2], inner[:, :2]), np.maximum(outer[:, 2:], inner[:, 2:])])
    summed, covered = np.zeros((GRID + 1, GRID + 1)), np.zeros((GRID + 1, GRID + 1))
    for (x1, y1, x2, y2), value in zip(inner, np.maximum(degree - chance, 0) ** 3, strict=True):
        summed[y1:y2, x1:x2] += value
        covered[y1:y2, x1:x2] += 1
    evidence = summed / np.maximum(covered, 1)
    integral = np.pad(evidence.cumsum(0).cumsum(1), ((1, 0), (1, 0)))

    def total(b):
        x1, y1, x2, y2 = b.T
        return integral[y2, x2] - integral[y1, x2] - integral[y2, x1] + integral[y1, x1]

    inside, ring = area(inner), area(outer) - area(inner)
    around = np.where(ring > 0, (total(outer) - total(inner)) / np.maximum(ring, 1), 0)
    return degree * np.sqrt(area(boxes)) * (total(inner) / inside - around)


def correct(truth, image, label, box):
    true = truth.xyxy[(truth.image == image) & (truth.label == label)]
    return iou_matrix(box[None], true).max() >= 0.5
