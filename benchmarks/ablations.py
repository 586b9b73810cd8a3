"""What each setting is worth on VOC 2007 from tags: cross-validation on trainval, with spread over seeds.

    python -m benchmarks.ablations RUN VOC2007 [NAME...]

RUN: the folder of a finished `tag2box run VOC2007 --split trainval`; its windows, features, maps and
neighbors are used. Images are dealt into three folds. For each, the tags of the fold are hidden, everything
behind the neighbors is trained on the rest, and the fold is scored. AP07 is that of all folds together,
CorLoc that of the best window of each positive image by the detector that has not seen it. Spread: over the
seeds of the split.
"""

import sys
from functools import cache

import numpy as np

from benchmarks import Skip
from tag2box import corloc, evaluate, read_images
from tag2box.cover.degrees import Degrees
from tag2box.cover.stage import find_covers
from tag2box.detection.detections import Detections
from tag2box.detection.suppression import detect_windows
from tag2box.pipeline import Config
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings
from tag2box.training.findings import best_windows
from tag2box.training.initial import train_initial
from tag2box.training.object_maps import find_objectness
from tag2box.training.refinement import refine
from tag2box.training.scoring import score_windows

FOLDS, SEEDS = 3, 3
TABLE = {
    "the default": (),
    "SVM on the cover": ("refine.method=none",),
    "LSVM": ("refine.method=lsvm",),
    "no objectness anywhere": ("cover.snap=none", "refine.prior=0", "refine.objectness_weight=0"),
    "contrast instead": ("cover.snap=contrast", "refine.prior=0", "refine.objectness_weight=0"),
    "objectness in the cover only": ("refine.prior=0", "refine.objectness_weight=0"),
    "objectness in detection only": ("cover.snap=none", "refine.prior=0"),
    "refine.prior 0": ("refine.prior=0",),
    "refine.prior 2": ("refine.prior=2",),
    "refine.objectness_weight 1": ("refine.objectness_weight=1",),
    "refine.objectness_weight 3": ("refine.objectness_weight=3",),
    "refine.mu 0.01": ("refine.mu=0.01",),
    "refine.mu 0.5": ("refine.mu=0.5",),
    "C 0.0025": ("initial.C=0.0025", "refine.C=0.0025"),
    "C 0.0004": ("initial.C=0.0004", "refine.C=0.0004"),
    "maps.components 1": ("maps.components=1",),
    "maps.components 3": ("maps.components=3",),
    "maps.components 5": ("maps.components=5",),
    "maps.ring 0.15": ("maps.ring=0.15",),
    "maps.ring 0.5": ("maps.ring=0.5",),
    "cover.method marginal": ("cover.method=marginal",),
    "cover.t 5": ("cover.t=5",),
    "cover.alpha 0.8": ("cover.alpha=0.8",),
    "negative mining": ("cover.initializer=negative_mining",),
}


class Trial:
    """One split of the images into folds."""

    def __init__(self, run, images, seed):
        self.images = images
        self.windows, self.features = run.result("windows"), run.result("features")
        self.maps, self.degrees = run.result("maps"), run.result("degrees")
        self.fold = np.random.default_rng(seed).integers(0, FOLDS, len(images))
        self.own = self.windows.image_of(np.arange(len(self.windows.xyxy)))
        self.objectness = cache(self.objectness)  # many settings share these
        self.covers = cache(self.covers)

    def tags(self, fold):
        return np.where((self.fold == fold)[:, None], np.int8(0), self.images.tags)

    def objectness(self, fold, config):
        return find_objectness(self.maps, self.windows, self.tags(fold), config).objectness

    def covers(self, fold, maps, cover):
        tags = self.tags(fold)
        degrees = Degrees(np.where((tags == 1)[self.own], self.degrees.above, 0), self.degrees.far)
        share = self.objectness(fold, maps)
        return find_covers(self.windows, self.features, tags, degrees, cover, objectness=share, workers=2)

    def scores(self, config):
        """Of every window, by the detectors that have not seen its image."""
        out = np.empty((len(self.own), len(self.images.classes)), np.float32)
        for fold in range(FOLDS):
            tags, share = self.tags(fold), self.objectness(fold, config.maps)
            covers = self.covers(fold, config.maps, config.cover)
            initial = train_initial(self.windows, self.features, tags, covers, config.initial)
            weights = refine(self.windows, self.features, tags, initial, config.refine, objectness=share)
            held = self.fold[self.own] == fold
            scores = (
                score_windows(self.features.X, weights) + np.float32(config.refine.objectness_weight) * share
            )
            out[held] = scores[held]
        return out

    def measure(self, config):
        """AP07 and CorLoc, means over classes."""
        scores, windows = self.scores(config), self.windows
        parts = [
            detect_windows(
                scores[a:z],
                windows[i],
                image=i,
                classes=self.images.classes,
            )
            for i, (a, z) in enumerate(windows.spans())
        ]
        found = Detections.concatenate(parts, ids=self.images.ids)
        rows = best_windows(windows, self.images.tags, windows.by_image(scores)).rows
        row, label = np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        best = Detections(
            image=self.own[row],
            xyxy=windows.xyxy[row],
            score=scores[row, label],
            label=label,
            ids=self.images.ids,
            classes=self.images.classes,
        )
        return evaluate(found, self.images).mean, corloc(best, self.images).mean


def run():
    """Not one of `make bench`."""
    raise Skip("it needs a run folder: python -m benchmarks.ablations RUN VOC2007")


def main(path, data, names):
    folder = RunFolder(path)
    images = read_images(data, split="trainval").only(folder.images.classes)
    if images.ids != folder.images.ids:
        raise SystemExit(f"{path} was learned from other images than {data}")
    trials = [Trial(folder, images, seed) for seed in range(SEEDS)]
    print("| setting | AP07 | spread | CorLoc | spread |\n|---|---|---|---|---|")
    for name in names or TABLE:
        config = read_settings(Config(), None, TABLE[name])
        ap, share = 100 * np.array([trial.measure(config) for trial in trials]).T
        print(
            f"| {name} | {ap.mean():.1f} | {ap.std():.1f} | {share.mean():.1f} | {share.std():.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
