"""From what the early blocks see in photos, and the boxes of a run, to a `Convnet`: epoch by epoch.

Each epoch is a stage: a run that was killed goes on after the last whole one. Photos of a step are computed
side by side and added in their order, and what is drawn for a photo depends on its place alone: so the
weights are the same for any number of workers.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.description.photos import PhotoFiles
from tag2box.detector.adam import Adam, Epoch, Moments
from tag2box.detector.calibrating import calibrate_network, draw_held_out
from tag2box.detector.config import DetectorConfig
from tag2box.detector.labels import BoxLabels, find_labels
from tag2box.detector.looks import extent, first_look, proposals, second_look
from tag2box.detector.record import DENSE, HIDDEN, MAPPED, PARTS, SIZES, Convnet
from tag2box.detector.targets import Labels, cell_loss, copies, region_loss
from tag2box.detector.trunk import Weights, identity_head, network_weights, trunk
from tag2box.detector.views import Views, see_photos
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import map_threads
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run, stage
from tag2box.training.learned import Learned

Floats = NDArray[np.float32]

# Photos in a step.
BATCH = 4
# The rate of what the network knew, as a share of the size of each channel's weights; and of the looks.
TRUNK_RATE, LOOK_RATE = 1e-3, 5e-4
# Regions of a photo that the second look learns from: copies of its boxes a little off, and proposals.
REGIONS, COPIES, ON_BOX, OFF = 96, 6, 32, 0.12
# What the two losses weigh.
CELL_WEIGHT, REGION_WEIGHT = 1.0, 4.0
DROPPED = 0.5
# The first logits: hardly any cell, and hardly any region, shows anything.
FIRST_CELL, FIRST_BACKGROUND = -4.0, 3.0
# Photos, and cells of each, that choose the first projection of the last map.
DRAWN, OF_EACH = 60, 60


def n_epochs(n_photos: int, config: DetectorConfig) -> int:
    """The number of epochs: as set, or as many as the least number of steps takes."""
    return max(config.epochs, -(-config.steps // -(-n_photos // BATCH)))


@stage("start", version=1)
def start_learning(views: Views, classes: tuple[str, ...], config: DetectorConfig) -> Epoch:
    """The built-in network, its last map projected by principal components, and looks that know nothing."""
    rng, c = np.random.default_rng(config.seed), len(classes)
    weights = network_weights()
    with one_thread():
        weights |= _projection(views, weights, rng)

    def normal(n: int, m: int, scale: float = 1.0) -> Floats:
        return np.asarray(rng.standard_normal((n, m)) * np.sqrt(2 / n) * scale, np.float32)

    cells, regions = np.zeros((len(SIZES), c + 4), np.float32), np.zeros(c + 5, np.float32)
    cells[:, :c], regions[c] = FIRST_CELL, FIRST_BACKGROUND
    weights |= {"cells.0.W": normal(9 * MAPPED, DENSE), "cells.0.b": np.zeros(DENSE, np.float32)}
    weights |= {"cells.1.W": normal(DENSE, cells.size, 0.1), "cells.1.b": cells.ravel()}
    weights |= {"boxes.0.W": normal(PARTS * MAPPED, HIDDEN), "boxes.0.b": np.zeros(HIDDEN, np.float32)}
    weights |= {"boxes.1.W": normal(HIDDEN, c + 5, 0.1), "boxes.1.b": regions}
    return Epoch(weights, Moments.none(weights))


def _projection(views: Views, weights: Weights, rng: np.random.Generator) -> Weights:
    """The principal components of some cells of the last map, of length 1 in the mean."""
    cells = []
    for i in rng.permutation(len(views))[:DRAWN].tolist():
        X, _, _ = trunk(*views.of(i, mirrored=False), weights | identity_head())
        cells.append(X[rng.permutation(len(X))[:OF_EACH]])
    X = np.concatenate(cells).astype(np.float64)
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((X - mean).T))
    order = np.argsort(-values)[:MAPPED]
    axes = vectors[:, order] / np.sqrt(max(values[order].mean(), 1e-12))
    return {"mapped.W": axes.astype(np.float32), "mapped.b": (-mean @ axes).astype(np.float32)}


@stage("epoch", version=1)
def learn_epoch(
    before: Epoch,
    views: Views,
    labels: BoxLabels,
    photos: NDArray[np.intp],
    config: DetectorConfig,
    epoch: int,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Epoch:
    """Every one of `photos` once, as it is or mirrored."""
    net = Adam(before.weights, before.moments, _rates(before.weights))
    total, losses = n_epochs(len(photos), config), []
    order = np.random.default_rng([config.seed, epoch]).permutation(photos)
    steps = [order[a : a + BATCH] for a in range(0, len(order), BATCH)]
    label = f"learning, epoch {epoch + 1} of {total}" + (f", loss {before.loss:.2f}" if epoch else "")
    for k, step in enumerate(steps):
        progress(label, k * BATCH, len(order))
        visit = partial(_visit, net.weights, views, labels, config.seed, epoch)
        gradient: Weights = {}
        for loss, slopes in map_threads(visit, step.tolist(), workers=workers):
            losses.append(loss)
            for name, slope in slopes.items():
                gradient[name] = gradient[name] + slope if name in gradient else slope
        net.learn(gradient, (epoch * len(steps) + k) / (total * len(steps)))
    progress(label, len(order), len(order))
    return Epoch(net.weights, net.moments, float(np.mean(losses)))


def _rates(weights: Weights) -> dict[str, Floats]:
    """The rate of each weight: of the trunk by the size of its channel, of the looks one for all."""
    rates = {}
    for name, w in weights.items():
        size = np.sqrt((w.astype(np.float64) ** 2).mean(axis=tuple(range(max(w.ndim - 1, 1)))))
        learned = name.startswith(("cells", "boxes"))
        rates[name] = np.asarray(LOOK_RATE if learned else TRUNK_RATE * size, np.float32)
    return rates


def _visit(
    weights: Weights, views: Views, labels: BoxLabels, seed: int, epoch: int, i: int
) -> tuple[float, Weights]:
    """The loss of one photo and its gradient."""
    rng = np.random.default_rng([seed, epoch, i])
    mirrored = bool(rng.integers(2))
    maps, sizes, back = trunk(*views.of(i, mirrored=mirrored), weights)
    own = labels.of(i, extent(sizes), mirrored=mirrored)
    cells, back_cells = first_look(maps, sizes, weights)
    regions = draw_regions(cells, sizes, own, rng)
    kept = (rng.random((len(regions), HIDDEN)) >= DROPPED).astype(np.float32) / np.float32(1 - DROPPED)
    said, back_regions = second_look(maps, sizes, regions, weights, kept)
    loss, slope = cell_loss(cells, sizes, own)
    more, by_region = region_loss(said, regions, own)
    gradient: Weights = {}
    by_maps = back_cells(slope * np.float32(CELL_WEIGHT / BATCH), gradient)
    by_maps += back_regions(by_region * np.float32(REGION_WEIGHT / BATCH), gradient)
    back(by_maps, gradient)
    return CELL_WEIGHT * loss + REGION_WEIGHT * more, gradient


def draw_regions(
    cells: Floats, sizes: list[tuple[int, int]], own: Labels, rng: np.random.Generator
) -> Floats:
    """Copies of the boxes of a photo, a little off; the best proposals, and some of the others."""
    near = rng.permutation(copies(own, sizes, COPIES, OFF, rng))[:ON_BOX]
    proposed = proposals(cells, sizes, len(own.tags))[1]
    left = REGIONS - len(near)
    best, others = proposed[: left // 2], rng.permutation(proposed[left // 2 :])
    return np.concatenate([near, best, others[: left - len(best)]])


def learn_network(
    run: Run,
    photos: PhotoFiles,
    learned: Learned,
    classes: tuple[str, ...],
    config: DetectorConfig,
    suppression: tuple[float, float],
    corrections: Corrections | None,
) -> Convnet | None:
    """A network that learns from the boxes of these photos; None where there are too few of them.

    suppression: the overlap from which a window is suppressed, and that from which it votes.
    """
    tags = learned.known.tags
    tagged = np.flatnonzero((tags == 1).any(axis=1))
    if not config.epochs or len(tagged) < config.photos:
        run.note("no network", photos=len(tagged), least=config.photos)
        return None
    labels = run(find_labels, learned, *suppression, corrections)
    views = see_photos(run, photos, config.side)
    held = draw_held_out(len(photos), config.seed)
    rows, held_out = np.flatnonzero(~held), np.flatnonzero(held)
    epochs = [run.later(start_learning, None, views, classes, config)]
    for k in range(n_epochs(len(rows), config)):
        epochs.append(run.later(learn_epoch, epochs[-1], views, labels, rows, config, k))
    net: Convnet = run(calibrate_network, epochs[-1], views, labels, held_out, classes, config.side)
    for promise in (*epochs, views):
        run.drop(promise)
    return net
