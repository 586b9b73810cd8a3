"""`Degrees`: how many of the images nearest to each window are positive. Step 5 of the paper's chain.

    degrees = count_neighbors(features, tags, config)

All windows are searched for in one pass, block by block, so that no table of them all is ever kept.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.config import CoverConfig, known_tags
from tag2box.features.record import Features
from tag2box.neighbors.search import Neighbors, block_size, search_block
from tag2box.runtime.executor import current_cluster, map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent

__all__ = [
    "Degrees",
    "block_count",
    "compared",
    "count_blocks",
    "count_neighbors",
    "depth_of",
    "join_degrees",
]

BLOCK = 8192  # rows at a time


@stored
@dataclass(frozen=True)
class Degrees:
    """What the neighbors of each window say, (n_windows, n_classes) each; 0 where its image is not positive.

    above: the share of positive images among its k nearest, less that of all images (its own left out of
    both); far: the distance to its nearest negative image, at least (where none is among the k, to the last).
    """

    above: NDArray[np.float32]
    far: NDArray[np.float32]


def count_neighbors(
    features: Features,
    tags: NDArray[np.int8],
    config: CoverConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Degrees:
    """Count, for every window of a positive image, the positive ones among its k nearest images.

    All classes share one search. Images of unknown tag count as not positive. Memory: 8 bytes a window and
    class, and what `search_block` takes.
    """
    parts = count_blocks(features, tags, config, workers=workers, progress=progress)
    return join_degrees(features, tags, config, list(parts))


def block_count(features: Features, tags: NDArray[np.int8], config: CoverConfig) -> int:
    """How many blocks `count_blocks` counts in."""
    return -(-len(_queries(features, tags, config)) // block_size(features.offsets))


def count_blocks(
    features: Features,
    tags: NDArray[np.int8],
    config: CoverConfig,
    skip: Container[int] = (),
    progress: Progress = silent,
    *,
    workers: int | None = 1,
) -> Iterator[Degrees]:
    """`count_neighbors` of one block of windows after the other, those in `skip` left out.

    On a cluster a block is a task.
    """
    tags = known_tags(tags, config.unknown)
    queries = _queries(features, tags, config)
    depth = [depth_of(column == 1, config) for column in tags.T]
    if len(queries) == 0:
        return
    X, size = compared(features, config), block_size(features.offsets)
    blocks = [queries[i : i + size] for b, i in enumerate(range(0, len(queries), size)) if b not in skip]
    cluster = current_cluster()
    count = partial(_count_rows, cluster.shared(X) if cluster else X, features.offsets, tags, depth)
    progress("neighbors", 0, len(blocks))
    for done, part in enumerate(map_threads(count, blocks, workers=workers), start=1):
        progress("neighbors", done, len(blocks))
        yield part


def _count_rows(
    X: NDArray[np.floating],
    offsets: NDArray[np.int64],
    tags: NDArray[np.int8],
    depth: Sequence[int],
    rows: NDArray[np.int64],
) -> Degrees:
    """The degrees of these windows."""
    table = search_block(X, offsets, max(depth), rows)
    shape = (len(rows), tags.shape[1])
    out = Degrees(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    for c, k in enumerate(depth):
        positive, negative = tags[:, c] == 1, tags[:, c] == -1
        _count(table, positive, negative, k, out.above[:, c], out.far[:, c])
    return out


def join_degrees(
    features: Features, tags: NDArray[np.int8], config: CoverConfig, parts: Sequence[Degrees]
) -> Degrees:
    """The degrees of all windows, from those of all blocks."""
    shape = (len(features.X), tags.shape[1])
    out = Degrees(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    if parts:
        queries = _queries(features, tags, config)
        out.above[queries] = np.concatenate([part.above for part in parts])
        out.far[queries] = np.concatenate([part.far for part in parts])
    return out


def _queries(features: Features, tags: NDArray[np.int8], config: CoverConfig) -> NDArray[np.int64]:
    """The windows of images that are positive for any class."""
    return features.rows_of((known_tags(tags, config.unknown) == 1).any(axis=1))


def compared(
    features: Features, config: CoverConfig, rows: NDArray[np.int64] | None = None
) -> NDArray[np.floating]:
    """What neighbors are found by: the first dimensions of X, every row as long as it was. In memory.

    rows: some of X, by default all.
    """
    X, d = features.X, config.dimensions
    if d >= X.shape[1]:
        return X if rows is None else X[rows]
    out = np.empty((len(X) if rows is None else len(rows), d), X.dtype)
    for a in range(0, len(out), BLOCK):
        some = slice(a, a + BLOCK)
        block = X[some if rows is None else rows[some]].astype(np.float32)
        short = np.linalg.norm(block[:, :d], axis=1, keepdims=True)
        out[a : a + BLOCK] = block[:, :d] * (
            np.linalg.norm(block, axis=1, keepdims=True) / np.where(short > 0, short, 1)
        )
    return out


def depth_of(positive: NDArray[np.bool_], config: CoverConfig) -> int:
    """k, the number of nearest images to use: at least two, since a window's own is always among them."""
    return int(min(max(config.k * positive.sum(), 2), len(positive)))


def _count(
    table: Neighbors,
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
    k: int,
    above: NDArray[np.float32],
    far: NDArray[np.float32],
) -> None:
    assert table.own is not None
    rows = np.flatnonzero(positive[table.own])
    image = table.image[rows, :k]
    chance = (positive.sum() - 1) / max(len(positive) - 1, 1)
    above[rows] = (positive[image].sum(axis=1) - 1) / max(k - 1, 1) - chance
    strange = negative[table.image[rows]]
    first = np.where(strange.any(axis=1), strange.argmax(axis=1), strange.shape[1] - 1)
    far[rows] = table.distance[rows, first]
