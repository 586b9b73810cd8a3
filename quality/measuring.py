"""What is measured: each part takes the data folder and an empty one, and gives figures in per cent."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tag2box as t2b
from tag2box.evaluation.reliability import reliability
from tag2box.reproduce.printed import SIX

__all__ = ["PARTS"]

# Of voc20: 450 photos to learn from and 300 to test on, all 20 classes; of voc6, for the paper's own method,
# 354 and 262.
EVERY = 3


def voc20(data, out):
    learn, test = thirds(data / "voc20" / "VOC2007")
    return learned(replace(learn, truth=None), learn, test, out)


def paper(data, out):
    learn, test = (images.only(SIX) for images in thirds(data / "voc6" / "VOC2007"))
    return learned(replace(learn, truth=None), learn, test, out, t2b.Config.song2014())


def thirds(folder):
    """Every third photo to learn from, and every third one to test on."""
    whole = [t2b.read_images(folder, split=split) for split in ("trainval", "test")]
    return [images.take(np.arange(0, len(images), EVERY)) for images in whole]


def cards(data, out):
    return learned(*wild(data / "wild" / "cards"), out)


def steel(data, out):
    return learned(*wild(data / "wild" / "steel"), out)


def wild(folder):
    """Photos and tags to learn from, the same with their true boxes, and those to test on with theirs."""
    photos, test, truth = (folder / name for name in ("photos", "test", "truth"))
    images = t2b.read_images(photos)
    return images, t2b.read_images(photos, truth / "train.json"), t2b.read_images(test, truth / "test.json")


def learned(learn, truth, test, out, config=None):
    """CorLoc in the photos that were learned from; in the others AP, and 100 - the error of confidences."""
    model = t2b.Tag2Box(config, out=out / "run").fit(learn)
    boxes = out / "boxes.csv"
    command("export", out / "run", "--format", "csv", "--out", boxes, "--all")
    corloc = t2b.corloc(t2b.read_detections(boxes, truth), truth)
    detections = model.predict(test)
    error = reliability(detections, test).error
    return {
        "corloc": 100 * corloc.mean,
        "ap": 100 * t2b.evaluate(detections, test).mean,
        "sure": 100 * (1 - error),
    }


def mil(data, out):  # noqa: ARG001  computed in memory
    return {name: accuracy(data / "mil" / f"{name}.npz") for name in ("musk1", "elephant")}


def accuracy(file):
    """Of ten folds, the mean over three ways to draw them."""
    with np.load(file) as parts:
        bags, y = t2b.Bags(parts["X"].astype(float), parts["offsets"]), parts["y"]
    model = make_pipeline(t2b.PerInstance(StandardScaler()), t2b.SmoothLatentSVC(C=0.01, mu=1.0))
    folds = [StratifiedKFold(10, shuffle=True, random_state=seed) for seed in range(3)]
    return 100 * np.mean([cross_val_score(model, bags, y, cv=cv).mean() for cv in folds])


def demo(data, out):  # noqa: ARG001  it makes its scenes
    answer = json.loads(command("demo", "--out", out, "--json"))
    return {"corloc": 100 * answer["corloc"]["learned"]["mean"], "ap": 100 * answer["scores"]["mean"]}


def command(*words):
    """What a command of tag2box says."""
    words = [sys.executable, "-m", "tag2box", *map(str, words)]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


PARTS = {part.__name__: part for part in (mil, demo, cards, steel, voc20, paper)}
