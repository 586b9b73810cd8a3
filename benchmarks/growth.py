"""How time, memory and disk of each stage grow with the photos, from made features, and a projection.

    python -m benchmarks.growth 500 1000 2000

Photos of 300 windows, 1280 dimensions and 20 classes, in files that are mapped as in a run. Time is that of
the CPU; memory is the most that was held beside the maps (Linux). An exponent of 1 is linear. Two streams run
4 passes instead of 40, refinement 4 instead of up to 30, and neighbors look at 150 images instead of 5100.
"""

import ctypes
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from benchmarks import Line
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.sample import draw_sample
from tag2box.cover.stage import find_covers
from tag2box.features.record import Features
from tag2box.maps.object_maps import Maps
from tag2box.pipeline import Config
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.sharded import Known, find_all_competition, find_all_objectness
from tag2box.training.initial import InitialConfig, train_initial
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.retraining import RetrainConfig, find_boxes, findings, retrain
from tag2box.training.scorer import Scorer
from tag2box.training.two_stream import TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

WINDOWS, CELLS, D, CHANNELS, CLASSES = 300, 192, 1280, 320, 20
PASSES = 4


class Made:
    """Synthetic photos: windows of a photo are alike, those of a class have something in common."""

    def __init__(self, folder, n):
        rng = np.random.default_rng(0)
        corner = rng.random((n * WINDOWS, 2), np.float32) * 300
        xyxy = np.concatenate([corner, corner + 20 + rng.random((len(corner), 2), np.float32) * 150], axis=1)
        self.windows = Windows(xyxy, np.arange(n + 1) * WINDOWS, np.full((n, 2), (500, 375)))
        self.tags = np.where(rng.random((n, CLASSES)) < 0.08, 1, -1).astype(np.int8)
        kinds = rng.standard_normal((CLASSES, D), np.float32)
        features = open_memmap(folder / "X.npy", "w+", np.float16, (n * WINDOWS, D))
        maps = open_memmap(folder / "maps.npy", "w+", np.float16, (n * CELLS, CHANNELS))
        for i in range(n):
            x = rng.standard_normal((WINDOWS, D), np.float32) + rng.standard_normal(D, np.float32)
            x[:20] += (self.tags[i] == 1).astype(np.float32) @ kinds
            features[i * WINDOWS : (i + 1) * WINDOWS] = 20 * x / np.linalg.norm(x, axis=1, keepdims=True)
            maps[i * CELLS : (i + 1) * CELLS] = rng.random((CELLS, CHANNELS), np.float32)
        self.features = Features(np.load(folder / "X.npy", mmap_mode="r"), self.windows.offsets)
        cells = np.load(folder / "maps.npy", mmap_mode="r")
        self.maps = Maps(cells, np.arange(n + 1) * CELLS, np.tile([12, 16], (n, 1)))
        self.runner = Runner(Store(folder / "run"), workers=1)
        self.runner.keys = {name: stage_key(name, 1, {}) for name in ("objectness", "competition")}

    def known(self):
        return Known(self.windows, self.features, self.tags, self.maps)

    def disk(self):
        return sum(path.stat().st_size for path in (self.runner.store.folder).rglob("*.npy"))


def objectness(made):
    made.alone = find_all_objectness(made.known(), Config(), made.runner)


def competition(made):
    made.competition = find_all_competition(made.known(), made.alone, Config(), made.runner)
    made.objectness = made.competition.objectness


def two_streams(made):
    config = TwoStreamConfig(iterations=PASSES)
    made.two_stream = train_two_stream(made.features, made.tags, made.objectness, config)


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


def neighbors_and_cover(made):
    config = CoverConfig(most_images=150)
    some = draw_sample(made.windows, made.features, made.tags, config)
    degrees = count_neighbors(some.features, some.tags, config)
    inputs = some.windows, some.features, some.tags, degrees, config
    made.covers = [some.found(each) for each in find_covers(*inputs, objectness=some.taken(made.objectness))]


def initial(made):
    inputs = made.windows, made.features, made.tags, made.covers
    made.initial = train_initial(*inputs, InitialConfig())


def refinement(made):
    inputs = made.windows, made.features, made.tags, made.initial
    refine(*inputs, RefineConfig(rounds=4), objectness=made.objectness)


STAGES = (
    objectness,
    competition,
    two_streams,
    retraining,
    finding,
    neighbors_and_cover,
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


def measure(n):
    """Per stage: CPU seconds, MB beside the maps, MB on disk."""
    with tempfile.TemporaryDirectory() as folder:
        made, found = Made(Path(folder), n), {}
        for stage in STAGES:
            disk, start = made.disk(), time.process_time()
            with Peak() as peak:
                stage(made)
            found[stage.__name__] = time.process_time() - start, peak.mb, (made.disk() - disk) / 1e6
        return found


def exponent(sizes, values):
    """The slope of a line through the points, both in logarithms."""
    return np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-3)), 1)[0]


def run():
    """For `make bench`: how much longer each stage takes with four times the photos; linear is 4."""
    measure(20)  # compiles
    small, large = measure(100), measure(400)
    for name in small:
        seconds, mb, _ = large[name]
        ratio = seconds / max(small[name][0], 1e-3)
        yield Line(f"{name}, four times the photos", ratio, 4, "x the time", "linear", f"{mb:.0f} MB")


def main(sizes):
    measure(20)
    found = {n: measure(n) for n in sizes}
    print(
        "| stage |"
        + "".join(f" {n}: CPU s, MB, MB on disk |" for n in sizes)
        + " exponent | 100,000 photos |"
    )
    for name in found[sizes[0]]:
        cells = " | ".join("{:.1f}, {:.0f}, {:.0f}".format(*found[n][name]) for n in sizes)
        slope = exponent(sizes, [found[n][name][0] for n in sizes])
        last = found[sizes[-1]][name][0] * (100_000 / sizes[-1]) ** max(slope, 0)
        scale = 40 / PASSES if name == "two_streams" else 1
        print(f"| {name} | {cells} | {slope:.2f} | {scale * last / 3600:.1f} CPU h |", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [500, 1000, 2000])
