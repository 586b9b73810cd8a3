"""The first windows of each class: neighbours counted, cover, snap. Stages 4 and 5 of the method.

    degrees = count_neighbors(features, tags, config)
    covers = find_covers(windows, features, tags, degrees, config)

Two passes of the neighbour search, so that no table of all windows is ever kept. The first counts: how many
of a window's k nearest images are positive, and how far its nearest negative is. The second makes the table
of the seeds alone, the windows that count best in their image, class by class.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.greedy import Cover, G, cover_graph, greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.cover.snapping import best_share, contrast, snap
from tag2box.errors import InputError
from tag2box.features.extract import Features
from tag2box.neighbors.search import Neighbors, group_neighbors, neighbor_blocks
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["CoverConfig", "Degrees", "compared", "count_neighbors", "find_covers", "known_tags"]

BLOCK = 8192  # rows at a time
UNKNOWN = {"ignore": 0, "positive": 1, "negative": -1}


@dataclass(frozen=True)
class CoverConfig:
    """How the first windows are found. The defaults are from the table in docs/cover.md."""

    # "cover" is the paper's; "negative_mining" its rival (Siva et al. 2012).
    initialiser: str = "cover"
    # Of the features' dimensions the first so many are compared: more did not help, and cost time.
    dimensions: int = 128
    # Nearest images looked at, as a share of the positive ones: the release's half.
    k: float = 0.5
    # Boxes that count in an image, what they count for, and how much of all must be covered.
    t: int = 1
    g: str = "identity"
    alpha: float = 0.95
    # "marginal" is the paper's greedy, "score" the release's.
    method: str = "score"
    # Windows of an image that may be selected, as a share: those with the most positive neighbours (release).
    seeds: float = 0.2
    # What each covered window gives way to: the window of its image, overlapping it, of highest "objectness"
    # (object_maps) or "contrast"; "none" is the paper's.
    snap: str = "objectness"
    # What a tag of 0 means: "ignore", "positive" (the release) or "negative".
    unknown: str = "ignore"

    def __post_init__(self) -> None:
        known = {
            "initialiser": ("cover", "negative_mining"),
            "g": tuple(G),
            "method": ("marginal", "score"),
            "snap": ("objectness", "contrast", "none"),
            "unknown": tuple(UNKNOWN),
        }
        for name, allowed in known.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, but it is {getattr(self, name)!r}"
                )
        for name in ("k", "alpha", "seeds"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} must lie above 0 and up to 1, but it is {getattr(self, name)}")
        for name in ("t", "dimensions"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, but it is {getattr(self, name)}")

    @property
    def snaps_by(self) -> str:
        """`snap`, of a cover; the rival's windows stay as they are."""
        return self.snap if self.initialiser == "cover" else "none"


@stored
@dataclass(frozen=True)
class Degrees:
    """What the neighbours of each window say, (n_windows, n_classes) each; 0 where its image is not positive.

    above: the share of positive images among its k nearest, less that of all images (its own left out of
    both); far: the distance to its nearest negative image, at least (where none is among the k, to the last).
    """

    above: NDArray[np.float32]
    far: NDArray[np.float32]


