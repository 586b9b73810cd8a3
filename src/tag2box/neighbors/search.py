"""Nearest windows, image by image: for each query window its nearest window (L2) in every image, and of
those the k nearest. Exact, and several times as fast as a product of float32.

1. Score all windows by w·q - |w|²/2, roughly (`coarse.py`). Keep the best of each image and query, and a bit
   for each group of its windows that may have it.
2. What a score may be wrong by has a bound. So images are known that cannot be among the k nearest.
3. In the others the windows of these groups are measured in float64.

The bound. Rows are centered first, which no distance notices. With u = 2⁻²⁴, c the center and
r = |x - c| + |c| / d, a score in float32 is wrong by at most u (d + 7) (r_q² + r_w²), whatever the order of
the sums: d + 4 for the product and the norm, in float32 and of rows rounded to it, the rest for the last
subtraction and for distances that are equal once they are rounded. We take d + 16: r is rounded too.

Codes ŵ leave out |w - ŵ| = e_w, which is measured, and w·q - ŵ·q̂ = (w - ŵ)·q + ŵ·(q - q̂), so that by
Cauchy and Schwarz the score of codes is wrong by e_w |q| + (|w| + e_w) e_q more. To turn and to measure rows
in float32 takes log₂ d + 3 roundings a number, less than what the product would take: so twice that bound
holds for both. Products of codes are whole numbers, exact.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.neighbors.coarse import CodedRows, best_scores, center_of, codes_are_faster
from tag2box.neighbors.kernels import measure
from tag2box.runtime.checks import check_at_least
from tag2box.runtime.executor import current_cluster, map_threads, n_workers
from tag2box.runtime.halves import as_float32
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent

Floats = NDArray[np.floating[Any]]

# Queries in a block: enough that reading X is nothing beside the products.
BLOCK = 4096
# Bytes of a block's tables, and what they take for a query and an image.
TABLE, ENTRY = 1 << 28, 24
SLICE = 256  # queries whose bounds are found together
FEW = 256  # queries that are not worth the codes of all rows
UNIT, TINY = 2.0**-24, 1e-37  # of float32: the share it rounds by, and what it takes for zero


@stored
@dataclass(frozen=True)
class Neighbors:
    """The nearest images of each query, nearest first.

    Parameters
    ----------
    image : ndarray of int32 of shape (n_queries, k)
        The indices of the nearest images.
    window : ndarray of int32 of shape (n_queries, k)
        The window of each of them that is nearest to the query, as a row of X.
    distance : ndarray of float32 of shape (n_queries, k)
        The distance of that window, ascending.
    queries : ndarray of int64 of shape (n_queries,), default=None
        The query windows, as rows of X.
    own : ndarray of int32 of shape (n_queries,), default=None
        The image of each query.

    See Also
    --------
    group_neighbors : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> neighbors = t2b.Neighbors(
    ...     image=np.array([[0, 1]], np.int32),
    ...     window=np.array([[0, 2]], np.int32),
    ...     distance=np.array([[0.0, 1.5]], np.float32),
    ... )
    >>> neighbors.distance.tolist()
    [[0.0, 1.5]]
    """

    image: NDArray[np.int32]
    window: NDArray[np.int32]
    distance: NDArray[np.float32]
    queries: NDArray[np.int64] | None = None
    own: NDArray[np.int32] | None = None


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
        The number of queries to search at a time; None is as many as memory allows, shared among the workers.
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
    at most 2 d + 12 bytes per window, and 24 · block · n_images bytes per worker, at most 0.3 GB.

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
    if block is None:
        block = min(block_size(bounds), max(-(-len(rows) // n_workers(workers)), 1))
    own = _own(bounds, rows)
    image, window = np.empty((2, len(rows), k), np.int32)
    distance = np.empty((len(rows), k), np.float32)
    done = 0
    for part in neighbor_blocks(X, bounds, rows, k, block=block, workers=workers, progress=progress):
        here = slice(done, done := done + len(part.image))
        image[here], window[here], distance[here] = part.image, part.window, part.distance
    return Neighbors(image, window, distance, rows, own)


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
    The default of `block` depends on the number of images alone. On a cluster a block is a task.
    """
    bounds, rows = _checked(X, offsets, queries, k)
    block = block_size(bounds) if block is None else block
    check_at_least(1, block=block)
    blocks = [rows[i : i + block] for b, i in enumerate(range(0, len(rows), block)) if b not in skip]
    cluster = current_cluster()
    coded = None if cluster else coded_rows(X, len(rows), workers)
    search = partial(search_block, cluster.shared(X) if cluster else X, bounds, k, coded)
    progress("neighbors", 0, len(blocks))
    for done, part in enumerate(map_threads(search, blocks, workers=workers), start=1):
        progress("neighbors", done, len(blocks))
        yield part


