"""The first windows of each class: cover, snap. Step 6 of the paper's chain.

    degrees = count_neighbors(features, tags, config)
    covers = find_covers(windows, features, tags, degrees, config)

The second pass of the neighbor search makes the table of the seeds alone, the windows that count best in
their image by their degrees, class by class.
"""

from collections.abc import Iterable
from functools import partial

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
from tag2box.neighbors.search import Neighbors, group_neighbors
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
        counted = Degrees(cluster.shared(degrees.above), cluster.shared(degrees.far))
        one = partial(_cover, windows, cluster.shared(X), counted, tags, config, 1)
        found = cluster.run(partial(one, c) for c in classes)
    else:
        found = map(partial(_cover, windows, X, degrees, tags, config, workers), classes)
    covers = []
    progress("cover", 0, len(classes))
    for c, cover in enumerate(found):
        covers.append(_snapped(cover, windows, degrees.above[:, c], objectness, c, config))
        progress("cover", c + 1, len(classes))
    return tuple(covers)


def _cover(
    windows: Windows,
    X: NDArray[np.floating],
    degrees: Degrees,
    tags: NDArray[np.int8],
    config: CoverConfig,
    workers: int | None,
    c: int,
) -> Cover:
    positive = tags[:, c] == 1
    if config.initializer == "negative_mining":
        return _mined(windows, positive, degrees.far[:, c])
    above = degrees.above[:, c]
    own = windows.rows_of(positive)
    seeds = own[best_share(above, windows.offsets, config.seeds)[own]]
    k = depth_of(positive, config)
    table = group_neighbors(X, windows.offsets, seeds, k, workers=workers)
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
