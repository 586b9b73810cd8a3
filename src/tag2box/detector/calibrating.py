"""How sure a network can be: by photos held out from learning, where boxes of the run say what is right.

A box is as likely right as the label that it finds first, or else not at all: nobody drew any.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tag2box.boxes import iou_matrix, nms
from tag2box.detector.adam import Epoch
from tag2box.detector.inference import regions_of
from tag2box.detector.labels import BoxLabels
from tag2box.detector.looks import view_size
from tag2box.detector.record import Convnet
from tag2box.detector.views import Views
from tag2box.runtime.blas import one_thread
from tag2box.runtime.stages import stage

Floats = NDArray[np.float32]

# The share of photos that are held out, and their greatest number.
HELD_OUT, MOST_HELD_OUT = 0.1, 200
# Boxes of each class that are judged in a photo, the overlap from which one is right, and that from which two
# of them are one.
JUDGED, RIGHT, APART = 20, 0.5, 0.3
# A curve that did not rise would turn the ranking round; this one hardly rises.
LEAST_SLOPE = 1e-3


def draw_held_out(n: int, seed: int) -> NDArray[np.bool_]:
    """Which of n photos only say how sure the network can be: a tenth, and not more than are needed."""
    chosen = np.random.default_rng(seed).permutation(n)[: min(round(n * HELD_OUT), MOST_HELD_OUT)]
    return np.asarray(np.isin(np.arange(n), chosen))


@stage("convnet", version=1)
def calibrate_network(
    epoch: Epoch,
    views: Views,
    labels: BoxLabels,
    held_out: NDArray[np.intp],
    classes: tuple[str, ...],
    side: int,
) -> Convnet:
    """The average of the weights of the last steps, and how sure it can be, by photos held out."""
    weights, n_classes = epoch.moments.average, len(classes)
    logits, label, right = [], [], []
    with one_thread():
        for i in held_out.tolist():
            maps, sizes = views.of(i, mirrored=False)
            boxes, said = regions_of(maps, sizes, weights, n_classes)
            own = labels.of(i, view_size(sizes), mirrored=False)
            confidence = labels.confidence[labels.offsets[i] : labels.offsets[i + 1]]
            for c in np.flatnonzero(own.tags != 0).tolist():
                rows = nms(boxes, said[:, c], APART)[:JUDGED]
                logits.append(said[rows, c])
                label.append(np.full(len(rows), c))
                right.append(matched(boxes[rows], own.boxes[own.label == c], confidence[own.label == c]))
    curves = fit_curves(np.concatenate(logits), np.concatenate(label), np.concatenate(right), n_classes)
    return Convnet(classes, side, weights, curves)


def matched(boxes: Floats, labels: Floats, confidence: Floats) -> Floats:
    """How likely each box is right: as much as the label that it is the first to find, or else not at all."""
    out = np.zeros(len(boxes), np.float32)
    if len(labels):
        overlap = np.asarray(iou_matrix(boxes, labels))
        for j in range(len(labels)):
            finds = np.flatnonzero(overlap[:, j] >= RIGHT)[:1]
            out[finds] = np.maximum(out[finds], confidence[j])
    return out


def fit_curves(logits: Floats, label: NDArray[np.intp], right: Floats, n_classes: int) -> NDArray[np.float64]:
    """One slope for all classes, and an offset for each that the regularization keeps near that of all."""
    X = np.zeros((len(logits), 1 + n_classes))
    X[:, 0], X[np.arange(len(logits)), 1 + label] = logits, 1
    if not right.sum() > 0:
        return np.tile([1.0, 0.0], (n_classes, 1))
    y = np.repeat([True, False], len(X))
    fitted = LogisticRegression(C=1.0, max_iter=1000).fit(
        np.tile(X, (2, 1)), y, sample_weight=np.concatenate([right, 1 - right])
    )
    slope = max(float(fitted.coef_[0, 0]), LEAST_SLOPE)
    return np.stack([np.full(n_classes, slope), fitted.intercept_[0] + fitted.coef_[0, 1:]], axis=1)
