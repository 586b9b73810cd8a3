"""The long stages, some photos at a time: what is done of one that was stopped is not computed again."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.degrees import Degrees, block_count, count_blocks, join_degrees
from tag2box.features.config import FeaturesConfig
from tag2box.features.projection import Projection
from tag2box.features.record import Features
from tag2box.images import ImageSet
from tag2box.maps.competition import Activations, Competition, fit_activations
from tag2box.maps.context import Context, Photo, vectors_of_photos
from tag2box.maps.object_maps import Maps, ObjectMaps, WindowObjectness, fit_object_maps
from tag2box.maps.photo_maps import find_cells, map_cells
from tag2box.runtime.blas import one_thread
from tag2box.runtime.progress import Progress
from tag2box.runtime.runner import Part, Runner
from tag2box.stages import Config
from tag2box.windows.search import Windows, find_windows

__all__ = [
    "Description",
    "Known",
    "count_all_neighbors",
    "find_all_competition",
    "find_all_features",
    "find_all_objectness",
    "find_all_windows",
    "find_maps",
]


@dataclass(frozen=True)
class Description:
    """How windows become vectors: projected crops, and the context that the photos' maps give them."""

    projection: Projection
    context: Context | None
    maps: Maps | None

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return int(self.projection.A.shape[1]) + (self.context.width if self.context else 0)


def find_all_windows(images: ImageSet, config: Config, runner: Runner) -> Windows:
    """The windows of every photo, shard by shard."""

    def part(a: int, z: int) -> Part[Windows]:
        return partial(find_windows, images[a:z], config.windows)

    return runner.in_shards("windows", len(images), part, Windows.concatenate)


def find_all_features(
    images: ImageSet, windows: Windows, how: Description, config: Config, runner: Runner
) -> Features:
    """The vectors of every window, shard by shard into one array on disk."""

    def part(a: int, z: int) -> Part[NDArray[np.floating]]:
        mine = replace(how, maps=how.maps.part(a, z) if how.maps else None)
        return partial(_describe, images[a:z], windows.part(a, z), mine, config.features)

    return runner.in_rows(
        "features",
        windows.offsets,
        how.width,
        config.features.dtype,
        part,
        lambda X: Features(X, windows.offsets),
    )


def _describe(
    images: ImageSet,
    windows: Windows,
    how: Description,
    config: FeaturesConfig,
    workers: int | None,
    progress: Progress,
) -> NDArray[np.floating]:
    """The vectors of some photos' windows."""
    maps = how.maps
    photos = [
        Photo(path, None if maps is None else np.asarray(maps[i]), windows.sizes[i], windows[i])
        for i, path in enumerate(images.paths)
    ]
    found = vectors_of_photos(photos, how.projection, how.context, config, workers=workers, progress=progress)
    return np.concatenate(list(found))


def find_maps(images: ImageSet, windows: Windows, config: Config, runner: Runner) -> Maps:
    """The last map of every photo, shard by shard into one array on disk."""
    side = config.maps.side
    shape, offsets, channels = map_cells(windows, side, config.features)

    def part(a: int, z: int) -> Part[NDArray[np.floating]]:
        return partial(find_cells, images[a:z], side, config.features)

    return runner.in_rows("maps", offsets, channels, "float16", part, lambda X: Maps(X, offsets, shape))


def count_all_neighbors(
    features: Features, tags: NDArray[np.int8], config: Config, runner: Runner
) -> Degrees:
    """The degrees of every window, block by block."""
    cover = config.cover

    def count(skip: Container[int], progress: Progress) -> Iterator[Degrees]:
        return count_blocks(features, tags, cover, skip, progress, workers=runner.workers)

    def joined(parts: Sequence[Degrees]) -> Degrees:
        return join_degrees(features, tags, cover, parts)

    return runner.in_blocks("degrees", block_count(features, tags, cover), count, joined)


@dataclass(frozen=True)
class Known:
    """What training starts from: the windows, their vectors, the photos' tags and maps."""

    windows: Windows
    features: Features
    tags: NDArray[np.int8]
    maps: Maps | None


def find_all_objectness(known: Known, config: Config, runner: Runner) -> WindowObjectness:
    """4. Objectness: how well each window frames what its photo's map shows of the class."""
    maps, windows, tags = known.maps, known.windows, known.tags
    assert maps is not None

    @cache
    def of() -> ObjectMaps:
        with one_thread():  # products of one photo are small
            return fit_object_maps(maps, tags, config.maps.components)

    def part(a: int, z: int) -> Part[NDArray[np.float32]]:
        return partial(_alone, of(), maps.part(a, z), windows.part(a, z), config.maps.ring)

    return runner.in_rows(
        "objectness",
        windows.offsets,
        tags.shape[1],
        "float32",
        part,
        lambda found: WindowObjectness(of(), found),
        name="objectness",
    )


def _alone(of: ObjectMaps, maps: Maps, windows: Windows, ring: float, *_: object) -> NDArray[np.float32]:
    with one_thread():
        return of.of_all(maps, windows, ring)


def find_all_competition(
    known: Known, alone: WindowObjectness, config: Config, runner: Runner
) -> Competition:
    """5. Competition: the same, where the tags of a photo share its object maps."""
    maps, windows, tags = known.maps, known.windows, known.tags
    assert maps is not None

    @cache
    def activations() -> Activations:
        with one_thread():
            return fit_activations(maps, tags)

    def part(a: int, z: int) -> Part[NDArray[np.float32]]:
        rows = slice(windows.offsets[a], windows.offsets[z])
        mine = replace(alone, objectness=alone.objectness[rows])
        photos = maps.part(a, z), windows.part(a, z), tags[a:z]
        return partial(_shared, activations(), mine, *photos, config.maps.ring)

    return runner.in_rows(
        "competition",
        windows.offsets,
        tags.shape[1],
        "float32",
        part,
        lambda found: Competition(activations(), found),
        name="objectness",
    )


def _shared(
    activations: Activations,
    alone: WindowObjectness,
    maps: Maps,
    windows: Windows,
    tags: NDArray[np.int8],
    ring: float,
    *_: object,
) -> NDArray[np.float32]:
    with one_thread():
        return activations.compete(alone, maps, windows, tags, ring)
