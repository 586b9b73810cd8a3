"""How time, memory and disk of each stage grow with the photos, from made features, and a projection.

    python -m benchmarks.growth 1000 5000 20000 > growth.jsonl
    python -m benchmarks.growth 1000 4000 --classes 200 > many.jsonl

Photos of 300 windows, 1280 dimensions and 20 classes, in files that are mapped as in a run (below TMPDIR: 0.9
MB a photo). A line for each stage and size: CPU seconds, the most MB that were held beside the maps (Linux),
MB on disk, and how much of the stage it was. What takes hours is measured in part: 4 of about 42 evaluations
of the two streams, 2 of up to 30 rounds of refinement, the neighbors of 8,192 windows of a million, and the
cover of one class. `benchmarks._growth_table` makes table and plot of it.
"""

import argparse
import ctypes
import json
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from benchmarks import Line, under_key
from tag2box.config import Config
from tag2box.cover.compared import compare
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import Degrees, count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.description.record import Described, Maps
from tag2box.images import draw_images
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.training.activations import fit_activations
from tag2box.training.competition import compete
from tag2box.training.findings import find_best
from tag2box.training.initial import InitialConfig, train_initial
from tag2box.training.known import Known
from tag2box.training.object_maps import fit_object_maps, measure_all
from tag2box.training.prior import choose_prior
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.retraining import RetrainConfig, find_boxes, retrain
from tag2box.training.scorer import Scorer
from tag2box.training.two_stream import TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

WINDOWS, CELLS, D, CHANNELS = 300, 192, 1280, 320
# Classes that a photo shows, in the mean.
SHOWN = 1.6
PASSES, SEARCHED = 2, 1 << 13


class Made:
    """The first n synthetic photos: windows of a photo are alike, those of a class share something."""

    def __init__(self, folder, n, classes):
        rng = np.random.default_rng(0)
        corner = rng.random((n * WINDOWS, 2), np.float32) * 300
        xyxy = np.concatenate([corner, corner + 20 + rng.random((len(corner), 2), np.float32) * 150], axis=1)
        windows = Windows(xyxy, np.arange(n + 1) * WINDOWS, np.full((n, 2), (500, 375)))
        X = np.load(folder / "X.npy", mmap_mode="r")[: n * WINDOWS]
        cells = np.load(folder / "maps.npy", mmap_mode="r")[: n * CELLS]
        maps = Maps(cells, np.arange(n + 1) * CELLS, np.tile([12, 16], (n, 1)))
        described = under_key(Described(windows, X, maps), f"made {n} {classes}")
        self.known = Known(described, make_tags(n, classes))
        self.run = Run(Store(folder / f"run-{n}"), workers=1)

    def disk(self):
        return sum(path.stat().st_size for path in self.run.store.folder.rglob("*.npy"))


def make_tags(n, classes):
    shown = np.random.default_rng(1).random((n, classes)) < SHOWN / classes
    return np.where(shown, 1, -1).astype(np.int8)


def make(folder, n, classes):
    """Features and maps of n photos."""
    rng, tags = np.random.default_rng(2), make_tags(n, classes)
    kinds = rng.standard_normal((classes, D), np.float32)
    features = open_memmap(folder / "X.npy", "w+", np.float16, (n * WINDOWS, D))
    maps = open_memmap(folder / "maps.npy", "w+", np.float16, (n * CELLS, CHANNELS))
    for i in range(n):
        x = rng.standard_normal((WINDOWS, D), np.float32) + rng.standard_normal(D, np.float32)
        x[:20] += (tags[i] == 1).astype(np.float32) @ kinds
        x *= 20 / np.linalg.norm(x, axis=1, keepdims=True)
        features[i * WINDOWS : (i + 1) * WINDOWS] = x
        maps[i * CELLS : (i + 1) * CELLS] = rng.random((CELLS, CHANNELS), np.float32)


def objectness(made):
    described, tags, maps = made.known.described, made.known.tags, Config().maps
    made.activations = made.run(fit_activations, described, tags)
    made.maps = made.run(fit_object_maps, described, tags, made.activations, maps.components)
    made.alone = made.run.per_photo(measure_all, described, made.maps, maps.ring)


def competition(made):
    described, tags = made.known.described, made.known.tags
    photos = described, made.alone, tags
    shared = made.run.per_photo(compete, photos, made.maps, made.activations, Config().maps.ring)
    made.known = replace(made.known, objectness=shared)


def prior(made):
    """With as few steps as `two_streams`, of which it trains one for each prior and fold."""
    choose_prior(made.known, TwoStreamConfig(iterations=PASSES))
    return (TwoStreamConfig().iterations + 2) / (PASSES + 2)


