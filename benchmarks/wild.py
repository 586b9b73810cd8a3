"""Eight sets of strangers, by defaults: how often the box of a photo learned from is right, AP on others.

The rivals look at nothing: the whole photo, and its middle (70 % in each direction), whichever is right more
often. Runs are kept in the folder that TAG2BOX_WILD names, so that a second time costs learning alone.
`python -m benchmarks.wild` prints the table by class.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tag2box as t2b
from benchmarks import Line, data
from tag2box.boxes import iou_matrix
from tag2box.run.folder import RunFolder

# CorLoc at 0.5 that must hold: what was measured on 19 November 2026, less the noise of a draw.
FLOORS = {
    "cards": 88.0,
    "steel": 36.0,
    "animals": 69.0,
    "tiles": 45.0,
    "cells": 80.0,
    "fruit": 74.0,
    "products": 28.0,
    "aerial": 29.0,
}
MIDDLE = np.array([0.15, 0.15, 0.85, 0.85])


def measured(name, out):
    """Classes, and of each class CorLoc at 0.5 and 0.7, that of the better rival and AP, in per cent."""
    folder = data("wild") / name
    truth = t2b.read_images(folder / "photos", folder / "truth" / "train.json")
    test = t2b.read_images(folder / "test", folder / "truth" / "test.json")
    model = t2b.Tag2Box(out=out / name).fit(folder / "photos")
    run = RunFolder(out / name)
    order = [truth.ids.index(photo) for photo in run.images.ids]
    truth = truth.take(order)
    right = np.zeros((4, len(truth.classes)))
    for c, boxes in enumerate(run.findings.boxes):
        positive = np.flatnonzero(run.images.tags[:, c] == 1)
        right[0, c] = share_right(truth, c, positive, boxes)
        right[3, c] = share_right(truth, c, positive, boxes, 0.7)
        sizes = np.tile(run.result("described").windows.sizes[positive], 2)
        right[1, c] = share_right(truth, c, positive, sizes * np.array([0, 0, 1, 1]))
        right[2, c] = share_right(truth, c, positive, sizes * MIDDLE)
    ap = t2b.evaluate(model.predict(test), test).ap
    return truth.classes, *(100 * np.array([right[0], right[3], right[1:3].max(axis=0), ap]))


def share_right(truth, c, photos, boxes, overlap=0.5):
    """The share of photos whose box overlaps an object of the class by so much."""
    objects = truth.truth
    right = [
        iou_matrix(box[None].astype(np.float32), objects.xyxy[(objects.image == i) & (objects.label == c)])
        for i, box in zip(photos, boxes, strict=True)
    ]
    return np.mean([each.max(initial=0) >= overlap for each in right])


def results():
    with TemporaryDirectory(prefix="wild-") as temporary:
        out = Path(os.environ.get("TAG2BOX_WILD") or temporary)
        for name in FLOORS:
            yield name, *measured(name, out)


def run():
    for name, _, corloc, close, rival, ap in results():
        yield Line(
            f"wild {name}: wrong boxes",
            100 - corloc.mean(),
            100 - rival.mean(),
            "%",
            "whole photo or middle",
            f"CorLoc; at 0.7 {close.mean():.1f}; AP {ap.mean():.1f}",
            value=corloc.mean(),
            floor=FLOORS[name],
        )


if __name__ == "__main__":
    print("| set | class | CorLoc | at 0.7 | whole photo or middle | AP |\n|---|---|---|---|---|---|")
    for name, classes, *figures in results():
        for row in zip(classes, *figures, strict=True):
            print(f"| {name} | {row[0]} | " + " | ".join(f"{figure:.0f}" for figure in row[1:]) + " |")
        print(f"| {name} | **mean** | " + " | ".join(f"{figure.mean():.1f}" for figure in figures) + " |")
