"""Networks of the detector: of toys, made in a moment, and some that have learned nothing."""

import numpy as np

from tag2box.description.record import Maps
from tag2box.detector.config import DetectorConfig
from tag2box.detector.learning import start_learning
from tag2box.detector.record import Convnet
from tag2box.detector.trunk import CUT_CHANNELS
from tag2box.detector.views import Views

# Settings under which the network of the toys is learned in seconds.
SMALL = (
    "detect.by=network",
    "detector.side=128",
    "detector.photos=4",
    "detector.epochs=1",
    "detector.steps=40",
)


def random_views(n=2, cells=(8, 12), seed=0):
    """Maps at the cut of photos that show nothing."""
    rng = np.random.default_rng(seed)
    sizes = [cells, (cells[0] // 2, cells[1] // 2)] * 2 * n
    maps = [Maps.of_image(rng.integers(-127, 128, (*size, CUT_CHANNELS), np.int8)) for size in sizes]
    return Views(Maps.concatenate(maps), np.full((4 * n, CUT_CHANNELS), 0.02, np.float32))


def random_weights(n_classes=3, seed=0):
    """The first weights, but looks that say something, anything, of every photo."""
    classes = tuple(f"class {i}" for i in range(n_classes))
    rng = np.random.default_rng(seed)
    weights = start_learning(random_views(), classes, DetectorConfig(seed=seed)).weights
    for name in ("cells.1.W", "boxes.1.W"):
        weights[name] = rng.normal(0, 0.1, weights[name].shape).astype(np.float32)
    return weights


def random_convnet(n_classes=3, side=192, seed=0):
    """One that says something of every photo."""
    rng = np.random.default_rng(seed)
    classes = tuple(f"class {i}" for i in range(n_classes))
    curves = np.column_stack([rng.uniform(0.5, 1, n_classes), rng.normal(size=n_classes)])
    return Convnet(classes, side, random_weights(n_classes, seed), curves)


def check_same(ours, theirs, pixels=0.5):
    """Boxes, scores and labels of two runtimes: the same within some pixels and 1e-3, best first in both.

    What scores the same within rounding may have changed places.
    """
    assert len(ours[0]) == len(theirs[0]) > 0
    for _, scores, _ in (ours, theirs):
        assert (np.diff(scores) <= 0).all()
    for box, score, label in zip(*ours, strict=True):
        same = (theirs[2] == label) & (np.abs(theirs[1] - score) < 1e-3)
        assert np.abs(theirs[0][same] - box).max(axis=1).min(initial=np.inf) < pixels
