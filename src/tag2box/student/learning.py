"""`learn_student`: from what the trunk sees in photos, and the lessons of a run, to a student."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.student import first_look, second_look
from tag2box.student.adam import Adam
from tag2box.student.config import StudentConfig
from tag2box.student.first_look import View, cell_targets, train_cells
from tag2box.student.lessons import Lessons
from tag2box.student.looking import fuse, perceptron, proposals, regions
from tag2box.student.maps import StudentMaps
from tag2box.student.record import AROUND, CELL, GRID, SIZES, Axes, Curves, Layers, Student
from tag2box.student.second_look import Regions, draw_regions, train_regions
from tag2box.training.calibration import calibrate

Floats = NDArray[np.float32]
T = TypeVar("T")

# Channels that are kept of the early and of the last map, and cells of each photo that choose them.
KEPT, SAMPLE = (64, 192), 40


@stage("student", version=1)
def learn_student(
    maps: StudentMaps,
    lessons: Lessons,
    classes: tuple[str, ...],
    reliability: NDArray[np.float64] | None,
    config: StudentConfig,
    *,
    progress: Progress = silent,
) -> Student:
    """The student of a run, its two looks learned one after the other.

    reliability: (n_classes,), about the share of the run's boxes that are right.
    """
    with one_thread():  # the last bit of a product depends on the threads
        rng = np.random.default_rng(config.seed)
        axes = _axes(maps, rng)
        views = [_view(maps, lessons, axes, i, m) for i in range(len(maps)) for m in (False, True)]
        dense = _learn_cells(views, config, rng, progress)
        second = _learn_regions(views, dense, config, rng, progress)
        best = _best_scores(views[::2], dense, second)
        calibration = Curves(calibrate(best, lessons.tags), reliability)
    return Student(classes, config.side, *axes, dense, second, calibration)


def _axes(maps: StudentMaps, rng: np.random.Generator) -> tuple[Axes, Axes]:
    """The principal components of both maps' channels, scaled by one number each."""
    out = []
    for each, kept in zip((maps.early, maps.last), KEPT, strict=True):
        counts = np.diff(each.offsets)
        cells = np.concatenate(
            [a + rng.integers(0, n, SAMPLE) for a, n in zip(each.offsets, counts, strict=False)]
        )
        X = each.X[np.sort(cells)].astype(np.float64)
        mean = X.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov((X - mean).T))
        order = np.argsort(-values)[:kept]
        axes = vectors[:, order] / np.sqrt(max(values[order].mean(), 1e-12))
        out.append(Axes(mean.astype(np.float32), axes.astype(np.float32)))
    return out[0], out[1]


def _view(maps: StudentMaps, lessons: Lessons, axes: tuple[Axes, Axes], i: int, mirrored: bool) -> View:
    """Photo i as the student sees it, with its lesson in the pixels that it sees."""
    fused = fuse(*maps.of(i, mirrored), axes).astype(np.float16)
    h, w, _ = fused.shape
    lesson = lessons[i]
    scale = np.array([w * CELL, h * CELL], np.float32) / lessons.sizes[i]
    boxes = lesson.boxes * np.tile(scale, 2).astype(np.float32)
    if mirrored:
        boxes[:, [0, 2]] = w * CELL - boxes[:, [2, 0]]
    return View(fused, boxes, lesson.label, lesson.right, lesson.tags)


def _learn_cells(
    views: list[View], config: StudentConfig, rng: np.random.Generator, progress: Progress
) -> Layers:
    """The layers of the first look."""
    taught = [cell_targets(view) for view in views]
    n_classes, c = len(views[0].tags), views[0].fused.shape[2]
    batches = list(_batches(len(views), first_look.BATCH, config, rng))
    sizes = (9 * c, config.hidden, config.hidden, len(SIZES) * (n_classes + 4))
    net = Adam(sizes, first_look.RATE, len(batches), config.seed)
    net.layers[-1].reshape(len(SIZES), -1)[:, :n_classes] = first_look.FIRST_LOGIT
    _steps(
        batches,
        "first look",
        progress,
        lambda rows: train_cells(net, [views[i] for i in rows], [taught[i] for i in rows], rng),
    )
    return net.layers


def _learn_regions(
    views: list[View], dense: Layers, config: StudentConfig, rng: np.random.Generator, progress: Progress
) -> Layers:
    """The layers of the second look."""
    taught: list[Regions] = []
    _steps(views, "proposals", progress, lambda view: taught.append(draw_regions(view, dense, rng)))
    n_classes, c = len(views[0].tags), views[0].fused.shape[2]
    batches = list(_batches(len(views), second_look.BATCH, config, rng))
    sizes = ((GRID**2 + AROUND**2 + 1) * c, config.hidden, config.hidden, n_classes + 4)
    net = Adam(sizes, second_look.RATE, len(batches), config.seed + 1)
    net.layers[-1][:n_classes] = second_look.FIRST_LOGIT
    _steps(
        batches,
        "second look",
        progress,
        lambda rows: train_regions(net, [views[i] for i in rows], [taught[i] for i in rows], rng),
    )
    return net.layers


def _batches(
    n: int, size: int, config: StudentConfig, rng: np.random.Generator
) -> Iterator[NDArray[np.intp]]:
    """Rows of views, each of them once in an epoch."""
    for _ in range(max(config.epochs, -(-config.steps // -(-n // size)))):
        order = rng.permutation(n)
        yield from (order[a : a + size] for a in range(0, n, size))


def _steps(items: Sequence[T], label: str, progress: Progress, step: Callable[[T], object]) -> None:
    for i, item in enumerate(items):
        progress(label, i, len(items))
        step(item)
    progress(label, len(items), len(items))


def _best_scores(views: list[View], dense: Layers, second: Layers) -> Floats:
    """The best score of every class in every photo, (n_photos, n_classes)."""
    best = []
    for view in views:
        n_classes = len(view.tags)
        _, boxes = proposals(view.fused, dense, n_classes)
        said = perceptron(regions(view.fused, boxes), second)
        best.append(said[:, :n_classes].max(axis=0))
    return np.stack(best)
