"""How good detections are: VOC AP by the devkit's rules, COCO AP through pycocotools, CorLoc.

It reads detections and true boxes and nothing else. Who matches whom is decided in `matching`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.coco_ap import coco_ap
from tag2box.evaluation.matching import IGNORED, KINDS, OVERLAP, TRUE, align, best_objects, outcomes
from tag2box.evaluation.record import CorLoc, Curve, Scores
from tag2box.images import ImageSet, Truth

__all__ = ["CorLoc", "Scores", "corloc", "evaluate"]

Ints = NDArray[np.intp]
Doubles = NDArray[np.float64]

METRICS = ("voc07", "voc10", "coco")


def evaluate(detections: Detections, truth: Truth | ImageSet, metric: str = "voc07") -> Scores:
    """Compute the average precision of detections, class by class.

    Parameters
    ----------
    detections : Detections
        The boxes found.
    truth : ImageSet or Truth
        The true boxes. With an `ImageSet`, images and classes are matched by name if the detections have
        `ids` and `classes`; with a bare `Truth`, by position. A detection in an image, or of a class, that
        the image set does not hold is an error.
    metric : {"voc07", "voc10", "coco"}, default="voc07"
        "voc07" is the mean of the best precision at recall >= 0, 0.1, ..., 1; "voc10" the area under the
        precision envelope, as in VOC since 2010; "coco" the mean over overlaps of 0.5, 0.55, ..., 0.95,
        computed by pycocotools, with difficult objects as crowds.

    Returns
    -------
    Scores
        The average precision per class, its mean, the curves and the kinds of false positives.

    Notes
    -----
    Detections of equal score count in the order given, and a detection that overlaps two objects equally
    belongs to the first (COCO has its own rules).

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> detections = t2b.Detections([0, 0], [[0, 0, 10, 10], [50, 50, 60, 60]], [0.9, 0.4], [0, 0])
    >>> truth = t2b.Truth(
    ...     np.array([0]), np.array([[0, 0, 10, 9]], np.float32), np.array([0]), np.array([False])
    ... )
    >>> scores = t2b.evaluate(detections, truth)
    >>> print(scores)
          voc07 AP  objects
    0        1.000        1
    mean     1.000
    >>> int(scores.false_positives["background"][0])
    1
    """
    if metric not in METRICS:
        raise InputError(f"no metric {metric!r}: there are {', '.join(METRICS)}")
    detections, objects, classes = align(detections, truth)
    outcome = outcomes(detections, objects)
    n_classes = len(classes)
    n_truth = np.bincount(objects.label[~objects.difficult], minlength=n_classes)
    curves = tuple(_curves(detections, outcome, n_truth))
    summary = None
    if metric == "coco":
        ap, summary = coco_ap(detections, objects, n_classes)
    else:
        ap = np.array([(_ap07 if metric == "voc07" else _ap10)(curve) for curve in curves], dtype=np.float64)
    return Scores(
        metric=metric,
        classes=classes,
        ap=ap,
        n_truth=n_truth,
        n_detections=np.bincount(detections.label, minlength=n_classes),
        curves=curves,
        false_positives={
            kind: np.bincount(detections.label[outcome == code], minlength=n_classes)
            for code, kind in KINDS.items()
        },
        coco=summary,
    )


def corloc(detections: Detections, truth: Truth | ImageSet, overlap: float = OVERLAP) -> CorLoc:
    """Compute the share of positive images whose best box is right.

    A box is right if it overlaps any object of its class, even a difficult one, by half or more.

    Parameters
    ----------
    detections : Detections
        The boxes found. The best one of each image and class counts; of equal scores, the first.
    truth : ImageSet or Truth
        The true boxes. Positive images are those tagged +1 that have a true box of the class; with a bare
        `Truth`, those with an object that is not difficult. An image without a detection is a miss.
    overlap : float, default=0.5
        The intersection over union from which on a box is right; 0.7 tells who fits objects closely.

    Returns
    -------
    CorLoc
        The share per class and its mean.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> detections = t2b.Detections([0, 1], [[0, 0, 10, 10], [0, 0, 4, 4]], [0.9, 0.8], [0, 0])
    >>> boxes = np.array([[0, 0, 10, 9], [0, 0, 10, 10]], np.float32)
    >>> truth = t2b.Truth(np.array([0, 1]), boxes, np.array([0, 0]), np.array([False, False]))
    >>> t2b.corloc(detections, truth).mean
    0.5
    """
    detections, objects, classes = align(detections, truth)
    if isinstance(truth, ImageSet):
        positive = truth.tags[objects.image, objects.label] == 1
    else:
        positive = ~objects.difficult
    n_classes = len(classes)
    wanted = np.unique((objects.image * n_classes + objects.label)[positive])  # one key per image and class
    order = np.argsort(-detections.score, kind="stable")
    keys, first = np.unique((detections.image * n_classes + detections.label)[order], return_index=True)
    best = order[first]
    hit = np.isin(wanted, keys[best_objects(detections[best], objects).own >= overlap])
    n_images = np.bincount(wanted % n_classes, minlength=n_classes)
    n_hits = np.bincount(wanted[hit] % n_classes, minlength=n_classes)
    return CorLoc(classes, n_hits / np.maximum(n_images, 1), n_images)


def _curves(detections: Detections, outcome: NDArray[np.int8], n_truth: Ints) -> Iterator[Curve]:
    counts = outcome != IGNORED
    detections, hit = detections[counts], outcome[counts] == TRUE
    order = np.lexsort(
        (-detections.score, detections.label)
    )  # by class, best first; stable: ties in the order given
    ends = np.cumsum(np.bincount(detections.label, minlength=len(n_truth)))
    for n, rows in zip(n_truth, np.split(order, ends), strict=False):  # after the last end nothing is left
        hits = np.cumsum(hit[rows])
        yield Curve(hits / max(n, 1), hits / np.arange(1, len(rows) + 1), detections.score[rows])


def _ap07(curve: Curve) -> float:
    # k / 10, not k * 0.1: division rounds to the nearest double, so a recall of exactly 3 in 10 is 3 / 10.
    best = [curve.precision[curve.recall >= k / 10].max(initial=0) for k in range(11)]
    return float(np.mean(best))


def _ap10(curve: Curve) -> float:
    envelope = np.maximum.accumulate(curve.precision[::-1])[::-1]  # best precision at this recall or above
    return float(np.diff(curve.recall, prepend=0) @ envelope)
