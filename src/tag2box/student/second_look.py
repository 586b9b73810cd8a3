"""The second look: what is in a proposal, and how it has to move (after Fast R-CNN, Girshick 2015).

A region is positive for a class by its overlap with a box of that class: 0 up to a third, 1 from two thirds.
Of photos with the tag, regions far from every box found count little: there may be more objects than boxes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.student.adam import Adam
from tag2box.student.first_look import View
from tag2box.student.looking import inside, proposals, regions, steps
from tag2box.student.record import CELL, Layers

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

RATE = 5e-4
# Photos in a step, regions of each, and at most so many that lie on a box.
BATCH, DRAWN, ON_BOX = 8, 64, 24
# Regions beside the proposals: copies of each box found, and how far their sides lie off.
COPIES, OFF = 10, 0.12
# From no overlap worth a name to a full one; from here a region learns to move.
NONE, FULL, MOVES = 0.35, 0.65, 0.4
# Overlap below which a region of a photo with the tag says little, and what its loss counts.
FAR, COUNTS = 0.1, 0.3
# The overlap with a box in doubt from which a region says nothing.
DOUBT = 0.3
# The first guess of every class: hardly any region shows it.
FIRST_LOGIT = -3.0
# What a step of a box weighs beside the classes.
MOVE_WEIGHT = 0.5


class Regions(NamedTuple):
    """Regions (n, 4) of a view: what they shall say (n, n_classes), what that weighs, and their box or -1."""

    boxes: Floats
    target: Floats
    weight: Floats
    owner: Rows


def draw_regions(view: View, dense: Layers, rng: np.random.Generator) -> Regions:
    """The proposals of a photo, and copies of its boxes a little off."""
    h, w, _ = view.fused.shape
    proposed = proposals(view.fused, dense, len(view.tags))[1]
    copies = np.repeat(view.boxes[view.right], COPIES, axis=0)
    size = np.tile(copies[:, 2:] - copies[:, :2], 2)
    copies = copies + size * rng.normal(0, OFF, copies.shape).astype(np.float32)
    boxes = np.concatenate([proposed, inside(copies, (w * CELL, h * CELL))])
    return Regions(boxes, *_targets(view, boxes))


def _targets(view: View, boxes: Floats) -> tuple[Floats, Floats, Rows]:
    target = np.zeros((len(boxes), len(view.tags)), np.float32)
    weight = np.ones_like(target)
    weight[:, view.tags == 0] = 0
    if not len(view.boxes):
        return target, weight, np.full(len(boxes), -1)
    overlap = np.asarray(iou_matrix(boxes, view.boxes))
    sure = np.where(view.right, overlap, 0)
    for c in np.unique(view.label):
        own = view.label == c
        best = sure[:, own].max(axis=1)
        target[:, c] = np.clip((best - NONE) / (FULL - NONE), 0, 1)
        weight[:, c] = np.where(best < FAR, COUNTS, 1)
        doubt = np.where(view.right, 0, overlap)[:, own].max(axis=1)
        weight[(doubt > DOUBT) & (best < FULL), c] = 0
    owner = np.where(sure.max(axis=1) >= MOVES, sure.argmax(axis=1), -1)
    return target, weight, owner


def train_regions(net: Adam, views: list[View], taught: list[Regions], rng: np.random.Generator) -> float:
    """One step on some photos; returns the mean loss of a region's classes."""
    X, target, weight, wanted, moves = (
        np.concatenate(arrays)
        for arrays in zip(*(_drawn(v, t, rng) for v, t in zip(views, taught, strict=True)), strict=True)
    )
    n_classes = target.shape[1]
    said = net(X)
    p = 1 / (1 + np.exp(-np.clip(said[:, :n_classes], -30, 30)))
    gradient = np.empty_like(said)
    gradient[:, :n_classes] = weight * (p - target) / (len(X) / 4)
    off = np.clip(said[:, n_classes:] - wanted, -1, 1)  # of a loss that is square near 0 and straight beyond
    gradient[:, n_classes:] = MOVE_WEIGHT * off * moves[:, None] / max(int(moves.sum()), 1)
    net.learn(gradient)
    right = np.where(target > 0.5, p, 1 - p)
    return float(-(weight * np.log(np.maximum(right, 1e-7))).sum() / len(X))


def _drawn(
    view: View, taught: Regions, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
    """Some regions: what they see, their targets and weights, their steps, and which have any."""
    on, off = (rng.permutation(np.flatnonzero(each)) for each in (taught.owner >= 0, taught.owner < 0))
    rows = np.concatenate([on[:ON_BOX], off[: DRAWN - min(len(on), ON_BOX)]])
    boxes, owner = taught.boxes[rows], taught.owner[rows]
    wanted = np.zeros_like(boxes)
    moves = owner >= 0
    wanted[moves] = steps(boxes[moves], view.boxes[owner[moves]])
    return regions(view.fused, boxes), taught.target[rows], taught.weight[rows], wanted, moves