def block_size(offsets: ArrayLike) -> int:
    """Queries in a block by default: their tables of images stay within `TABLE` bytes."""
    return int(np.clip(TABLE // (ENTRY * len(np.asarray(offsets))), 1, BLOCK))


def coded_rows(X: Floats, n_queries: int, workers: int | None = 1) -> CodedRows:
    """The rows of X, with codes where so many queries are worth it."""
    return CodedRows.of(X, center_of(X), n_queries >= FEW and codes_are_faster(), workers)


def search_block(
    X: Floats, offsets: NDArray[np.int64], k: int, coded: CodedRows | None, queries: NDArray[np.int64]
) -> Neighbors:
    """`group_neighbors` of some query windows, all at once. coded: rows of X, None where nobody made them."""
    coded = coded_rows(X, len(queries)) if coded is None else coded
    Q = X[queries]
    coded_Q = CodedRows.of(Q, coded.center, coded.codes is not None)
    slack = _slack(offsets, coded, coded_Q, X.shape[1])
    _, best, groups = best_scores(X, offsets, coded, Q, coded_Q, slack)
    near = _near(best, slack, k)
    exact_Q, parts = _exact(Q), []
    for i in np.flatnonzero(near.any(axis=1)):
        which = np.flatnonzero(near[i])
        part = np.empty(len(which), np.int32), np.empty(len(which), np.float32)
        measure(_exact(X[offsets[i] : offsets[i + 1]]), exact_Q, near[i], groups[i], *part)
        parts.append((which, np.full(len(which), i, np.int32), part[0] + np.int32(offsets[i]), part[1]))
    which, image, window = (np.concatenate([part[j] for part in parts]) for j in range(3))
    distance = np.concatenate([part[3] for part in parts])
    # A distance is not negative: its bits are in its own order. Stable: ties go to the smaller image.
    order = np.argsort(which << 32 | distance.view(np.int32), kind="stable")
    of_query = order[np.searchsorted(which[order], np.arange(len(queries)))[:, None] + np.arange(k)]
    image, window = image[of_query].astype(np.int32), window[of_query].astype(np.int32)
    return Neighbors(image, window, distance[of_query], queries, _own(offsets, queries))


def _own(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int32]:
    """The image of each row."""
    return (np.searchsorted(offsets, rows, side="right") - 1).astype(np.int32)


def _slack(offsets: NDArray[np.int64], rows: CodedRows, queries: CodedRows, d: int) -> NDArray[np.float32]:
    """What a score may be wrong by, (n_images, n_queries): the bound at the head of this file."""
    filled, more = np.flatnonzero(np.diff(offsets)), np.linalg.norm(rows.center) / d
    size, error, length = np.zeros((3, len(offsets) - 1, 1), np.float32)
    for out, values in ((size, rows.size), (error, rows.error), (length, np.sqrt(rows.size) + rows.error)):
        out[filled, 0] = np.maximum.reduceat(values, offsets[filled])
    unit = UNIT * (d + 16) * (1 if rows.codes is None else 2)
    radii = [(unit * (np.sqrt(each) + more) ** 2).astype(np.float32) for each in (size, queries.size)]
    slack = radii[0] + (radii[1] + np.float32(d * TINY))
    if rows.codes is not None:
        slack += error * np.sqrt(queries.size)
        slack += length * queries.error
    return np.asarray(slack)


def _near(best: NDArray[np.float32], slack: NDArray[np.float32], k: int) -> NDArray[np.bool_]:
    """Which images may be among the k nearest of which query."""
    near = np.empty(best.shape, np.bool_)
    for a in range(0, best.shape[1], SLICE):
        part = slice(a, a + SLICE)
        # At least k images score this, whatever the errors.
        reached = np.partition((best[:, part] - slack[:, part]).T, -k, axis=1)[:, -k]
        near[:, part] = best[:, part] + slack[:, part] >= reached
    return near


def _exact(X: Floats) -> Floats:
    """The same numbers, as numba computes with them."""
    return as_float32(X) if X.dtype == np.float16 else np.ascontiguousarray(X)


def _checked(
    X: Floats, offsets: ArrayLike, queries: ArrayLike, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if X.ndim != 2 or X.dtype not in (np.float16, np.float32, np.float64):
        raise InputError(f"X must be an (n, d) array of floats, but it is {X.dtype} of shape {X.shape}")
    bounds = np.asarray(offsets, dtype=np.int64)
    ends = bounds.ndim == 1 and len(bounds) > 1 and (bounds[0], bounds[-1]) == (0, len(X))
    if not ends or (np.diff(bounds) < 0).any():
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
