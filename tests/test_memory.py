"""Memory beside the mapped arrays, measured at two sizes: what a photo more takes, in every stage.

What it takes with real sizes, 100,000 photos and 200 classes: benchmarks/growth.py and docs/scale.md.
"""

import tempfile
import tracemalloc

import numpy as np
import pytest
from numpy.lib.format import open_memmap
from tag2box.cover.sample import draw_sample
from tag2box.sharded import Known, find_all_competition, find_all_objectness

from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.description.record import Features
from tag2box.pipeline import Config
from tag2box.runtime.stages import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.training.competition import Competition
from tag2box.training.initial import InitialConfig, train_svms
from tag2box.training.object_maps import Maps, WindowObjectness, fit_object_maps
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.retraining import RetrainConfig, find_boxes, findings, label_windows
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream, TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

WINDOWS, CELLS, D, CHANNELS = 100, 12, 16, 8
SIZES, CLASSES = (50, 150), (20, 60)


class Made:
    """Synthetic photos, large arrays of which are mapped from files, as in a run."""

    def __init__(self, folder, n, classes):
        rng = np.random.default_rng(0)
        rows, cells = np.arange(n + 1) * WINDOWS, np.arange(n + 1) * CELLS
        corner = rng.random((n * WINDOWS, 2), np.float32) * 60
        xyxy = np.concatenate([corner, corner + 10 + rng.random((len(corner), 2), np.float32) * 30], axis=1)
        self.windows = Windows(xyxy, rows, np.full((n, 2), 100))
        # Bytes of one number per window and class, of a photo: what no stage may hold for all photos.
        self.table = 4 * WINDOWS * classes
        self.tags = np.where(rng.random((n, classes)) < 2 / classes, 1, -1).astype(np.int8)
        X = rng.normal(size=(n * WINDOWS, D)) + np.repeat(
            self.tags @ rng.normal(size=(classes, D)), WINDOWS, 0
        )
        self.features = Features(mapped(folder / "X.npy", X.astype(np.float16)), rows)
        activity = rng.random((n * CELLS, CHANNELS)).astype(np.float16)
        self.maps = Maps(mapped(folder / "maps.npy", activity), cells, np.tile([3, 4], (n, 1)))
        self.share = mapped(folder / "share.npy", rng.random((n * WINDOWS, classes), np.float32))
        self.weights = Weights(rng.normal(size=(classes, D)), np.zeros(classes))
        head = [rng.normal(size=(classes, D)).astype(np.float32) for _ in range(2)]
        self.two_stream = TwoStream(*head, np.zeros(classes, np.float32), 5.0)
        self.folder = folder

    @property
    def run(self):
        """A run that has nothing yet."""
        run = Runner(Store(tempfile.mkdtemp(dir=self.folder)), workers=1)
        run.keys = {name: stage_key(name, 1, {}) for name in ("objectness", "competition")}
        return run

    @property
    def known(self):
        return Known(self.windows, self.features, self.tags, self.maps)


def mapped(path, values):
    out = open_memmap(path, "w+", values.dtype, values.shape)
    out[:] = values
    out.flush()
    return np.load(path, mmap_mode="r")


def objectness(made):
    assert isinstance(find_all_objectness(made.known, Config(), made.run), WindowObjectness)


def competition(made):
    alone = WindowObjectness(fit_object_maps(made.maps, made.tags, 2), made.share)
    assert isinstance(find_all_competition(made.known, alone, Config(), made.run), Competition)


def two_streams(made):
    train_two_stream(made.features, made.tags, made.share, TwoStreamConfig(iterations=2))


def boxes(made):
    return find_boxes(made.windows, made.features, made.tags, made.share, made.two_stream)


def retraining(made):
    config = RetrainConfig()
    found = label_windows(made.windows, made.tags, boxes(made), config)
    train_svms(made.features, *found, InitialConfig(rounds=2, hardest=50))


def finding(made):
    scorer = Scorer(made.weights)
    findings(scorer, made.windows, made.features, made.tags, made.maps, made.share, 0.5)


def initial(made):
    positives = [made.windows.rows_of(column == 1)[::WINDOWS] for column in made.tags.T]
    negatives = [Spans.of_images(made.features, column == -1) for column in made.tags.T]
    train_svms(made.features, positives, negatives, InitialConfig(rounds=3, hardest=50))


def refinement(made):
    inputs = made.windows, made.features, made.tags, made.weights
    refine(*inputs, RefineConfig(rounds=1), objectness=made.share)


def cover(made):
    config = CoverConfig(most_images=40, snap="contrast", dimensions=8)
    some = draw_sample(made.windows, made.features, made.tags, config)
    degrees = count_neighbors(some.features, some.tags, config)
    find_covers(some.windows, some.features, some.tags, degrees, config)


# What a photo more may take, in tables: whether a window is held is a quarter of one.
STAGES = {
    objectness: 0.1,
    competition: 0.1,
    two_streams: 0.1,
    boxes: 0.1,
    retraining: 0.3,
    finding: 0.1,
    initial: 0.4,
    refinement: 0.5,
    cover: 0.4,
}


def peak(stage, made):
    """The most bytes that the stage held, arrays that are mapped left out."""
    tracemalloc.start()
    try:
        stage(made)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=CLASSES, ids="{} classes".format)
def made(request, tmp_path_factory):
    return [Made(tmp_path_factory.mktemp(f"made-{n}"), n, request.param) for n in SIZES]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_memory_hardly_grows_with_the_photos(made, stage, monkeypatch):
    monkeypatch.setattr("tag2box.training.scoring.BLOCK", 512)
    monkeypatch.setattr("tag2box.training.two_stream.SMALL", 8)
    monkeypatch.setattr("tag2box.training.photo_parts.PARTS", 4)
    monkeypatch.setattr("tag2box.training.photo_parts.SMALL", 1)
    monkeypatch.setattr("tag2box.training.refinement.MOST_HELD", 100)
    monkeypatch.setattr("tag2box.runtime.arrays.MAPPED", 1 << 10)
    monkeypatch.setattr("tag2box.runtime.stages.SHARD", 8)
    stage(made[0])  # what is loaded and compiled once is no growth
    small, large = (peak(stage, each) for each in made)
    growth = (large - small) / (SIZES[1] - SIZES[0])
    table = made[0].table
    assert growth < STAGES[stage] * table, f"{growth:.0f} bytes a photo, of {table} in a table"
