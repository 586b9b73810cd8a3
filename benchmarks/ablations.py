"""What each setting is worth on VOC 2007 from tags: cross-validation on trainval, with spread over seeds.

    python -m benchmarks.ablations RUN VOC2007 [NAME...]

RUN: the folder of a finished `tag2box run VOC2007 --split trainval`, of either method: its photos are taken
as they are described there, and nothing is written in it. Images are dealt into three folds. For each, the
tags of the fold are hidden, the method learns from the rest, and the fold is scored. AP07 is that of all
folds together, CorLoc that of the best box of each positive image by the detector that has not seen it.
Spread: over the seeds of the split.
"""

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import Skip, under_key
from tag2box import corloc, evaluate, read_images
from tag2box.description.record import Described
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.images import known_tags
from tag2box.methods import METHODS
from tag2box.reproduce.voc_tables import detect_described
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.training.known import Known

FOLDS, SEEDS = 3, 3
TABLES = {
    "two_stream": {
        "as it is": (),
        "maps.components 1": ("maps.components=1",),
        "maps.components 3": ("maps.components=3",),
        "maps.components 5": ("maps.components=5",),
        "maps.ring 0.15": ("maps.ring=0.15",),
        "maps.ring 0.5": ("maps.ring=0.5",),
        "two_stream.weight 0": ("two_stream.weight=0",),
        "two_stream.weight 1": ("two_stream.weight=1",),
        "two_stream.prior 0": ("two_stream.prior=0",),
        "two_stream.prior 10": ("two_stream.prior=10",),
        "two_stream.regularization 0.001": ("two_stream.regularization=0.001",),
        "two_stream.regularization 0.01": ("two_stream.regularization=0.01",),
        "retrain.C 0.0025": ("retrain.C=0.0025",),
        "retrain.C 0.0004": ("retrain.C=0.0004",),
        "retrain.near 0 0": ("retrain.near=[0, 0]",),
        "retrain.objectness_weight 0": ("retrain.objectness_weight=0",),
        "retrain.objectness_weight 1": ("retrain.objectness_weight=1",),
        "retrain.tag_weight 0": ("retrain.tag_weight=0",),
    },
    "song2014": {
        "as it is": (),
        "SVM on the cover": ("refine.method=none",),
        "LSVM": ("refine.method=lsvm",),
        "refine.mu 0.1": ("refine.mu=0.1",),
        "refine.mu 0.5": ("refine.mu=0.5",),
        "C 0.0025": ("initial.C=0.0025", "refine.C=0.0025"),
        "C 0.0004": ("initial.C=0.0004", "refine.C=0.0004"),
        "squared hinge": ("initial.loss=squared_hinge", "refine.loss=squared_hinge"),
        "cover.method marginal": ("cover.method=marginal",),
        "cover.k 0.25": ("cover.k=0.25",),
        "cover.k 1": ("cover.k=1",),
        "cover.dimensions 128": ("cover.dimensions=128",),
        "cover.seed_dimensions 512": ("cover.seed_dimensions=512",),
        "cover.t 5": ("cover.t=5",),
        "cover.t 5, cover.g sqrt": ("cover.t=5", "cover.g=sqrt"),
        "cover.alpha 0.8": ("cover.alpha=0.8",),
        "cover.seeds 1": ("cover.seeds=1",),
        "negative mining": ("cover.initializer=negative_mining",),
    },
}


class Trial:
    """One split of the images into folds."""

    def __init__(self, folder, images, seed, store):
        self.images, self.run, self.description = images, Run(store), folder.result("description")
        self.described = under_key(folder.result("described"), folder.keys["described"])
        self.fold = np.random.default_rng(seed).integers(0, FOLDS, len(images))

    def detections(self, fold, config):
        """In the images of the fold, by a detector that has not seen their tags."""
        held_out = np.flatnonzero(self.fold == fold)
        tags = known_tags(self.images.tags, config.unknown).copy()
        tags[held_out] = 0
        learned = METHODS[config.method](Known(self.described, tags), config, self.run)
        calibration = learned.findings.calibration
        detector = Detector(self.images.classes, self.description, learned.scorer, calibration, config.detect)
        photos = Described.concatenate([self.described.part(i, i + 1) for i in held_out])
        found = detect_described(detector, self.images.take(held_out), photos)
        return replace(found, image=held_out[found.image], ids=self.images.ids)

    def measure(self, config):
        """AP07 and CorLoc, means over classes."""
        parts = [self.detections(fold, config) for fold in range(FOLDS)]
        found = Detections.concatenate(parts, ids=self.images.ids)
        return evaluate(found, self.images).mean, corloc(found, self.images).mean


def run():
    """Not one of `make bench`."""
    raise Skip("it needs a run folder: python -m benchmarks.ablations RUN VOC2007")


def main(path, data, names):
    folder = RunFolder(path)
    images = read_images(data, split="trainval").only(folder.images.classes)
    images = images.take([images.ids.index(name) for name in folder.images.ids])
    table = TABLES[folder.config.method]
    print("| setting | AP07 | spread | CorLoc | spread |\n|---|---|---|---|---|")
    with TemporaryDirectory() as scratch:  # what settings share is computed once
        trials = [Trial(folder, images, seed, Store(Path(scratch))) for seed in range(SEEDS)]
        for name in names or table:
            config = read_settings(folder.config, None, table[name])
            ap, share = 100 * np.array([trial.measure(config) for trial in trials]).T
            print(
                f"| {name} | {ap.mean():.1f} | {ap.std():.1f} | {share.mean():.1f} | {share.std():.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
