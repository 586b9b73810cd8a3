"""The first look: every cell of a photo says what it is the middle of, and how far its sides are.

After FCOS (Tian et al. 2019) on one map: a cell has a slot for each of three sizes. The middle of a box is
positive for its class in the slot of its size; the rest of the box, and boxes in doubt, say nothing of that
class; all else is negative. Classes have the focal loss (Lin et al. 2017), sides -log IoU (Yu et al. 2016).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.student.adam import Adam
from tag2box.student.looking import centers, neighborhoods
from tag2box.student.record import BOUNDS, LARGEST_SIDE, SIZES

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

RATE = 1e-3
# Photos in a step, and cells of each: in the middle of boxes at most, and anywhere.
BATCH, MIDDLE, ANYWHERE = 16, 24, 48
# The middle reaches so far on each side, as a share of the box, and at least so many pixels.
REACH, LEAST = 0.25, 9.0
# Boxes near a bound belong to the slots of both sides.
OVERLAP = 1.2
# Focal loss: the power, and the share of what is negative.
POWER, NEGATIVE = 1.5, 0.5
# The first guess of every class: hardly any cell shows it.
FIRST_LOGIT = -4.0


class View(NamedTuple):
    """One view of a photo: its fused map; boxes (n, 4) in its pixels; labels; which are right; its tags."""

    fused: NDArray[np.floating]
    boxes: Floats
    label: Rows
    right: NDArray[np.bool_]
    tags: NDArray[np.int8]


class Taught(NamedTuple):
    """What cells shall say.

    target: (cells, slots, n_classes), 1, 0, or -1 for anything; owner: (cells, slots), the box there or -1.
    """

    target: NDArray[np.int8]
    owner: NDArray[np.int16]


def cell_targets(view: View) -> Taught:
    """What the cells of a photo shall say."""
    h, w, _ = view.fused.shape
    at = centers(h, w)
    target = np.zeros((h * w, len(SIZES), len(view.tags)), np.int8)
    target[:, :, view.tags == 0] = -1
    owner = np.full((h * w, len(SIZES)), -1, np.int16)
    for box, c in zip(view.boxes, view.label, strict=True):
        target[_within(at, box), :, c] = -1
    size = np.sqrt((view.boxes[:, 2:] - view.boxes[:, :2]).prod(axis=1))
    for j in np.argsort(-size, kind="stable"):  # small ones last: they lie before large ones
        if view.right[j]:
            middle = _within(at, _middle(view.boxes[j])) & _within(at, view.boxes[j])
            for k in range(len(SIZES)):
                if BOUNDS[k] / OVERLAP <= size[j] < BOUNDS[k + 1] * OVERLAP:
                    target[middle, k, view.label[j]] = 1
                    owner[middle, k] = j
    return Taught(target, owner)


def _within(at: Floats, box: Floats) -> NDArray[np.bool_]:
    return np.asarray(((at > box[:2]) & (at < box[2:])).all(axis=1))


def _middle(box: Floats) -> Floats:
    center, reach = (box[:2] + box[2:]) / 2, np.maximum((box[2:] - box[:2]) * REACH, LEAST)
    return np.concatenate([center - reach, center + reach])


def train_cells(net: Adam, views: list[View], taught: list[Taught], rng: np.random.Generator) -> float:
    """One step on some photos; returns the mean overlap of boxes said and boxes found."""
    X, target, sides, own = (
        np.concatenate(arrays)
        for arrays in zip(*(_drawn(v, t, rng) for v, t in zip(views, taught, strict=True)), strict=True)
    )
    n_classes = target.shape[2]
    said = net(X)
    gradient = np.zeros_like(said).reshape(*own.shape, n_classes + 4)
    by_slot = said.reshape(gradient.shape)
    count = max(int(own.sum()), 1)
    gradient[..., :n_classes] = _focal(by_slot[..., :n_classes], target) / count
    overlap, gradient[own, n_classes:] = side_loss(
        by_slot[own][:, n_classes:], sides[own], np.nonzero(own)[1]
    )
    gradient[own, n_classes:] /= count
    net.learn(gradient.reshape(said.shape))
    return float(overlap.mean()) if len(overlap) else 0.0


def _drawn(
    view: View, taught: Taught, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int8], Floats, NDArray[np.bool_]]:
    """Some cells: what they see, their targets, the sides of their boxes, and which slots have one."""
    h, w, _ = view.fused.shape
    middle = rng.permutation(np.flatnonzero((taught.owner >= 0).any(axis=1)))[:MIDDLE]
    cells = np.concatenate([middle, rng.integers(0, h * w, ANYWHERE)])
    owner = taught.owner[cells]
    boxes = view.boxes[owner] if len(view.boxes) else np.zeros((*owner.shape, 4), np.float32)
    at = centers(h, w)[cells][:, None]
    sides = np.concatenate([at - boxes[..., :2], boxes[..., 2:] - at], axis=2)
    return neighborhoods(view.fused, cells), taught.target[cells], np.maximum(sides, 1), owner >= 0


def _focal(logits: Floats, target: NDArray[np.int8]) -> Floats:
    """The gradient of the focal loss, its weights held fixed."""
    p = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    weight = np.where(target == 1, (1 - p) ** POWER, NEGATIVE * p**POWER)
    return np.asarray(2 * weight * (target >= 0) * (p - (target == 1)), np.float32)


def side_loss(said: Floats, sides: Floats, slot: Rows) -> tuple[Floats, Floats]:
    """IoU of boxes around a cell, and the gradient of -log IoU by the logarithms of their sides (n, 4).

    sides: left, top, right, bottom of the box found, (n, 4); slot: (n,).
    """
    ours = (
        np.exp(np.clip(said, -LARGEST_SIDE, LARGEST_SIDE)) * (np.array(SIZES, np.float32)[slot] / 2)[:, None]
    )
    least = np.minimum(ours, sides)
    size, shared = ours[:, :2] + ours[:, 2:], least[:, :2] + least[:, 2:]  # width, height
    both = shared.prod(axis=1)
    union = size.prod(axis=1) + (sides[:, :2] + sides[:, 2:]).prod(axis=1) - both
    d_both = (ours < sides) * shared[:, [1, 0, 1, 0]]
    d_union = size[:, [1, 0, 1, 0]] - d_both
    gradient = ours * (d_union / union[:, None] - d_both / both[:, None])
    return both / union, np.asarray(gradient, np.float32)
