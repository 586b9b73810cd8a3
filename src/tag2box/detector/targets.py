"""What cells and regions of a photo shall say, and how far they are from it.

Labels are boxes that were found, not drawn. So a box counts as much as it is likely, boxes in doubt say
nothing, and far from every box a photo with the tag may hold more objects of its class than were found.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tag2box.boxes import iou_matrix
from tag2box.detector.looks import centers, extent, inside, slot_sizes, steps
from tag2box.detector.record import BOUNDS, CELLS, LARGEST_SIDE, LEARNED, SIZES
from tag2box.detector.trunk import Sizes

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

# The middle of a box reaches so far on each side, as a share of the box, and at least so many cells.
MIDDLE, LEAST = 0.25, 0.6
# Boxes near a bound belong to the slots of both sides.
SHARED = 1.2
# Focal loss: the power, and the share of what is negative.
POWER, NEGATIVE = 1.5, 0.5
# What a cell or region of a photo with the tag, far from its boxes, counts for that class.
COUNTS = 0.3
# Overlaps: of a region that shows the object, that moves, and below which it is far from it; of one in doubt.
SHOWS, MOVES, FAR, DOUBT = 0.5, 0.4, 0.1, 0.3


class Labels(NamedTuple):
    """Boxes (n, 4) of a photo in pixels of its first view, their classes and weights; and its tags."""

    boxes: Floats
    label: Rows
    weight: Floats
    tags: NDArray[np.int8]


def cell_loss(said: Floats, sizes: Sizes, labels: Labels) -> tuple[float, Floats]:
    """The loss of the first look, and its gradient: focal for classes, -log IoU for the sides of boxes."""
    n_classes = len(labels.tags)
    target, weight, owner = cell_targets(sizes, labels)
    by_slot = said.reshape(*owner.shape, n_classes + 4)
    logits = by_slot[..., :n_classes]
    p = expit(logits)
    focus = np.where(target == 1, (1 - p) ** POWER, NEGATIVE * p**POWER) * weight
    positive = owner >= 0
    own = np.where(positive, labels.weight[owner] if len(labels.boxes) else 0, 0)
    count = max(float(own.sum()), 1.0)
    gradient = np.zeros_like(by_slot)
    gradient[..., :n_classes] = 2 * focus * (p - (target == 1)) / count
    loss = float((focus * np.logaddexp(0, np.where(target == 1, -logits, logits))).sum() / count)
    if positive.any():
        at, cell = centers(sizes)
        rows, slot = np.nonzero(positive)
        boxes = labels.boxes[owner[positive]]
        sides = np.concatenate([at[rows] - boxes[:, :2], boxes[:, 2:] - at[rows]], axis=1)
        scale = (slot_sizes(cell)[rows, slot] / 2).astype(np.float32)
        overlap, slope = side_loss(by_slot[positive][:, n_classes:], np.maximum(sides, 1), scale)
        gradient[rows, slot, n_classes:] = slope * (own[positive] / count)[:, None]
        loss -= float((own[positive] * np.log(np.maximum(overlap, 1e-6))).sum() / count)
    return loss, gradient.reshape(said.shape)


def cell_targets(sizes: Sizes, labels: Labels) -> tuple[NDArray[np.int8], Floats, Rows]:
    """Target and weight of each class in every slot of every cell, and the box that is there, or -1."""
    at, cell = centers(sizes)
    n_classes = len(labels.tags)
    target = np.zeros((len(at), len(SIZES), n_classes), np.int8)
    weight = np.ones(target.shape, np.float32)
    weight[:, :, labels.tags == 1] = COUNTS
    weight[:, :, labels.tags == 0] = 0
    owner = np.full((len(at), len(SIZES)), -1, np.intp)
    for box, c in zip(labels.boxes, labels.label, strict=True):
        weight[_within(at, box[:2], box[2:]), :, c] = 0
    size = np.sqrt((labels.boxes[:, 2:] - labels.boxes[:, :2]).prod(axis=1))
    level = (cell != CELLS[0]).astype(np.intp)
    for j in np.argsort(-size, kind="stable"):  # small ones last: they lie before large ones
        if labels.weight[j] > 0:
            box, c = labels.boxes[j], labels.label[j]
            middle, reach = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) * MIDDLE
            reach = np.maximum(reach, LEAST * cell[:, None])
            near = _within(at, middle - reach, middle + reach) & _within(at, box[:2], box[2:])
            own = size[j] * CELLS[0] / cell
            learned = np.array(LEARNED)[level]
            near &= (own >= learned[:, 0]) & (own < learned[:, 1])
            for k in range(len(SIZES)):
                here = near & (own >= BOUNDS[k] / SHARED) & (own < BOUNDS[k + 1] * SHARED)
                target[here, k, c], weight[here, k, c], owner[here, k] = 1, labels.weight[j], j
    return target, weight, owner


def _within(at: Floats, start: Floats, end: Floats) -> NDArray[np.bool_]:
    return np.asarray(((at > start) & (at < end)).all(axis=1))


def side_loss(said: Floats, sides: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """IoU of boxes around a cell, and the gradient of -log IoU by the logarithms of their sides (n, 4).

    sides: left, top, right, bottom of the labels, (n, 4); scale: (n,), half of the slot's size.
    """
    own = np.exp(np.clip(said, -LARGEST_SIDE, LARGEST_SIDE)) * scale[:, None]
    least = np.minimum(own, sides)
    size, shared = own[:, :2] + own[:, 2:], least[:, :2] + least[:, 2:]  # width, height
    both = shared.prod(axis=1)
    union = size.prod(axis=1) + (sides[:, :2] + sides[:, 2:]).prod(axis=1) - both
    d_both = (own < sides) * shared[:, [1, 0, 1, 0]]
    d_union = size[:, [1, 0, 1, 0]] - d_both
    slope = own * (d_union / union[:, None] - d_both / both[:, None])
    return both / union, np.asarray(slope, np.float32)


def region_targets(boxes: Floats, labels: Labels) -> tuple[NDArray[np.bool_], Floats, Rows]:
    """What each region may be, (n, n_classes + 1), the last the background; its weight; its box, or -1."""
    n, n_classes = len(boxes), len(labels.tags)
    allowed = np.zeros((n, n_classes + 1), np.bool_)
    allowed[:, -1] = True
    weight, owner = np.ones(n, np.float32), np.full(n, -1, np.intp)
    allowed[:, :-1] |= labels.tags == 0
    if not len(labels.boxes):
        allowed[:, :-1] |= labels.tags == 1
        return allowed, weight, owner
    overlap = np.asarray(iou_matrix(boxes, labels.boxes))
    sure = np.where(labels.weight > 0, overlap, 0)
    best, j = sure.max(axis=1), sure.argmax(axis=1)
    far = best < FAR
    allowed[far, :-1] |= labels.tags == 1
    near = ~far & (best < SHOWS)
    weight[near] = labels.weight[j[near]]
    for k in np.flatnonzero(labels.weight == 0):
        allowed[(overlap[:, k] > DOUBT), labels.label[k]] = True
    shows = best >= SHOWS
    allowed[shows] = False
    allowed[shows, labels.label[j[shows]]] = True
    weight[shows] = labels.weight[j[shows]]
    owner[best >= MOVES] = j[best >= MOVES]
    return allowed, weight, owner


def region_loss(said: Floats, boxes: Floats, labels: Labels) -> tuple[float, Floats]:
    """The loss of the second look by its classes, -log of the sum of what is allowed; and the gradient."""
    allowed, weight, owner = region_targets(boxes, labels)
    logits = said[:, : allowed.shape[1]]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    among = np.where(allowed, p, 0)
    total = np.maximum(among.sum(axis=1, keepdims=True), 1e-9)
    gradient = np.zeros_like(said)
    n = len(boxes)
    gradient[:, : allowed.shape[1]] = weight[:, None] * (p - among / total) / n
    moves = owner >= 0
    wanted = steps(boxes[moves], labels.boxes[owner[moves]])
    off = np.clip(said[moves, allowed.shape[1] :] - wanted, -1, 1)
    gradient[moves, allowed.shape[1] :] = off * labels.weight[owner[moves]][:, None] / n
    return float(-(weight * np.log(total[:, 0])).sum() / n), gradient


def copies(labels: Labels, sizes: Sizes, n: int, off: float, rng: np.random.Generator) -> Floats:
    """Boxes a little off those of the labels, each n times."""
    boxes = np.repeat(labels.boxes[labels.weight > 0], n, axis=0)
    size = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    return inside(boxes + size * rng.normal(0, off, boxes.shape).astype(np.float32), extent(sizes))
