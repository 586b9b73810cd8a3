"""Extents: how much farther than their boxes the objects of a class reach, by the edges of the photos.

A box is the mean of windows, and these are often smaller than the object: by some 10 % on each side, the same
for all photos of a class. Where objects end, edges end. Let e(δ) be the mean gradient along a line that is
parallel to a side of the box and lies farther out by the share δ of its width or height, averaged over the
sides of the box, in shares of what lines of the photo have. Of a class, the growth is the δ at which

    drop(δ) = e(δ - h) - e(δ + h),    in the mean over its photos

is greatest. It is 0 where this drop is not surely greater than the one at the box itself, as where an object
is thinner than an edge is wide, or grounds are full of edges. No box is seen.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from tag2box.description.record import Described
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.findings import Findings
from tag2box.windows.record import Windows

Floats = NDArray[np.float64]

# How far an edge may be from its line, in pixels of the lightness.
REACH = 2
# Distances in steps of 0.02 of a side, h, and between which of them objects may end.
STEP, H = 0.02, 1
NEAREST, FARTHEST = -5, 11
OFFSETS = STEP * np.arange(NEAREST - H, FARTHEST + H + 1)
# A side of fewer pixels than this is not measured: a step is less than half a pixel.
LEAST = 0.5 / STEP
# Standard errors that are sure, for the best of 17 distances; and boxes from which they can be told.
SURE, FEW = 3.0, 6


def grow(boxes: NDArray[np.float32], growth: Floats, sizes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Boxes (n, 4) whose sides are moved out by a share of their width or height, within their photos.

    growth: (n,), or one for all; sizes: (n, 2), or (2,) of one photo.
    """
    width = np.tile(boxes[:, 2:] - boxes[:, :2], 2) * np.array([-1, -1, 1, 1])
    moved = boxes + np.asarray(growth).reshape(-1, 1) * width
    return np.asarray(np.clip(moved, 0, np.tile(sizes, 2)), np.float32)


@stage("extents", version=2)
def fit_extents(
    findings: Findings,
    described: Described,
    *,
    progress: Progress = silent,
) -> Findings:
    """The findings with boxes that reach as far as the objects of their class; one pass over the photos."""
    windows = described.windows
    images = [windows.image_of(rows) for rows in findings.rows]
    label = np.repeat(np.arange(len(images)), [len(own) for own in images])
    image, boxes = np.concatenate(images), np.concatenate(findings.boxes)
    shares = boxes / np.tile(windows.sizes[image], 2)
    chosen = np.unique(image)
    rows = [np.flatnonzero(image == i) for i in chosen]
    drops = np.full((len(boxes), FARTHEST - NEAREST + 1), np.nan)
    assert described.light is not None
    for done, (i, own) in enumerate(zip(chosen.tolist(), rows, strict=True)):
        light = described.light[i][..., 0]
        drops[own] = measure_drops(light, shares[own] * np.tile(light.shape[::-1], 2))
        progress("extents", done + 1, len(chosen))
    growth = np.array([choose_growth(drops[label == c]) for c in range(len(images))])
    return grow_findings(findings, growth, windows)


def grow_findings(findings: Findings, growth: Floats, windows: Windows) -> Findings:
    """The findings with boxes that are moved out by the growth of their class."""
    boxes = [
        grow(own, np.full(len(own), g), windows.sizes[windows.image_of(rows)])
        for own, g, rows in zip(findings.boxes, growth, findings.rows, strict=True)
    ]
    return replace(findings, boxes=tuple(boxes), growth=growth)


def choose_growth(drops: Floats) -> float:
    """The growth of a class, from the drops of its boxes (n, n_distances); NaN where a box tells nothing."""
    drops = drops[np.isfinite(drops).all(axis=1)]
    if len(drops) < FEW:
        return 0.0
    best = int(drops.mean(axis=0).argmax())
    more = drops[:, best] - drops[:, -NEAREST]
    surely = more.mean() > SURE * more.std() / np.sqrt(len(more))
    return round(STEP * (NEAREST + best), 2) if surely else 0.0


def measure_drops(light: NDArray[Any], boxes: NDArray[np.floating]) -> Floats:
    """How much the edges drop at each distance from the sides of boxes, (n, n_distances), in one photo.

    light: its lightness, (h, w).
    """
    light = np.asarray(light, np.float32)
    sums = [_line_sums(each) for each in (light, light.T)]
    strength = np.array([_strengths(sums, box) for box in boxes]).reshape(len(boxes), len(OFFSETS))
    drops = np.asarray(strength[:, : -2 * H] - strength[:, 2 * H :])
    small = (boxes[:, 2:] - boxes[:, :2]).min(axis=1) < LEAST
    drops[small] = np.nan
    return drops


def _line_sums(light: NDArray[np.float32]) -> Floats:
    """Of each column, the sums of its edges from the top, in shares of the mean edge: (height + 1, width).

    An edge is the greatest difference of neighbors in a row within `REACH`.
    """
    step = np.abs(np.diff(light, axis=1, prepend=light[:, :1]))
    edge = maximum_filter1d(step, 2 * REACH + 1, axis=1, mode="constant").astype(np.float64)
    return np.asarray(np.pad(np.cumsum(edge, axis=0), ((1, 0), (0, 0))) / max(edge.mean(), 1e-9))


def _strengths(sums: Sequence[Floats], box: NDArray[np.floating]) -> Floats:
    """The mean strength of the lines at each of `OFFSETS`, over the four sides; at the border 1, as any."""
    total = np.zeros(len(OFFSETS))
    for axis in (0, 1):
        columns = sums[axis]
        most, n = len(columns) - 1, columns.shape[1]
        start = min(max(round(box[1 - axis]), 0), most - 1)
        end = min(max(round(box[3 - axis]), start + 1), most)
        strength, width = (columns[end] - columns[start]) / (end - start), box[2 + axis] - box[axis]
        for line in (box[axis] - OFFSETS * width, box[2 + axis] + OFFSETS * width):
            at = np.rint(line).astype(int)
            within = (at > 1) & (at < n - 1)
            total += np.where(within, strength[np.clip(at, 0, n - 1)], 1.0)
    return total / 4
