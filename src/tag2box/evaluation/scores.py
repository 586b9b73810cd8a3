"""How good detections are: VOC AP by the devkit's rules, COCO AP through pycocotools, CorLoc.

It reads detections and true boxes and nothing else. Who matches whom is decided in `matching`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.coco_ap import coco_ap
from tag2box.evaluation.matching import IGNORED, KINDS, OVERLAP, TRUE, align, best_objects, outcomes
from tag2box.images import ImageSet, Truth

__all__ = ["CorLoc", "Curve", "Scores", "corloc", "evaluate"]

Ints = NDArray[np.intp]
Doubles = NDArray[np.float64]

METRICS = ("voc07", "voc10", "coco")


class Curve(NamedTuple):
    """Precision and recall after each detection that counts, best score first: three arrays of one length."""

    recall: Doubles
    precision: Doubles
    score: Doubles


@dataclass(frozen=True, eq=False)
class Scores:
    """Average precision per class, with the curves and errors behind it.

    Parameters
    ----------
    metric : str
        The metric: "voc07", "voc10" or "coco".
    classes : tuple of str
        The names of the classes.
    ap : ndarray of shape (n_classes,)
        The average precision of each class.
    n_truth : ndarray of shape (n_classes,)
        The number of objects to find, without the difficult ones. A class without any has an AP of 0 and
        does not count in `mean`; a class with objects and no detections has an AP of 0 that counts.
    n_detections : ndarray of shape (n_classes,)
        The number of detections.
    curves : tuple of Curve
        The precision and recall of each class at an overlap of 0.5, whatever the metric.
    false_positives : dict of str to ndarray of shape (n_classes,)
        The number of false positives of each kind: "duplicate", "localization", "similar" and "background".
    coco : dict, default=None
        The summary of pycocotools, for the metric "coco".

    See Also
    --------
    evaluate : Makes it.

    Examples
    --------
    >>> import tag2box as t2b
    >>> found = t2b.Detections([0], [[0, 0, 10, 10]], [0.9], [0])
    >>> truth = t2b.Truth(found.image, found.xyxy, found.label, found.score < 0)
    >>> scores = t2b.evaluate(found, truth)
    >>> scores.mean
    1.0
    >>> scores.to_dict()["classes"]["0"]["n_truth"]
    1
    """

    metric: str
    classes: tuple[str, ...]
    ap: Doubles
    n_truth: Ints
    n_detections: Ints
    curves: tuple[Curve, ...]
    false_positives: dict[str, Ints]
    coco: dict[str, float] | None = None

    @property
    def mean(self) -> float:
        """The mean AP of the classes that have objects to find; 0 if there is none."""
        return _mean(self.ap, self.n_truth)

    def __getitem__(self, name: str) -> float:
        return float(self.ap[_column(self.classes, name)])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, for JSON.

        Returns
        -------
        dict
            Everything except the curves.
        """
        out: dict[str, Any] = {"metric": self.metric, "mean": self.mean, "classes": {}}
        for c, name in enumerate(self.classes):
            out["classes"][name] = {
                "ap": float(self.ap[c]),
                "n_truth": int(self.n_truth[c]),
                "n_detections": int(self.n_detections[c]),
                "false_positives": {kind: int(count[c]) for kind, count in self.false_positives.items()},
            }
        return out if self.coco is None else out | {"coco": self.coco}

    def __str__(self) -> str:
        return _table(f"{self.metric} AP", self.classes, self.ap, self.n_truth, self.mean)


@dataclass(frozen=True, eq=False)
class CorLoc:
    """Correct localization per class: the share of positive images whose best box is right.

    Parameters
    ----------
    classes : tuple of str
        The names of the classes.
    share : ndarray of shape (n_classes,)
        The share of each class; 0 for a class without positive images, which does not count in `mean`.
    n_images : ndarray of shape (n_classes,)
        The number of positive images of each class.

    See Also
    --------
    corloc : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> result = t2b.CorLoc(("cat", "dog"), np.array([0.5, 0.9]), np.array([10, 20]))
    >>> result["dog"], result.mean
    (0.9, 0.7)
    """

    classes: tuple[str, ...]
    share: Doubles
    n_images: Ints

    @property
    def mean(self) -> float:
        """The mean share of the classes that have positive images; 0 if there is none."""
        return _mean(self.share, self.n_images)

    def __getitem__(self, name: str) -> float:
        return float(self.share[_column(self.classes, name)])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, for JSON.

        Returns
        -------
        dict
            The share and the number of images of each class, and the mean.
        """
        rows = zip(self.classes, self.share.tolist(), self.n_images.tolist(), strict=True)
        return {
            "metric": "corloc",
            "mean": self.mean,
            "classes": {name: {"corloc": share, "n_images": n} for name, share, n in rows},
        }

    def __str__(self) -> str:
        return _table("CorLoc", self.classes, self.share, self.n_images, self.mean)


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
    >>> found = t2b.Detections([0, 0], [[0, 0, 10, 10], [50, 50, 60, 60]], [0.9, 0.4], [0, 0])
    >>> truth = t2b.Truth(
    ...     np.array([0]), np.array([[0, 0, 10, 9]], np.float32), np.array([0]), np.array([False])
    ... )
    >>> scores = t2b.evaluate(found, truth)
    >>> print(scores)
    voc07 AP
    0     1.000
    mean  1.000
    >>> int(scores.false_positives["background"][0])
    1
    """
    if metric not in METRICS:
        raise InputError(f"no metric {metric!r}: there are {', '.join(METRICS)}")
    found, objects, classes = align(detections, truth)
    outcome = outcomes(found, objects)
    n_classes = len(classes)
    n_truth = np.bincount(objects.label[~objects.difficult], minlength=n_classes)
    curves = tuple(_curves(found, outcome, n_truth))
    summary = None
    if metric == "coco":
        ap, summary = coco_ap(found, objects, n_classes)
    else:
        ap = np.array([(_ap07 if metric == "voc07" else _ap10)(curve) for curve in curves], dtype=np.float64)
    return Scores(
        metric=metric,
        classes=classes,
        ap=ap,
        n_truth=n_truth,
        n_detections=np.bincount(found.label, minlength=n_classes),
        curves=curves,
        false_positives={
            kind: np.bincount(found.label[outcome == code], minlength=n_classes)
            for code, kind in KINDS.items()
        },
        coco=summary,
    )


