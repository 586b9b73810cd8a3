"""Nearest windows, image by image: for each query window its nearest window (L2) in every image, and of
those the k nearest. Exact, at the speed of 8-bit arithmetic.

1. Scan: every image gets a lower bound on its distance, from bytes of the first rotated dimensions.
2. The k images with the lowest bounds are measured; their largest distance is a limit.
3. Every other image whose bound lies within the limit is measured too. No other can be among the k.

To measure a pair: score all windows of the image by bytes, then measure in floats those that the error of
the bytes leaves in question. `index.py` has the bounds, `int8.py` the arithmetic.
"""

from collections import deque
from collections.abc import Container, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.neighbors.distance import as_rows
from tag2box.neighbors.index import build_index
from tag2box.neighbors.int8 import LANES, ROWS
from tag2box.neighbors.kernels import (
    Indexed,
    Queries,
    Tiles,
    as_bytes,
    pack,
    scan,
    search_all_tiles,
    search_best_tile,
)
from tag2box.neighbors.pairs import Pairs, PairsByImage, about_kth, by_image, candidates, limits, nearest
from tag2box.neighbors.record import Neighbors
from tag2box.runtime.checks import check_at_least
from tag2box.runtime.executor import n_workers
from tag2box.runtime.progress import Progress, silent

__all__ = [
    "Neighbors",
    "block_size",
    "group_neighbors",
    "nearest_images",
    "neighbor_blocks",
    "prepare",
    "prepare_once",
]

Floats = NDArray[np.floating[Any]]

TABLE = 1 << 28
BLOCK = 4096  # queries: enough for whole tiles when an image is near to only a few in a hundred of them


