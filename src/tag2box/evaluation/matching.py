"""Which true object each detection belongs to, by the rules of the VOC devkit, and what that makes of it.

The devkit (Everingham et al., `VOCevaldet.m`) measures 1-based inclusive boxes, width = xmax - xmin + 1. Ours
are x1 = xmin - 1 and x2 = xmax, so that x2 - x1 is the same width: every overlap here is the devkit's, `+1`
included.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes, overlap
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.images import ImageSet, Truth
from tag2box.runtime.compiled import kernel

__all__ = ["IGNORED", "KINDS", "OVERLAP", "TRUE", "Match", "align", "best_objects", "outcomes"]

OVERLAP = 0.5  # the devkit's VOCopts.minoverlap: a detection is right from here on
TOUCH = 0.1  # Hoiem et al. 2012: below this overlap a false positive has nothing to do with the object

# What became of a detection. The last four are the false positives, after Hoiem et al.; the first that
# applies counts. They look at all objects, the difficult ones too.
TRUE, IGNORED, DUPLICATE, LOCALIZATION, SIMILAR, BACKGROUND = range(6)
KINDS = {
    DUPLICATE: "duplicate",  # right, but its object has a better-scored detection
    LOCALIZATION: "localization",  # 0.1 <= overlap < 0.5 with an object of its class
    SIMILAR: "similar",  # overlap >= 0.1 with an object of another class, whichever
    BACKGROUND: "background",  # the rest
}

Ints = NDArray[np.intp]
Doubles = NDArray[np.float64]


def align(detections: Detections, truth: Truth | ImageSet) -> tuple[Detections, Truth, tuple[str, ...]]:
    """Detections and objects that speak of images and classes by the same numbers, and the classes' names."""
    if isinstance(truth, ImageSet):
        if truth.truth is None:
            raise InputError("these images have no true boxes: evaluation needs annotations, not only tags")
        objects, classes = truth.truth, truth.classes
        image = _renumber(detections.image, detections.ids, truth.ids, "image")
        label = _renumber(detections.label, detections.classes, truth.classes, "class")
        detections = replace(detections, image=image, label=label, ids=truth.ids, classes=classes)
    elif isinstance(truth, Truth):
        objects = truth
        n_classes = 1 + max(detections.label.max(initial=-1), truth.label.max(initial=-1))
        classes = detections.classes or tuple(str(c) for c in range(n_classes))
        if len(classes) < n_classes:
            raise InputError(f"the truth has a class {n_classes - 1}, but the detections name {len(classes)}")
    else:
        raise InputError(f"truth must be an ImageSet or its Truth, but it is a {type(truth).__name__}")
    return detections, replace(objects, xyxy=as_boxes(objects.xyxy)), classes


def _renumber(index: Ints, names: tuple[str, ...] | None, known: tuple[str, ...], what: str) -> Ints:
    """`index` into `names` as an index into `known`; without names it must be one already."""
    if names is None:
        if index.max(initial=-1) >= len(known):
            raise InputError(f"a detection is of {what} {index.max()}, but the truth has {len(known)}")
        return index
    place = {name: i for i, name in enumerate(known)}
    to = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    out = np.asarray(to[index], dtype=np.intp)
    if (out < 0).any():
        strangers = sorted({names[i] for i in index[out < 0]})
        raise InputError(
            f"detections of {what} {strangers[0]!r} ({len(strangers)} such in all) are not in the truth: "
            "evaluate against the images and classes they were made for, or leave those detections out"
        )
    return out


class Match(NamedTuple):
    """For each detection, (n,) each: what it overlaps most."""

    object: Ints  # the object of its class, -1 where it overlaps none
    own: Doubles  # the overlap with that
    other: Doubles  # the largest overlap with an object of another class


def best_objects(detections: Detections, objects: Truth) -> Match:
    """The `Match` of each detection; of two objects that it overlaps equally, the first."""
    by_image = np.argsort(objects.image, kind="stable")
    image = objects.image[by_image]
    span = np.searchsorted(
        image, [detections.image, detections.image + 1]
    )  # (2, n): the objects in its image
    boxes, true_boxes = detections.xyxy.astype(np.float64), objects.xyxy[by_image].astype(np.float64)
    best, own, other = _best_overlaps(boxes, detections.label, span, true_boxes, objects.label[by_image])
    return Match(np.append(by_image, -1)[best], own, other)


@kernel
def _best_overlaps(
    boxes: Doubles, label: Ints, span: Ints, true_boxes: Doubles, true_label: Ints
) -> tuple[Ints, Doubles, Doubles]:
    n = len(boxes)
    best, own, other = np.full(n, -1, np.intp), np.zeros(n), np.zeros(n)
    for d in range(n):
        for j in range(span[0, d], span[1, d]):
            shared, union = overlap(boxes[d], true_boxes[j])
            iou = shared / union
            if true_label[j] != label[d]:
                other[d] = max(other[d], iou)
            elif iou > own[d]:
                best[d], own[d] = j, iou
    return best, own, other


def outcomes(detections: Detections, objects: Truth) -> NDArray[np.int8]:
    """What became of each detection: TRUE, IGNORED, or a kind of false positive, (n,)."""
    match = best_objects(detections, objects)
    outcome = np.full(len(detections), BACKGROUND, dtype=np.int8)
    outcome[match.other >= TOUCH] = SIMILAR
    outcome[match.own >= TOUCH] = LOCALIZATION
    right = match.own >= OVERLAP
    outcome[right] = DUPLICATE
    # The best-scored detection of an object is the true one; the stable sort settles ties by input order.
    order = np.argsort(-detections.score, kind="stable")
    order = order[right[order]]
    outcome[order[np.unique(match.object[order], return_index=True)[1]]] = TRUE
    outcome[right & np.append(objects.difficult, False)[match.object]] = IGNORED
    return outcome
