"""Detection: one photo of VOC's size, the command from its start, and all of VOC 2007 by projection.

TAG2BOX_RUN names the folder of a finished run over VOC 2007 trainval. The hour is projected: stages are timed
over some photos with two workers, after a round that is not counted; learning is taken from the run's notes
and grows with the photos, as it is linear in them.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import Line, Skip, data, trained
from benchmarks.workers import stages
from tag2box.data.reading import read_images

PHOTOS, ROUNDS = 32, 3
# VOC 2007.
TRAINVAL, TEST = 5011, 4952
DESCRIBED = ("sample", "description", "described")


def run():
    learned = trained()
    images = read_images(data("voc20") / "VOC2007", split="test")
    images = images.take(np.random.default_rng(0).permutation(len(images))[:PHOTOS])
    yield one_photo(learned.detector, images.paths)
    yield command(learned, images.paths[0])
    yield hour(learned, images)


def one_photo(detector, paths):
    """The median photo on two threads, against one whose windows are all described in full."""
    every = replace(detector, settings=replace(detector.settings, full_windows=0))
    ours, rival = (np.median(best(one, paths)) for one in (detector, every))
    n = len(detector.classes)
    return Line(
        f"detect, {n} classes", ours, 0.15, "s", "the limit", f"{rival / ours:.2f} x all windows", bar=1.0
    )


def best(detector, paths):
    """The shortest of some rounds for each photo; a first one prepares the network for its size."""
    rounds = [[timed(lambda p=path: detector.detect(p, threads=2)) for path in paths] for _ in range(ROUNDS)]
    return np.min(rounds[1:], axis=0)


def command(learned, photo):
    """From the start of the command to its boxes."""
    words = [sys.executable, "-m", "tag2box", "detect", str(photo), "--run", str(learned.folder)]
    with TemporaryDirectory() as folder:
        words += ["--out", str(Path(folder) / "boxes.json")]
        seconds = min(
            timed(lambda: subprocess.run(words, check=True, capture_output=True)) for _ in range(ROUNDS)
        )
    return Line("tag2box detect, one photo", seconds, 2.0, "s", "the limit", "a new process", bar=1.0)


def hour(learned, images):
    """All of VOC 2007 on two workers: learn, detect, evaluate."""
    with TemporaryDirectory() as folder:
        rounds = [stages(learned, images, Path(folder) / str(i), 2) for i in range(ROUNDS)]
    wall = {name: min(each[name][0] for each in rounds[1:]) / len(images) for name in rounds[0]}
    learning = learning_seconds(learned.folder) * TRAINVAL / len(learned.images)
    total = TRAINVAL * wall["described"] + learning + TEST * wall["detections"]
    each = ", ".join(f"{name} {seconds:.3f}" for name, seconds in wall.items())
    quality = f"s a photo: {each}; learning {learning:.0f} s"
    return Line("VOC 2007, projected", total / 60, 60.0, "min", "the limit", quality, bar=1.0)


def learning_seconds(folder):
    """What the stages behind the description took, by the notes of the run; the last note of each counts."""
    took = {}
    for line in (Path(folder) / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "finished" and not event.get("reused"):
            took[event["stage"]] = event["seconds"]
    if "described" not in took:
        raise Skip("the run of TAG2BOX_RUN was not computed in one go: its notes lack a stage")
    return sum(seconds for stage, seconds in took.items() if stage not in DESCRIBED)


def timed(job):
    start = time.perf_counter()
    job()
    return time.perf_counter() - start
