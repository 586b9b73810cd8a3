"""The first windows of each class: cover, snap. Step 6 of the paper's chain.

    degrees = count_neighbors(features, tags, config)
    covers = find_covers(windows, features, tags, degrees, config)

The second pass of the neighbor search makes the table of the seeds alone, the windows that count best in
their image by their degrees, class by class.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.config import CoverConfig, known_tags
from tag2box.cover.degrees import Degrees, compared, depth_of
from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import Cover, greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.cover.snapping import best_share, contrast, snap
from tag2box.errors import InputError
from tag2box.features.record import Features
from tag2box.neighbors.kernels import Indexed
from tag2box.neighbors.search import Neighbors, nearest_images, prepare, prepare_once
from tag2box.runtime.executor import current_cluster
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["find_covers"]


def find_covers(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    degrees: Degrees,
    config: CoverConfig,
    *,
    objectness: NDArray[np.float32] | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
) -> tuple[Cover, ...]:
    """The cover of each class, or the windows of negative mining in its place.

    objectness: (n_windows, n_classes), for `config.snap`. Memory: the table of a class's seeds, 12 k bytes
    each.
    """
    if config.snaps_by == "objectness" and objectness is None:
        raise InputError(
            'snap = "objectness" needs the objectness of the windows: give it, or snap otherwise'
        )
    tags = known_tags(tags, config.unknown)
    X = compared(features, config)
    classes = range(tags.shape[1])
    found: Iterable[Cover]
    if cluster := current_cluster():
        shared = cluster.shared(X), features.offsets
        counted = Degrees(cluster.shared(degrees.above), cluster.shared(degrees.far))
        tasks = (partial(_on_worker, windows, shared, tags[:, c] == 1, counted, c, config) for c in classes)
        found = cluster.run(tasks)
    else:
        # One index for all classes; negative mining needs none.
        search = cache(lambda: prepare(X, features.offsets))
        found = (_cover(windows, search, tags[:, c] == 1, degrees, c, config, workers) for c in classes)
    covers = []
    progress("cover", 0, len(classes))
    for c, cover in enumerate(found):
        covers.append(_snapped(cover, windows, degrees.above[:, c], objectness, c, config))
        progress("cover", c + 1, len(classes))
    return tuple(covers)


def _on_worker(
    windows: Windows,
    shared: tuple[NDArray[np.floating], NDArray[np.int64]],
    positive: NDArray[np.bool_],
    degrees: Degrees,
    c: int,
    config: CoverConfig,
) -> Cover:
    """On a worker of a cluster: the cover of one class."""
    return _cover(windows, lambda: prepare_once(*shared), positive, degrees, c, config, 1)


def _cover(
    windows: Windows,
    search: Callable[[], Indexed],
    positive: NDArray[np.bool_],
    degrees: Degrees,
    c: int,
    config: CoverConfig,
    workers: int | None,
) -> Cover:
    if config.initializer == "negative_mining":
        return _mined(windows, positive, degrees.far[:, c])
    above = degrees.above[:, c]
    own = windows.rows_of(positive)
    seeds = own[best_share(above, windows.offsets, config.seeds)[own]]
    k = depth_of(positive, config)
    table = nearest_images(search(), seeds, k, workers=workers)
    graph = cover_graph(table, positive, k)
    return greedy_cover(graph, config.t, config.g, config.alpha, config.method)


def _snapped(
    cover: Cover,
    windows: Windows,
    above: NDArray[np.float32],
    objectness: NDArray[np.float32] | None,
    c: int,
    config: CoverConfig,
) -> Cover:
    if config.snaps_by == "none":
        return cover
    if config.snaps_by == "contrast":
        score = contrast(windows.xyxy, windows.offsets, above)
    else:
        assert objectness is not None
        score = objectness[:, c].astype(np.float64)
    return snap(cover, windows.xyxy, windows.offsets, score)


def _mined(windows: Windows, positive: NDArray[np.bool_], far: NDArray[np.float32]) -> Cover:
    """`negative_mining` from the distances that were already counted."""
    rows = windows.best_of(positive, far)
    own = windows.image_of(rows).astype(np.int32)
    order = np.argsort(-far[rows], kind="stable")
    one_each = Neighbors(
        own[order][:, None],
        rows[order][:, None].astype(np.int32),
        far[rows[order]][:, None],
        rows[order],
        own[order],
    )
    return negative_mining(one_each, positive, ~positive)
