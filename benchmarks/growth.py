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
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from tag2box.cover.sample import draw_sample
from tag2box.sharded import Known, find_all_competition, find_all_objectness

from benchmarks import Line
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import Degrees, block_count, count_blocks, count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.description.record import Features
from tag2box.neighbors.search import block_size
from tag2box.pipeline import Config
from tag2box.runtime.stages import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.training.initial import InitialConfig, train_initial
from tag2box.training.object_maps import Maps
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.retraining import RetrainConfig, find_boxes, findings, retrain
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
        self.windows = Windows(xyxy, np.arange(n + 1) * WINDOWS, np.full((n, 2), (500, 375)))
        self.tags = make_tags(n, classes)
        self.features = Features(
            np.load(folder / "X.npy", mmap_mode="r")[: n * WINDOWS], self.windows.offsets
        )
        cells = np.load(folder / "maps.npy", mmap_mode="r")[: n * CELLS]
        self.maps = Maps(cells, np.arange(n + 1) * CELLS, np.tile([12, 16], (n, 1)))
        self.runner = Runner(Store(folder / f"run-{n}"), workers=1)
        self.runner.keys = {name: stage_key(name, 1, {}) for name in ("objectness", "competition")}

    def known(self):
        return Known(self.windows, self.features, self.tags, self.maps)

    def disk(self):
        return sum(path.stat().st_size for path in (self.runner.store.folder).rglob("*.npy"))


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
    made.alone = find_all_objectness(made.known(), Config(), made.runner)


def competition(made):
    made.competition = find_all_competition(made.known(), made.alone, Config(), made.runner)
    made.objectness = made.competition.objectness


def two_streams(made):
    config = TwoStreamConfig(iterations=PASSES)
    made.two_stream = train_two_stream(made.features, made.tags, made.objectness, config)
    # L-BFGS takes one evaluation at the start, and mostly one more to find the length of its first step.
    return (TwoStreamConfig().iterations + 2) / (len(made.two_stream.trace) + 2)


def retraining(made):
    boxes = find_boxes(made.windows, made.features, made.tags, made.objectness, made.two_stream)
    made.weights = retrain(made.windows, made.features, made.tags, boxes, RetrainConfig())


def finding(made):
    scorer = Scorer(
        made.weights,
        objectness_weight=0.5,
        streams_weight=0.5,
        tag_weight=0.2,
        object_maps=made.alone.maps,
        two_stream=made.two_stream,
        activations=made.competition.activations,
    )
    findings(scorer, made.windows, made.features, made.tags, made.maps, made.objectness, 1.0)


def neighbors(made):
    """Blocks of the search of all windows among the images of the sample; the index is that of all."""
    config = CoverConfig()
    some = draw_sample(made.windows, made.features, made.tags, config)
    blocks = block_count(some.features, some.tags, config)
    few = max(SEARCHED // block_size(some.features.offsets), 1)
    list(count_blocks(some.features, some.tags, config, range(few, blocks)))
    return blocks / min(few, blocks)


def cover(made):
    """Of the first class of the sample; the degrees are made up, and no cost depends on them."""
    config, rng = CoverConfig(), np.random.default_rng(3)
    some = draw_sample(made.windows, made.features, made.tags, config)
    degrees = Degrees(*rng.random((2, len(some.features.X), 1), np.float32))
    inputs = some.windows, some.features, some.tags[:, :1], degrees, config
    find_covers(*inputs, objectness=some.taken(made.objectness)[:, :1])
    return made.tags.shape[1]


def small_cover(made):
    """That of 300 images, to have something to learn from."""
    config = CoverConfig(most_images=300)
    some = draw_sample(made.windows, made.features, made.tags, config)
    degrees = count_neighbors(some.features, some.tags, config)
    inputs = some.windows, some.features, some.tags, degrees, config
    made.covers = [some.found(each) for each in find_covers(*inputs, objectness=some.taken(made.objectness))]


def initial(made):
    inputs = made.windows, made.features, made.tags, made.covers
    made.initial = train_initial(*inputs, InitialConfig())


def refinement(made):
    inputs = made.windows, made.features, made.tags, made.initial
    refined = refine(*inputs, RefineConfig(rounds=PASSES), objectness=made.objectness)
    # A pass to begin with, one a round, and two for what is found.
    return (RefineConfig().rounds + 3) / (max(map(len, refined.trace)) + 2)


STAGES = (
    objectness,
    competition,
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
