"""The greedy cover against reading the edges once and against apricot; CorLoc of the covered windows.

The CorLoc table needs a run on voc6 trainval, named by TAG2BOX_RUN.
"""

from time import process_time

import numpy as np

from benchmarks import Line, Skip, data, trained
from tag2box.cover.compared import compare
from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.evaluation.scores import corloc
from tag2box.neighbors.search import Neighbors, group_neighbors

ROUNDS = 5


def run():
    yield from speed()
    yield from against_apricot()
    yield from corloc_table()


def made_graph(n_windows, degree, n_images=1667, per=300, seed=0):
    """Windows of 200 topics: a topic's windows share images and, in each, three boxes, as real ones do."""
    rng = np.random.default_rng(seed)
    image = np.empty((n_windows, degree), np.int32)
    window = np.empty((n_windows, degree), np.int32)
    topic = rng.integers(0, 200, n_windows)
    for t in range(200):
        images = rng.permutation(n_images)[: rng.integers(2 * degree, 4 * degree)]
        favorites = rng.integers(0, per, (len(images), 3))
        mine = np.flatnonzero(topic == t)
        pick = np.argpartition(rng.random((len(mine), len(images)), np.float32), degree, axis=1)[:, :degree]
        image[mine] = images[pick]
        window[mine] = images[pick] * per + favorites[pick, rng.integers(0, 3, pick.shape)]
    distance = np.sort(rng.random((n_windows, degree), np.float32), axis=1)
    return cover_graph(Neighbors(image, window, distance), np.ones(n_images, bool), degree)


def best_of(rounds, *jobs):
    """The shortest CPU time of each job (all run on one thread), measured in turn."""
    times = np.full(len(jobs), np.inf)
    for _ in range(rounds):
        for j, job in enumerate(jobs):
            start = process_time()
            job()
            times[j] = min(times[j], process_time() - start)
    return times


def speed():
    graph = made_graph(500_000, 125)
    for t, g in ((1, "identity"), (5, "identity"), (5, "sqrt")):
        cover = greedy_cover(graph, t, g)
        ours, bincount = best_of(
            ROUNDS, lambda t=t, g=g: greedy_cover(graph, t, g), lambda: np.bincount(graph.box)
        )
        quality = f"{len(cover.selected)} selected, at most {cover.bound:.1f} x the smallest"
        yield Line(f"greedy, 62.5 M edges, t={t}, {g}", ours, bincount, "s", "np.bincount", quality)


def against_apricot():
    try:
        from apricot import MaxCoverageSelection
    except ImportError as error:
        raise Skip("apricot-select is not installed: pip install it") from error
    from scipy.sparse import csr_matrix

    graph = made_graph(20_000, 125, seed=1)
    part_of = graph.parts()[1]
    images = part_of[graph.box].astype(np.int32)
    incidence = csr_matrix((np.ones(len(images)), images, graph.indptr.astype(np.int32)))
    ours = greedy_cover(graph, alpha=1.0)
    size = len(ours.selected)
    start = process_time()
    MaxCoverageSelection(2, optimizer="lazy").fit(incidence)
    compiling = process_time() - start  # apricot compiles anew at every fit: that time is taken off
    start = process_time()
    theirs = MaxCoverageSelection(size, optimizer="lazy").fit(incidence)
    rival = process_time() - start
    (mine,) = best_of(ROUNDS, lambda: greedy_cover(graph, alpha=1.0))
    quality = f"F {ours.F_S:.0f} against {theirs.gains.sum():.0f} with {size} windows"
    yield Line("greedy t=1, 2.5 M edges", mine, max(rival - compiling, 1e-9), "s", "apricot lazy", quality)


def corloc_table():
    """CorLoc of the first covered window of each positive image, mean over the six classes (as misses)."""
    images = read_images(data("voc6") / "VOC2007", split="trainval")
    run = trained()
    if run.images.ids != images.ids or run.images.classes != images.classes:
        raise Skip("the run that TAG2BOX_RUN names was learned from other images than voc6 trainval")
    described = run.result("described")
    windows = described.windows
    compared = compare((described, np.ones(len(images), bool)), run.config.cover.dimensions)
    positive = np.flatnonzero((images.tags == 1).any(axis=1))
    queries = windows.rows_of(positive)
    most = max(len(images.positives(name)) for name in images.classes) // 2
    table = group_neighbors(compared.X, compared.offsets, queries, most, workers=None)
    authors = measured(images, [authors_windows(images, name) for name in images.classes])
    by_method = {}
    for name in images.classes:
        firsts = first_windows(table, images.positives(name), windows.xyxy)
        for method, first in firsts.items():
            by_method.setdefault(method, []).append(first)
    for method, firsts in by_method.items():
        result = measured(images, firsts)
        quality = " ".join(f"{name} {result[name]:.2f}" for name in images.classes)
        quality = f"{result.mean:.3f}: {quality}"
        yield Line(f"missed: {method}", 1 - result.mean, 1 - authors.mean, "", "authors' windows", quality)


def first_windows(table, positive, xyxy):
    """{method: (images, the first window of each)}."""
    graph = cover_graph(table, positive, max(len(positive) // 2, 1))
    covers = {
        "marginal": greedy_cover(graph),
        "score": greedy_cover(graph, method="score"),
        "negative mining": negative_mining(table, positive),
    }
    firsts = {method: cover.first() for method, cover in covers.items()}
    return {method: (images, xyxy[rows]) for method, (images, rows) in firsts.items()}


def authors_windows(images, name):
    """The first box that the authors' own run mined in each image, as (images, xyxy)."""
    number = {image: i for i, image in enumerate(images.ids)}
    first = {}
    path = data("song2014") / f"saved_foreground_coords_{name}.txt"
    for line in path.read_text().splitlines():
        image, *box = line.split()
        if image in number:
            first.setdefault(number[image], np.array(box, float) - [1, 1, 0, 0])
    return list(first), np.array(list(first.values()))


def measured(images, firsts):
    """CorLoc of (images, boxes) of each class."""
    image, xyxy = (np.concatenate(part) for part in zip(*firsts, strict=True))
    label = np.repeat(np.arange(len(firsts)), [len(of) for of, _ in firsts])
    boxes = Detections(
        image=image,
        xyxy=xyxy,
        score=np.ones(len(image)),
        label=label,
        ids=images.ids,
        classes=images.classes,
    )
    return corloc(boxes, images)