def two_streams(made):
    made.two_stream = train_two_stream(made.known, TwoStreamConfig(prior=5, iterations=PASSES))
    # L-BFGS takes one evaluation at the start, and mostly one more to find the length of its first step.
    return (TwoStreamConfig().iterations + 2) / (len(made.two_stream.trace) + 2)


def retraining(made):
    made.weights = retrain(made.known, find_boxes(made.known, made.two_stream), RetrainConfig())


def finding(made):
    scorer = Scorer(
        made.weights,
        objectness_weight=0.5,
        streams_weight=0.5,
        tag_weight=0.2,
        object_maps=made.maps,
        two_stream=made.two_stream,
        activations=made.activations,
    )
    find_best(scorer, made.known, 1.0)


def compared(made, config):
    """What is compared of the images drawn."""
    drawn = draw_images(made.known.tags, config.most_images)
    return compare((made.known.described, drawn), config.dimensions)


def neighbors(made):
    """Of some positive images that were drawn, among all that were."""
    config, tags = CoverConfig(), made.known.tags
    among = compared(made, config)
    positive = np.flatnonzero((tags == 1).any(axis=1) & (among.counts > 0))
    few = positive[: max(SEARCHED // WINDOWS, 1)]
    count_neighbors(few, among, tags, config.k)
    return len(positive) / len(few)


def cover(made):
    """Of the first class of the sample; the degrees are made up, and no cost depends on them."""
    config, rng, known = CoverConfig(), np.random.default_rng(3), made.known
    among = compared(made, config)
    degrees = Degrees(*rng.random((2, len(among.X), 1), np.float32))
    find_covers(known.described.windows, among, known.tags[:, :1], degrees, config)
    return known.tags.shape[1]


def small_cover(made):
    """That of 300 images, to have something to learn from."""
    config, known = CoverConfig(most_images=300), made.known
    among = compared(made, config)
    degrees = count_neighbors(np.arange(len(known)), among, known.tags, config.k)
    made.covers = find_covers(known.described.windows, among, known.tags, degrees, config)


def initial(made):
    made.initial = train_initial(made.known, made.covers, InitialConfig())


def refinement(made):
    weights = refine(made.known, made.initial, RefineConfig(rounds=PASSES))
    return (RefineConfig().rounds + 1) / max(map(len, weights.trace))  # a pass to begin with, one a round


STAGES = (
    objectness,
    competition,
    prior,
    two_streams,
    retraining,
    finding,
    neighbors,
    cover,
    small_cover,
    initial,
    refinement,
)


class Peak:
    """The most anonymous memory of this process while it is in here, above what it had before, in MB."""

    def __enter__(self):
        with suppress(OSError, AttributeError):  # what is free goes back to the system, where glibc is
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        self.before = self.most = held()
        self.inside = True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while self.inside:
            self.most = max(self.most, held())
            time.sleep(0.01)

    def __exit__(self, *_):
        self.inside = False
        self.thread.join()
        self.mb = (self.most - self.before) / 1e6


def held():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    return 0


def measure(folder, n, classes, stages=STAGES):
    """Of each stage: CPU seconds, MB beside the maps, MB on disk, and the share of it that was measured."""
    made = Made(folder, n, classes)
    for stage in stages:
        disk, start = made.disk(), time.process_time()
        with Peak() as peak:
            times = stage(made) or 1
        seconds = time.process_time() - start
        yield {
            "stage": stage.__name__,
            "photos": n,
            "classes": classes,
            "seconds": round(seconds, 2),
            "times": round(times, 2),
            "mb": round(peak.mb),
            "disk_mb": round((made.disk() - disk) / 1e6),
        }


def measured(sizes, classes=20, stages=STAGES):
    """The lines of all sizes, the smallest first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, max(sizes), classes)
        list(measure(folder, 20, classes, stages))  # compiles
        for n in sorted(sizes):
            yield from measure(folder, n, classes, stages)


def run():
    """For `make bench`: how much longer each stage takes with four times the photos; linear is 4."""
    found = list(measured([100, 400]))
    for small, large in zip(found[: len(STAGES)], found[len(STAGES) :], strict=True):
        before, after = (line["seconds"] * line["times"] for line in (small, large))
        name = f"{large['stage']}, four times the photos"
        yield Line(name, after / max(before, 1e-3), 4, "x the time", "linear", f"{large['mb']} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("photos", type=int, nargs="*", default=[500, 1000, 2000])
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--stages", nargs="*", default=[stage.__name__ for stage in STAGES])
    told = parser.parse_args()
    chosen = [stage for stage in STAGES if stage.__name__ in told.stages]
    for line in measured(told.photos, told.classes, chosen):
        print(json.dumps(line), flush=True)
