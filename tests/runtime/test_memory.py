"""Memory beside the mapped arrays, measured at two sizes: what a photo more takes, in every stage.

What it takes with real sizes, 100,000 photos and 200 classes: benchmarks/growth.py and docs/scale.md.
"""

import tempfile
import tracemalloc

import numpy as np
import pytest
from numpy.lib.format import open_memmap

from tag2box.cover.compared import compare
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.description.record import Described, Maps
from tag2box.images import draw_images
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.training import agreement
from tag2box.training.activations import fit_activations
from tag2box.training.competition import compete
from tag2box.training.findings import find_best
from tag2box.training.folds import find_anew
from tag2box.training.initial import InitialConfig, train_svms
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness, fit_object_maps, measure_all
from tag2box.training.prior import choose_prior
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.retraining import RetrainConfig, find_boxes, retrain
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream, TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

WINDOWS, CELLS, D, CHANNELS = 100, 12, 16, 8
SIZES, CLASSES = (50, 150), (20, 60)
# The numbers of a described window: many times what else is known of it.
WIDE = 512


class Made:
    """Synthetic photos, large arrays of which are mapped from files, as in a run."""

    def __init__(self, folder, n, classes):
        rng = np.random.default_rng(0)
        rows, cells = np.arange(n + 1) * WINDOWS, np.arange(n + 1) * CELLS
        corner = rng.random((n * WINDOWS, 2), np.float32) * 60
        xyxy = np.concatenate([corner, corner + 10 + rng.random((len(corner), 2), np.float32) * 30], axis=1)
        # Bytes of one number per window and class, of a photo: what no stage may hold for all photos.
        self.table = 4 * WINDOWS * classes
        self.tags = np.where(rng.random((n, classes)) < 2 / classes, 1, -1).astype(np.int8)
        X = rng.normal(size=(n * WINDOWS, D)) + np.repeat(
            self.tags @ rng.normal(size=(classes, D)), WINDOWS, 0
        )
        activity = rng.random((n * CELLS, CHANNELS)).astype(np.float16)
        maps = Maps(mapped(folder / "maps.npy", activity), cells, np.tile([3, 4], (n, 1)))
        windows = Windows(xyxy, rows, np.full((n, 2), 100))
        self.described = Described(windows, mapped(folder / "X.npy", X.astype(np.float16)), maps)
        share = mapped(folder / "share.npy", rng.random((n * WINDOWS, classes), np.float32))
        self.objectness = Objectness(share, rows)
        self.known = Known(self.described, self.tags, self.objectness)
        self.weights = Weights(rng.normal(size=(classes, D)), np.zeros(classes))
        head = [rng.normal(size=(classes, D)).astype(np.float32) for _ in range(2)]
        self.two_stream = TwoStream(*head, np.zeros(classes, np.float32), 5.0)
        self.folder = folder

    @property
    def run(self):
        """A run that has nothing yet."""
        return Run(Store(tempfile.mkdtemp(dir=self.folder)), workers=1)


def mapped(path, values):
    out = open_memmap(path, "w+", values.dtype, values.shape)
    out[:] = values
    out.flush()
    return np.load(path, mmap_mode="r")


def objectness(made):
    activations = fit_activations(made.described, made.tags)
    maps = fit_object_maps(made.described, made.tags, activations, 2)
    assert isinstance(made.run.per_photo(measure_all, made.described, maps, 0.25), Objectness)


def competition(made):
    activations = fit_activations(made.described, made.tags)
    maps = fit_object_maps(made.described, made.tags, activations, 2)
    photos = made.described, made.objectness, made.tags
    assert isinstance(made.run.per_photo(compete, photos, maps, activations, 0.25), Objectness)


def prior(made):
    choose_prior(made.known, TwoStreamConfig(iterations=1))


def two_streams(made):
    train_two_stream(made.known, TwoStreamConfig(iterations=2, prior=5.0))


def boxes(made):
    return find_boxes(made.known, made.two_stream)


def retraining(made):
    retrain(made.known, boxes(made), RetrainConfig())


def folds(made):
    with pytest.MonkeyPatch.context() as patch:
        few = InitialConfig(rounds=3, hardest=50)  # half of the photos have more negatives than are held
        patch.setattr("tag2box.training.retraining.RetrainConfig.svm", few)
        find_anew(made.known, boxes(made), Scorer(made.weights), RetrainConfig(rounds=1))


def finding(made):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "MOST_PHOTOS", 40)  # it compares photos with each other, up to so many
        find_best(Scorer(made.weights), made.known, 0.5)


def initial(made):
    positives = [made.described.rows_of(column == 1)[::WINDOWS] for column in made.tags.T]
    negatives = [Spans.of_images(made.described, column == -1) for column in made.tags.T]
    train_svms(made.described.X, positives, negatives, InitialConfig(rounds=3, hardest=50))


def refinement(made):
    refine(made.known, made.weights, RefineConfig(rounds=1))


def cover(made):
    config, run = CoverConfig(most_images=40, dimensions=8), made.run
    photos = made.described, draw_images(made.tags, config.most_images)
    compared = run.per_photo(compare, photos, config.dimensions)
    images = np.arange(len(made.tags))
    degrees = run.per_photo(count_neighbors, images, compared, made.tags, config.k)
    find_covers(made.described.windows, compared, made.tags, degrees, config)


# What a photo more may take, in tables: whether a window is held is a quarter of one.
STAGES = {
    objectness: 0.1,
    competition: 0.1,
    prior: 0.1,
    two_streams: 0.1,
    boxes: 0.1,
    retraining: 0.3,
    folds: 0.4,
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
    monkeypatch.setattr("tag2box.training.known.PARTS", 4)
    monkeypatch.setattr("tag2box.training.known.SMALL", 1)
    monkeypatch.setattr("tag2box.training.prior.MOST_PHOTOS", 40)
    monkeypatch.setattr("tag2box.training.prior.PER_CLASS", 0)
    monkeypatch.setattr("tag2box.training.refinement.MOST_HELD", 100)
    monkeypatch.setattr("tag2box.runtime.arrays.MAPPED", 1 << 10)
    monkeypatch.setattr("tag2box.runtime.stages.SHARD", 8)
    stage(made[0])  # what is loaded and compiled once is no growth
    table = made[0].table
    if (growth := grown(stage, made)) >= STAGES[stage] * table:
        growth = grown(stage, made)  # the larger one may have loaded more
    assert growth < STAGES[stage] * table, f"{growth:.0f} bytes a photo, of {table} in a table"


def grown(stage, made):
    """The bytes that a photo more takes."""
    small, large = (peak(stage, each) for each in made)
    return (large - small) / (SIZES[1] - SIZES[0])