def corloc(detections: Detections, truth: Truth | ImageSet) -> CorLoc:
    """Compute the share of positive images whose best box is right.

    A box is right if it overlaps any object of its class, even a difficult one, by 0.5 or more.

    Parameters
    ----------
    detections : Detections
        The boxes found. The best one of each image and class counts; of equal scores, the first.
    truth : ImageSet or Truth
        The true boxes. Positive images are those tagged +1 that have a true box of the class; with a bare
        `Truth`, those with an object that is not difficult. An image without a detection is a miss.

    Returns
    -------
    CorLoc
        The share per class and its mean.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> found = t2b.Detections([0, 1], [[0, 0, 10, 10], [0, 0, 4, 4]], [0.9, 0.8], [0, 0])
    >>> boxes = np.array([[0, 0, 10, 9], [0, 0, 10, 10]], np.float32)
    >>> truth = t2b.Truth(np.array([0, 1]), boxes, np.array([0, 0]), np.array([False, False]))
    >>> t2b.corloc(found, truth).mean
    0.5
    """
    found, objects, classes = align(detections, truth)
    if isinstance(truth, ImageSet):
        positive = truth.tags[objects.image, objects.label] == 1
    else:
        positive = ~objects.difficult
    n_classes = len(classes)
    wanted = np.unique((objects.image * n_classes + objects.label)[positive])  # one key per image and class
    order = np.argsort(-found.score, kind="stable")
    keys, first = np.unique((found.image * n_classes + found.label)[order], return_index=True)
    best = order[first]
    hit = np.isin(wanted, keys[best_objects(found[best], objects).own >= OVERLAP])
    n_images = np.bincount(wanted % n_classes, minlength=n_classes)
    n_hits = np.bincount(wanted[hit] % n_classes, minlength=n_classes)
    return CorLoc(classes, n_hits / np.maximum(n_images, 1), n_images)


def _curves(found: Detections, outcome: NDArray[np.int8], n_truth: Ints) -> Iterator[Curve]:
    counts = outcome != IGNORED
    found, hit = found[counts], outcome[counts] == TRUE
    order = np.lexsort((-found.score, found.label))  # by class, best first; stable: ties in the order given
    ends = np.cumsum(np.bincount(found.label, minlength=len(n_truth)))
    for n, rows in zip(n_truth, np.split(order, ends), strict=False):  # after the last end nothing is left
        hits = np.cumsum(hit[rows])
        yield Curve(hits / max(n, 1), hits / np.arange(1, len(rows) + 1), found.score[rows])


def _ap07(curve: Curve) -> float:
    # k / 10, not k * 0.1: division rounds to the nearest double, so a recall of exactly 3 in 10 is 3 / 10.
    best = [curve.precision[curve.recall >= k / 10].max(initial=0) for k in range(11)]
    return float(np.mean(best))


def _ap10(curve: Curve) -> float:
    envelope = np.maximum.accumulate(curve.precision[::-1])[::-1]  # best precision at this recall or above
    return float(np.diff(curve.recall, prepend=0) @ envelope)


def _mean(values: Doubles, counts: Ints) -> float:
    return float(values[counts > 0].mean()) if (counts > 0).any() else 0.0


def _column(classes: tuple[str, ...], name: str) -> int:
    if name not in classes:
        raise InputError(f"no class {name!r} here: the classes are {', '.join(classes)}")
    return classes.index(name)


def _table(title: str, classes: tuple[str, ...], values: Doubles, counts: Ints, mean: float) -> str:
    width = max(len(name) for name in ("mean", *classes))
    rows = [
        f"{name:{width}}  {value:.3f}" if n else f"{name:{width}}  -      no truth: not in the mean"
        for name, value, n in zip(classes, values, counts, strict=True)
    ]
    return "\n".join([title, *rows, f"{'mean':{width}}  {mean:.3f}"])
