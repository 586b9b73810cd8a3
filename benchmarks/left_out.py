"""What is chosen on all sets but one, shown on that one: the protocol for whatever touches boxes.

    python -m benchmarks.left_out RUNS [NAME ...]

RUNS: a folder with finished runs, each named as its set: those of `wild` (`tag2box run wild/NAME/photos`) and
voc20 (`--split trainval`), as many as there are; TAG2BOX_WILD names it for `make bench BENCH=left_out`. NAME:
of `OPTIONS`; all without. For each value of an option
everything behind the description is learned anew from the stored vectors. The figure of a set is the mean of
CorLoc at 0.5 and at 0.7, over its classes. Of each set are shown: the default, the value that is best in the
mean of all sets, and the value that is best in the mean of the others.
"""

import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks import Line, Skip
from benchmarks.confidence import InMemory, truth_of
from benchmarks.wild import share_right
from tag2box.images import known_tags
from tag2box.methods import METHODS
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings
from tag2box.training import extents, prior
from tag2box.training.known import Known

SETS = ("cards", "steel", "animals", "tiles", "cells", "fruit", "products", "aerial", "voc20")
# Values of constants (in capitals, with their module) and of settings; the first is the default.
OPTIONS = {
    "extents.SURE": (3.0, 2.0, 4.0, np.inf),
    "extents.REACH": (2, 1, 3),
    "prior.LEAST": (1.0, 0.5, 2.0),
    "prior.MOST": (8.0, 5.0, 12.0),
    "two_stream.regularization": (0.003, 0.001, 0.01),
    "two_stream.weight": (0.5, 0.25, 1.0),
    "retrain.vote_iou": (0.3, 0.4, 0.5),
    "retrain.tag_weight": (0.2, 0.0, 0.4),
    "retrain.positive_iou": (0.6, 0.5, 0.7),
    "maps.ring": (0.25, 0.15, 0.4),
    "maps.components": (2, 1, 3),
}
MODULES = {"extents": extents, "prior": prior}


def learned(run, option, value):
    """The boxes of a run by another value, (n, 4) of each class; details stay as the run chose them."""
    described, config = run.result("described"), run.config
    module, name = option.split(".")
    if module not in MODULES:
        config = read_settings(config, None, [f"{option}={value}"])
    if module == "prior":
        config = replace(config, two_stream=replace(config.two_stream, prior="auto"))
    with patch.object(MODULES[module], name, value) if module in MODULES else nullcontext():
        if module == "extents":
            findings = run.result("findings")
        else:
            known = Known(described, known_tags(run.images.tags, config.unknown))
            findings = METHODS[config.method](known, config, InMemory()).findings
        return extents.fit_extents(findings, described).boxes


def figure(run, truth, boxes):
    """The means over classes of CorLoc at 0.5 and at 0.7, in per cent."""
    shares = []
    for c, own in enumerate(boxes):
        photos = np.flatnonzero(run.images.tags[:, c] == 1)
        if len(photos):
            shares.append([share_right(truth, c, photos, own, overlap) for overlap in (0.5, 0.7)])
    return 100 * np.mean(shares, axis=0)


def table(runs, names):
    """Of each option: its values, and the figures of all sets, (n_values, n_sets, 2)."""
    opened = [(RunFolder(folder), truth_of(folder.name, RunFolder(folder).images)) for folder in runs]
    for name in names:
        values, rows = OPTIONS[name], []
        for value in values:
            rows.append([figure(run, truth, learned(run, name, value)) for run, truth in opened])
            print(f"{name} = {value}: {np.mean(rows[-1], axis=0).round(1)}", file=sys.stderr, flush=True)
        yield name, values, np.array(rows)


def chosen(figures):
    """Which value is best in the mean of all sets, and for each set in that of the others."""
    score = figures.mean(axis=2)
    others = (score.sum(axis=1, keepdims=True) - score) / max(score.shape[1] - 1, 1)
    return int(score.mean(axis=1).argmax()), others.argmax(axis=0)


def folders(root):
    return [root / name for name in SETS if (root / name / "detector.npz").exists()]


def results(root, names):
    for name, values, figures in table(folders(root), names):
        best, without = chosen(figures)
        sets = np.arange(figures.shape[1])
        yield name, values[0], values[best], figures[0], figures[best], figures[without, sets]


def run():
    root = Path(os.environ.get("TAG2BOX_WILD", ""))
    if len(folders(root)) < 3:
        raise Skip("set TAG2BOX_WILD to a folder with finished runs of the sets")
    for name, default, best, now, everything, left_out in results(root, OPTIONS):
        yield Line(
            f"left out: {name}",
            100 - left_out.mean(),
            100 - now.mean(),
            "%",
            f"default {default}",
            f"best of all sets {best}: {everything.mean():.1f}; left out {left_out.mean():.1f}",
        )


def main(root, names):
    sets = [folder.name for folder in folders(root)]
    head = ["option", "column", *sets, "mean"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name, default, best, *columns in results(root, names or OPTIONS):
        titles = f"default, {default}", f"chosen with it, {best}", "left out"
        for title, column in zip(titles, columns, strict=True):
            cells = [f"{a:.1f} / {b:.1f}" for a, b in [*column, column.mean(axis=0)]]
            print(f"| {name} | {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
