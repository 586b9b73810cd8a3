"""The ceiling: average precision of the same windows and features where true boxes teach, for diagnosis only.

A linear SVM per class on windows that overlap a true box by 0.6 or more, against those below 0.3 anywhere;
learned from two thirds of the photos of a run, scored on the rest. No box of it reaches a detector.
"""

import numpy as np

from benchmarks import Line, data, trained
from tag2box.boxes import iou_matrix
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.detection.suppression import detect_windows
from tag2box.evaluation.scores import evaluate
from tag2box.training.initial import InitialConfig, train_svms
from tag2box.training.scoring import score_windows
from tag2box.windows.spans import Spans

FOLDS = 3


def overlaps(images, windows):
    """(n_windows, n_classes): the overlap of each window with the nearest true object of each class."""
    out = np.zeros((len(windows.xyxy), len(images.classes)), np.float32)
    truth = images.truth
    for i, (a, z) in enumerate(windows.spans()):
        for c in np.unique(truth.label[truth.image == i]):
            boxes = truth.xyxy[(truth.image == i) & (truth.label == c)]
            out[a:z, c] = iou_matrix(windows.xyxy[a:z], boxes).max(axis=1)
    return out


def supervised(images, windows, X, overlap):
    """Mean AP on every FOLDS-th photo, learned from the others."""
    held_out = np.arange(len(images)) % FOLDS == 0
    learned = np.repeat(~held_out, windows.counts)
    positives = [np.flatnonzero(learned & (column >= 0.6)) for column in overlap.T]
    negatives = [Spans.of_rows(np.flatnonzero(learned & (column < 0.3))) for column in overlap.T]
    weights = train_svms(X, positives, negatives, InitialConfig())
    photos = np.flatnonzero(held_out)
    parts = [
        detect_windows(
            score_windows(X[windows.offsets[i] : windows.offsets[i + 1]], weights),
            windows[i],
            image=k,
            classes=images.classes,
        )
        for k, i in enumerate(photos)
    ]
    test = images.take(photos)
    return 100 * evaluate(Detections.concatenate(parts, ids=test.ids), test).mean


def run():
    run = trained()
    images = read_images(data("voc20") / "VOC2007", split="trainval").only(run.images.classes)
    images = images.take([images.ids.index(name) for name in run.images.ids])
    described = run.result("described")
    windows, X = described.windows, described.X
    crops = run.result("description").projection.A.shape[1]
    overlap = overlaps(images, windows)
    reached = np.mean([overlap[windows.rows_of([i]), c].max() >= 0.5 for i, c in _objects(images)])
    plain = supervised(images, windows, X[:, :crops], overlap)
    whole = supervised(images, windows, X, overlap)
    quality = f"{windows.counts.mean():.0f} windows a photo, {reached:.1%} of photo-class pairs reached"
    yield Line("supervised AP07 missed", 100 - whole, 100 - plain, "points", "crops without context", quality)


def _objects(images):
    return sorted(set(zip(images.truth.image.tolist(), images.truth.label.tolist(), strict=True)))
