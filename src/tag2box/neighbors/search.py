"""Nearest windows, image by image: for each query window its nearest window (L2) in every image, and of
those the k nearest. Exact, at the speed of BLAS in float32.

1. Score all windows by w·q - |w|²/2, in products of float32; keep the two best of each image and query.
2. What a score may be wrong by has a bound. So images are known that cannot be among the k nearest.
3. Of all others the best window is measured in float64; every window, where the second may be as near.

Rows are centered first, which no distance notices and which makes the bound small. With u = 2⁻²⁴, c the
center and r = |x - c| + |c| / d, a score is wrong by at most u (d + 7) (r_q² + r_w²), whatever the order of
the sums: d + 4 for the product and the norm, in float32 and of rows rounded to it, the rest for the last
subtraction and for distances that are equal once they are rounded. We take d + 16: r is rounded too.
"""

from collections.abc import Container, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.errors import InputError
from tag2box.neighbors.kernels import keep_best_two, measure
from tag2box.neighbors.record import Neighbors
from tag2box.runtime.checks import check_at_least
from tag2box.runtime.executor import current_cluster, map_threads, n_workers
from tag2box.runtime.halves import as_float32
from tag2box.runtime.progress import Progress, silent

__all__ = ["Neighbors", "block_size", "group_neighbors", "neighbor_blocks", "search_block"]

Floats = NDArray[np.floating[Any]]

# Queries in a block: enough that reading X is nothing beside the products.
BLOCK = 1024
# Bytes of a block's table, and what it takes for a query and an image.
TABLE, ENTRY = 1 << 28, 40
ROWS = 512  # of X at a time: their products stay in the cache
SAMPLE = 256  # rows that the center is found from
UNIT, TINY = 2.0**-24, 1e-37  # of float32: the share it rounds by, and what it takes for zero
LONGEST = 1e18  # its square, and the sum of two, fit float32


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
    4 bytes per window, and 40 · block · n_images bytes per worker, at most 0.3 GB.

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
    image, window = np.empty((2, len(rows), k), np.int32)
    distance = np.empty((len(rows), k), np.float32)
    done = 0
    for part in neighbor_blocks(X, bounds, rows, k, block=block, workers=workers, progress=progress):
        here = slice(done, done := done + len(part.image))
        image[here], window[here], distance[here] = part.image, part.window, part.distance
    return Neighbors(image, window, distance, rows, _own(bounds, rows))


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
    search = partial(search_block, cluster.shared(X) if cluster else X, bounds, k)
    progress("neighbors", 0, len(blocks))
    for done, part in enumerate(map_threads(search, blocks, workers=workers), start=1):
        progress("neighbors", done, len(blocks))
        yield part


def block_size(offsets: ArrayLike) -> int:
    """Queries in a block by default: their table of images stays within `TABLE` bytes."""
    return int(np.clip(TABLE // (ENTRY * len(np.asarray(offsets))), 1, BLOCK))


def search_block(X: Floats, offsets: NDArray[np.int64], k: int, rows: NDArray[np.int64]) -> Neighbors:
    """`group_neighbors` of the query windows `rows`, all at once."""
    scan = _scan(X, offsets, rows)
    # At least k images score this, whatever the errors.
    reached = np.partition(scan.best - scan.slack, -k, axis=0)[-k]
    near = scan.best + scan.slack >= reached
    distance = _measure(X, offsets, rows, scan, near)
    # A distance is not negative: its bits are in its own order, and the image breaks ties.
    keys = distance.view(np.int32).astype(np.int64) << 32 | np.arange(len(distance))[:, None]
    keys = np.sort(np.partition(keys, k - 1, axis=0)[:k], axis=0).T
    image = (keys & 0xFFFFFFFF).astype(np.int32)
    return Neighbors(
        image,
        scan.window[image, np.arange(len(rows))[:, None]],
        (keys >> 32).astype(np.int32).view(np.float32),
        rows,
        _own(offsets, rows),
    )


def _own(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int32]:
    """The image of each row."""
    return (np.searchsorted(offsets, rows, side="right") - 1).astype(np.int32)


class _Scan(NamedTuple):
    """Of each image for each query, (n_images, n_queries): its two best scores, the window of the best, and
    what a score may be wrong by. An image without windows scores minus infinity."""

    best: NDArray[np.float32]
    second: NDArray[np.float32]
    window: NDArray[np.int32]
    slack: NDArray[np.float32]


def _scan(X: Floats, offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> _Scan:
    shape, d = (len(offsets) - 1, len(rows)), X.shape[1]
    best, second = np.full((2, *shape), -np.inf, np.float32)
    window = np.zeros(shape, np.int32)
    center = _center(X)
    Q, q_size = _centered(X[rows], center)
    columns = np.ascontiguousarray(Q.T)
    w_size = np.empty(len(X), np.float32)
    products = np.empty((ROWS, len(rows)), np.float32)
    for a in range(0, len(X), ROWS):
        W, size = _centered(X[a : a + ROWS], center)
        if not (size < LONGEST**2).all():
            row = a + int(np.argmin(size < LONGEST**2))
            raise InputError(f"X must be finite, its rows shorter than {LONGEST:g}, but row {row} is not")
        w_size[a : a + ROWS] = size
        with np.errstate(invalid="ignore"):  # a query may be one of the rows to come
            scores = np.matmul(W, columns, out=products[: len(W)])
        keep_best_two(scores, size, a, offsets, best, second, window)
    filled = np.flatnonzero(np.diff(offsets))
    largest = np.zeros(shape[0], np.float32)
    largest[filled] = np.maximum.reduceat(w_size, offsets[filled])
    more = np.linalg.norm(center) / d
    radii = [(np.sqrt(size) + more) ** 2 for size in (largest, q_size)]
    slack = UNIT * (d + 16) * np.add.outer(*radii) + d * TINY
    return _Scan(best, second, window, slack.astype(np.float32))


def _center(X: Floats) -> NDArray[np.float32]:
    """The median of some rows, which a few that are far out do not move."""
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).astype(np.intp)]
    with np.errstate(all="ignore"):
        center = np.median(rows.astype(np.float64), axis=0).astype(np.float32)
    return np.nan_to_num(center, posinf=0, neginf=0)


def _centered(X: Floats, center: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rows less the center, and their squared norms."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = as_float32(X)
        rows -= center
        return rows, np.einsum("ij,ij->i", rows, rows)


def _measure(
    X: Floats, offsets: NDArray[np.int64], rows: NDArray[np.int64], scan: _Scan, near: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The distances of near images, (n_images, n_queries), infinity elsewhere; their windows in `scan`."""
    unsure = scan.second >= scan.best - 2 * scan.slack
    distance = np.full(near.shape, np.inf, np.float32)
    queries = _exact(X[rows])
    for i in np.flatnonzero(near.any(axis=1)):
        windows = _exact(X[offsets[i] : offsets[i + 1]])
        measure(windows, offsets[i], queries, near[i], unsure[i], scan.window[i], distance[i])
    return distance


def _exact(X: Floats) -> Floats:
    """The same numbers, as numba computes with them."""
    return as_float32(X) if X.dtype == np.float16 else np.ascontiguousarray(X)


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
