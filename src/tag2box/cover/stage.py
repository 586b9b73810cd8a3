"""The first windows of each class: the cover, or negative mining in its place.

The second pass of the neighbor search makes the table of the seeds alone, the windows that count best in
their image by their degrees, class by class.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.compared import Compared
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import Degrees, depth_of
from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import Cover, greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.cover.votes import best_share
from tag2box.neighbors.search import Neighbors, group_neighbors
from tag2box.runtime.executor import current_cluster
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.windows.record import Windows


@stage("covers", version=1)
def find_covers(
    windows: Windows,
    compared: Compared,
    tags: NDArray[np.int8],
    degrees: Degrees,
    settings: CoverConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> tuple[Cover, ...]:
    """The cover of each class, or the windows of negative mining in its place: rows of `windows`.

    Memory: the table of a class's seeds, 12 k bytes each.
    """
    classes = range(tags.shape[1])
    find = partial(_cover, compared, settings)
    jobs = [(tags[:, c] == 1, degrees.above[:, c], degrees.far[:, c]) for c in classes]
    results: Iterable[Cover]
    if cluster := current_cluster():
        results = cluster.run(partial(find, *job, 1) for job in jobs)
    else:
        results = (find(*job, workers) for job in jobs)
    covers = []
    progress("cover", 0, len(classes))
    for c, cover in enumerate(results):
        selected, covered = (compared.among(windows, rows) for rows in (cover.selected, cover.covered))
        covers.append(replace(cover, selected=selected, covered=covered))
        progress("cover", c + 1, len(classes))
    return tuple(covers)


def _cover(
    compared: Compared,
    settings: CoverConfig,
    positive: NDArray[np.bool_],
    above: NDArray[np.float32],
    far: NDArray[np.float32],
    workers: int | None,
) -> Cover:
    seen = compared.counts > 0
    positive = positive & seen
    if settings.initializer == "negative_mining":
        return _mined(compared, positive, far)
    own = compared.rows_of(positive)
    seeds = own[best_share(above, compared.offsets, settings.seeds)[own]]
    k = depth_of(positive, settings.k, int(seen.sum()))
    table = group_neighbors(compared.X, compared.offsets, seeds, k, workers=workers)
    graph = cover_graph(table, positive, k)
    return greedy_cover(graph, settings.t, settings.g, settings.alpha, settings.method)


def _mined(compared: Compared, positive: NDArray[np.bool_], far: NDArray[np.float32]) -> Cover:
    """`negative_mining` from the distances that were already counted."""
    rows = compared.best_of(positive, far)
    own = compared.image_of(rows).astype(np.int32)
    order = np.argsort(-far[rows], kind="stable")
    one_each = Neighbors(
        own[order][:, None],
        rows[order][:, None].astype(np.int32),
        far[rows[order]][:, None],
        rows[order],
        own[order],
    )
    return negative_mining(one_each, positive, ~positive)