def group_neighbors(
    X: Floats,
    offsets: ArrayLike,
    queries: ArrayLike,
    k: int,
    *,
    block: int | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Neighbors:
    """Find the k nearest images of each query window, and the nearest window in each of them.

    The distance of an image is that of its nearest window (L2). The result is exact.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        One vector per window, as float16, float32 or float64, in memory or mapped from a file.
    offsets : array-like of shape (n_images + 1,)
        Where the rows of each image start.
    queries : array-like of int or bool
        The query windows: rows of X, or a mask over them.
    k : int
        The number of nearest images to find. The image of the query is one of them, at distance 0.
    block : int, default=None
        The number of queries to search at a time. None gives every worker as many.
    workers : int, default=None
        The number of threads; None means one per core.
    progress : callable, default=silent
        Called with (label, done, total) as the work proceeds.

    Returns
    -------
    Neighbors
        The nearest images and windows. Ties go to the smaller image, then to the smaller window, so that
        neither `block` nor `workers` changes a bit.

    Notes
    -----
    Distances are float64 sums of squared differences, rounded to float32. Memory beside X and the result:
    d + 20 bytes per window, and 16 · block · (n_images + 3 k) bytes per worker, at most 0.4 GB.

    Examples
    --------
    Three images with two windows each; the query is the first window of the first image.

    >>> import numpy as np
    >>> import tag2box as t2b
    >>> X = np.array([[0.0], [5.0], [1.0], [9.0], [0.5], [7.0]], np.float32)
    >>> neighbors = t2b.group_neighbors(X, [0, 2, 4, 6], queries=[0], k=3, workers=1)
    >>> neighbors.image.tolist(), neighbors.window.tolist()
    ([[0, 2, 1]], [[0, 4, 2]])
    >>> neighbors.distance.tolist()
    [[0.0, 0.5, 1.0]]
    """
    bounds, rows = _checked(X, offsets, queries, k)
    return nearest_images(prepare(X, bounds), rows, k, block=block, workers=workers, progress=progress)


def nearest_images(
    indexed: Indexed,
    rows: NDArray[np.int64],
    k: int,
    *,
    block: int | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Neighbors:
    """`group_neighbors` of windows that are prepared already."""
    if block is None:
        share = n_workers(workers)
        rounds = -(-len(rows) // (share * block_size(indexed.offsets)))
        block = max(-(-len(rows) // max(share * rounds, 1)), 1)
    shape = len(rows), k
    image, window, distance = (
        np.empty(shape, np.int32),
        np.empty(shape, np.int32),
        np.empty(shape, np.float32),
    )
    done = 0
    for part in _blocks(indexed, rows, k, block, workers, progress):
        here = slice(done, done := done + len(part.image))
        image[here], window[here], distance[here] = part.image, part.window, part.distance
    return Neighbors(image, window, distance, rows, _own(indexed.offsets, rows))


def prepare(X: Floats, offsets: ArrayLike) -> Indexed:
    """The windows as they are searched: what takes one pass over all of them, once for many queries."""
    bounds = np.asarray(offsets, np.int64)
    return Indexed(as_rows(X), bounds, build_index(X, bounds))


def prepare_once(X: Floats, offsets: NDArray[np.int64]) -> Indexed:
    """The same, which this process keeps for the next call with the same part of the same file.

    A worker of a cluster has many tasks of one search, and no file of a run is written twice.
    """
    if not isinstance(X, np.memmap):
        return prepare(X, offsets)
    return _prepared(str(X.filename), X.offset, X.dtype.str, X.shape, offsets.tobytes())


@lru_cache(maxsize=1)
def _prepared(file: str, offset: int, dtype: str, shape: tuple[int, ...], offsets: bytes) -> Indexed:
    return prepare(np.memmap(file, dtype, "r", offset, shape), np.frombuffer(offsets, np.int64))


def neighbor_blocks(
    X: Floats,
    offsets: ArrayLike,
    queries: ArrayLike,
    k: int,
    *,
    block: int | None = None,
    workers: int | None = None,
    progress: Progress = silent,
    skip: Container[int] = (),
) -> Iterator[Neighbors]:
    """`group_neighbors` block by block, in order: queries [b * block : (b + 1) * block] for b not in `skip`.

    Each is a pure function of (X, offsets, its queries, k): who stores them can go on where a run stopped.
    The default of `block` depends on the number of images alone.
    """
    bounds, rows = _checked(X, offsets, queries, k)
    block = block_size(offsets) if block is None else block
    yield from _blocks(prepare(X, bounds), rows, k, block, workers, progress, skip=skip)


def _blocks(
    indexed: Indexed,
    rows: NDArray[np.int64],
    k: int,
    block: int,
    workers: int | None,
    progress: Progress,
    *,
    skip: Container[int] = (),
) -> Iterator[Neighbors]:
    check_at_least(1, block=block)
    search, own = _Search(indexed, k), _own(indexed.offsets, rows)
    blocks = [slice(i, i + block) for b, i in enumerate(range(0, len(rows), block)) if b not in skip]
    progress("neighbors", 0, len(blocks))
    with ThreadPoolExecutor(n_workers(workers)) as threads:
        waiting: deque[Future[Neighbors]] = deque()
        done = 0
        for part in blocks:
            waiting.append(threads.submit(search, rows[part], own[part]))
            if len(waiting) > n_workers(workers):
                yield waiting.popleft().result()
                progress("neighbors", done := done + 1, len(blocks))
        while waiting:
            yield waiting.popleft().result()
            progress("neighbors", done := done + 1, len(blocks))


def _own(bounds: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int32]:
    """The image of each row."""
    return (np.searchsorted(bounds, rows, side="right") - 1).astype(np.int32)


def block_size(offsets: ArrayLike) -> int:
    """Queries in a block by default: their table of images stays within `TABLE` bytes."""
    return int(np.clip(TABLE // (16 * max(len(np.asarray(offsets)), 1)), LANES, BLOCK))


@dataclass(frozen=True)
class _Search:
    indexed: Indexed
    k: int

    def __call__(self, rows: NDArray[np.int64], own: NDArray[np.int32]) -> Neighbors:
        queries = self._queries(rows, own)
        tiles, lower = self._scan(queries)
        # The k images of lowest bound; the windows found in them limit how far the k nearest can be.
        near = about_kth(lower, self.k)
        anything = np.full(len(rows), np.inf, np.float32)
        some, left = self._measure(queries, tiles, anything, candidates(lower, -anything, near))
        limit = limits(some, self.k)
        # Every other image within the limit; then what the best tile alone could not tell, of both.
        more, more_left = self._measure(queries, tiles, limit, candidates(lower, near, limit))
        search_all_tiles(self.indexed, queries, limit, left, some)
        search_all_tiles(self.indexed, queries, limit, more_left, more)
        return Neighbors(*nearest(self.k, some, more), rows, own)

    def _queries(self, rows: NDArray[np.int64], own: NDArray[np.int32]) -> Queries:
        index = self.indexed.codes
        padded = index.start[own] + rows - self.indexed.offsets[own]
        blocks, groups = -(-len(rows) // LANES), index.W.shape[1]
        packed = np.empty((blocks, groups, LANES), np.int32)
        for b in range(blocks):
            pack(index.W, padded[b * LANES : (b + 1) * LANES], packed[b])
        words = np.zeros((len(rows), -(-groups // 16) * 16), np.int32)
        as_bytes(index.W, padded, words)
        norm, error = np.zeros((2, blocks * LANES), np.float32)
        norm[: len(rows)], error[: len(rows)] = index.norm[padded], index.error[padded]
        return Queries(rows, padded, norm, error, packed, words)

    def _scan(self, queries: Queries) -> tuple[Tiles, NDArray[np.float32]]:
        """Each image's two best tiles for each query, and lower bounds on its distance: (n, n_images)."""
        most = int(np.diff(self.indexed.codes.start).max()) // ROWS
        mask = (1 << (most - 1).bit_length()) - 1
        tiles, lower = scan(self.indexed.codes, queries, mask)
        return tiles, np.ascontiguousarray(lower[:, : len(queries.row)].T)

    def _measure(
        self, queries: Queries, tiles: Tiles, limit: NDArray[np.float32], listed: tuple[Any, Any]
    ) -> tuple[Pairs, PairsByImage]:
        """The nearest window in the best tile of each image listed, and the pairs that need all tiles."""
        at, image = listed
        order = by_image(at, image, len(self.indexed.offsets) - 1)
        window, distance, left = search_best_tile(self.indexed, queries, tiles, limit, order)
        return Pairs(at, image, window, distance), left


def _checked(
    X: Floats, offsets: ArrayLike, queries: ArrayLike, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if X.ndim != 2 or X.dtype not in (np.float16, np.float32, np.float64):
        raise InputError(f"X must be an (n, d) array of floats, but it is {X.dtype} of shape {X.shape}")
    bounds = np.asarray(offsets, dtype=np.int64)
    if (
        bounds.ndim != 1
        or len(bounds) < 2
        or bounds[0] != 0
        or bounds[-1] != len(X)
        or (np.diff(bounds) < 0).any()
    ):
        raise InputError(
            f"offsets must rise from 0 to the {len(X)} rows of X, one more than there are images"
        )
    rows = np.asarray(queries)
    if rows.dtype == np.bool_ and rows.shape == (len(X),):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and not np.issubdtype(rows.dtype, np.integer)):
        raise InputError("queries must be indices of rows of X, or a bool mask over them")
    if rows.size and not 0 <= rows.min() <= rows.max() < len(X):
        raise InputError(f"queries must lie between 0 and {len(X) - 1}, the rows of X")
    images = int(np.count_nonzero(np.diff(bounds)))
    if not 1 <= k <= images:
        raise InputError(f"k must lie between 1 and the {images} images that have windows, but it is {k}")
    return bounds, rows.astype(np.int64)