def known_tags(tags: NDArray[np.int8], unknown: str) -> NDArray[np.int8]:
    """`tags` with every 0 read as `unknown` says; "ignore" leaves them."""
    return np.where(tags == 0, np.int8(UNKNOWN[unknown]), tags)


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
    class, and what `neighbor_blocks` takes.
    """
    tags = known_tags(tags, config.unknown)
    positive = tags == 1
    shape = (len(features.X), tags.shape[1])
    out = Degrees(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    own = np.repeat(np.arange(len(tags)), np.diff(features.offsets))
    queries = np.flatnonzero(positive.any(axis=1)[own])
    depth = [_depth(column, config) for column in positive.T]
    if len(queries) == 0:
        return out
    X, offsets = compared(features, config), features.offsets
    for part in neighbor_blocks(X, offsets, queries, max(depth), workers=workers, progress=progress):
        for c, k in enumerate(depth):
            _count(part, positive[:, c], tags[:, c] == -1, k, out.above[:, c], out.far[:, c])
    return out


def compared(features: Features, config: CoverConfig) -> NDArray[np.floating]:
    """What neighbours are found by: the first dimensions of X, every row as long as it was. In memory."""
    X, d = features.X, config.dimensions
    if d >= X.shape[1]:
        return X
    out = np.empty((len(X), d), X.dtype)
    for a in range(0, len(X), BLOCK):
        block = X[a : a + BLOCK].astype(np.float32)
        short = np.linalg.norm(block[:, :d], axis=1, keepdims=True)
        out[a : a + BLOCK] = block[:, :d] * (
            np.linalg.norm(block, axis=1, keepdims=True) / np.where(short > 0, short, 1)
        )
    return out


def _depth(positive: NDArray[np.bool_], config: CoverConfig) -> int:
    """k: so many nearest images are looked at, at least two, since a window's own is always among them."""
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
    assert table.queries is not None
    rows = np.flatnonzero(positive[table.own])
    image, queries = table.image[rows, :k], table.queries[rows]
    chance = (positive.sum() - 1) / max(len(positive) - 1, 1)
    above[queries] = (positive[image].sum(axis=1) - 1) / max(k - 1, 1) - chance
    strange = negative[table.image[rows]]
    first = np.where(strange.any(axis=1), strange.argmax(axis=1), strange.shape[1] - 1)
    far[queries] = table.distance[rows, first]


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
    """The cover of each class, or what the rival initialiser takes in its place.

    objectness: (n_windows, n_classes), for `config.snap`. Memory: the table of a class's seeds, 12 k bytes
    each.
    """
    if config.snaps_by == "objectness" and objectness is None:
        raise InputError(
            'snap = "objectness" needs the objectness of the windows: give it, or snap otherwise'
        )
    tags = known_tags(tags, config.unknown)
    features = Features(compared(features, config), features.offsets)
    covers = []
    progress("cover", 0, tags.shape[1])
    for c in range(tags.shape[1]):
        cover = _cover(windows, features, tags[:, c] == 1, degrees, c, config, workers)
        covers.append(_snapped(cover, windows, degrees.above[:, c], objectness, c, config))
        progress("cover", c + 1, tags.shape[1])
    return tuple(covers)


def _cover(
    windows: Windows,
    features: Features,
    positive: NDArray[np.bool_],
    degrees: Degrees,
    c: int,
    config: CoverConfig,
    workers: int | None,
) -> Cover:
    if config.initialiser == "negative_mining":
        return _farthest(windows, positive, degrees.far[:, c])
    above = degrees.above[:, c]
    own = np.repeat(positive, np.diff(windows.offsets))
    seeds = np.flatnonzero(best_share(above, windows.offsets, config.seeds) & own)
    k = _depth(positive, config)
    table = group_neighbors(features.X, features.offsets, seeds, k, workers=workers)
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


def _farthest(windows: Windows, positive: NDArray[np.bool_], far: NDArray[np.float32]) -> Cover:
    """`negative_mining` from the distances that were already counted."""
    rows = np.array([a + far[a:z].argmax() for a, z in _spans(windows, positive)], dtype=np.int64)
    own = np.flatnonzero(positive & (np.diff(windows.offsets) > 0)).astype(np.int32)
    order = np.argsort(-far[rows], kind="stable")
    one_each = Neighbors(
        own[order][:, None],
        rows[order][:, None].astype(np.int32),
        far[rows[order]][:, None],
        rows[order],
        own[order],
    )
    return negative_mining(one_each, positive, ~positive)


def _spans(windows: Windows, images: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where the windows of each of these images start and end."""
    for i in np.flatnonzero(images):
        if windows.offsets[i + 1] > windows.offsets[i]:
            yield int(windows.offsets[i]), int(windows.offsets[i + 1])
