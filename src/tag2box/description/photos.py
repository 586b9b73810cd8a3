"""Many photos described: a sample of them first, from which the description is fitted, and then all.

    photos = hash_photos(images)
    sample = sample_photos(draw_photos(photos, settings), settings)
    described = describe_photos(photos, fit_description(sample, settings), sample)

What the network said of the sample is kept until then: so no photo is decoded twice. But of a pyramid, whose
vectors are ten times as long, only the windows are kept that the projection is fitted on: many photos matter
more than many windows of each, and to see them twice costs less than to keep all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.description.describe import describe, raw_photo, raw_widths
from tag2box.description.description import Description
from tag2box.description.record import Described, Raw
from tag2box.description.resolving import DescriptionConfig
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.windows.record import Windows

# Bytes that the raw vectors of the sample may take on disk, until every photo is described.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Photos:
    """Files of photos, and the hash of what is in each: they may be moved and renamed.

    first: the place of the first among all, where these are a part.
    """

    paths: tuple[Path, ...]
    hashes: tuple[str, ...]
    first: int = 0

    def key(self) -> Any:
        """What they are known by."""
        return self.hashes

    def __len__(self) -> int:
        return len(self.paths)

    def part(self, a: int, z: int) -> "Photos":
        """The photos a to z."""
        return Photos(self.paths[a:z], self.hashes[a:z], self.first + a)

    def take(self, rows: Sequence[int]) -> "Photos":
        """These photos."""
        return Photos(tuple(self.paths[i] for i in rows), tuple(self.hashes[i] for i in rows))


def hash_photos(images: ImageSet, *, progress: Progress = silent) -> Photos:
    """The photos of `images`, by what is in their files."""
    hashes = map_ordered(content_hash, images.paths, progress=progress, label="reading")
    return Photos(images.paths, tuple(hashes))


def draw_photos(photos: Photos, settings: DescriptionConfig) -> Photos:
    """The photos that the description is fitted on: some hundred, and fewer where vectors are long."""
    kept = settings.windows.max_windows if _keeps_all(settings) else settings.features.sample_windows
    per_photo = 4 * kept * sum(raw_widths(settings))
    most = min(settings.features.sample_images, max(MOST_BYTES // per_photo, 1))
    order = np.random.default_rng(settings.features.seed).permutation(len(photos))
    return photos.take(np.sort(order[:most]).tolist())


def _keeps_all(settings: DescriptionConfig) -> bool:
    """Whether all windows of the sample are kept, to be only projected later."""
    return settings.features.mode != "pyramid"


@stage("sample", version=5)
def sample_photos(
    photos: Photos, settings: DescriptionConfig, *, workers: int | None = 1, progress: Progress = silent
) -> Raw:
    """These photos as the network sees them: all of their windows, or of a pyramid some."""
    items = list(zip(photos.paths, photos.hashes, strict=True))
    job = partial(_raw, settings)
    return Raw.concatenate(list(map_ordered(job, items, workers=workers, progress=progress, label="sample")))


def _raw(settings: DescriptionConfig, item: tuple[Path, str]) -> Raw:
    path, name = item
    raw = replace(raw_photo(path, settings), hashes=(name,), widths=raw_widths(settings))
    if _keeps_all(settings):
        return raw
    rng = np.random.default_rng([settings.features.seed, int(name[:8], 16)])
    rows = np.sort(rng.permutation(len(raw.X))[: settings.features.sample_windows])
    windows = Windows.of_image(raw.windows.xyxy[rows], tuple(raw.windows.sizes[0]))
    return replace(raw, windows=windows, X=raw.X[rows])


@stage("described", version=3)
def describe_photos(
    photos: Photos,
    description: Description,
    sample: Raw | None = None,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Described:
    """The windows, vectors and maps of many photos; those of the sample are only projected.

    But not where some of its windows were not kept, or details add others: then it is described anew. A
    photo's vectors depend on that photo and the description alone: not on other photos, the number of workers
    or how windows fall into batches.
    """
    kept = sample if _keeps_all(description.settings) and not description.details else None
    places = {name: i for i, name in enumerate(kept.hashes)} if kept else {}
    items = [
        (path, kept.part(places[name], places[name] + 1) if kept and name in places else None)
        for path, name in zip(photos.paths, photos.hashes, strict=True)
    ]
    job = partial(_describe, description)
    return Described.concatenate(
        list(map_ordered(job, items, workers=workers, progress=progress, label="describing"))
    )


def _describe(description: Description, item: tuple[Path, Raw | None]) -> Described:
    path, raw = item
    return describe(path, description) if raw is None else _describe_raw(description, raw)


def _describe_raw(description: Description, raw: Raw) -> Described:
    around = description.around(raw.windows, raw.maps, raw.fine)
    X = description.project(np.asarray(raw.X))
    return Described(raw.windows, np.concatenate([X, around], axis=1), raw.maps)


def described_sample(sample: Raw, description: Description) -> Described:
    """The photos of the sample as they will be described."""
    parts = (sample.part(i, i + 1) for i in range(len(sample)))
    return Described.concatenate([_describe_raw(description, raw) for raw in parts])


@stage("judged", version=1)
def describe_boxes(
    photos: Photos,
    image: NDArray[np.intp],
    xyxy: NDArray[np.float32],
    description: Description,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> NDArray[np.floating]:
    """The vectors of boxes, (n, d), each computed for the box itself; image: (n,) the photo of each."""
    chosen = np.unique(image)
    rows = [np.flatnonzero(image == i) for i in chosen]
    items = [(photos.paths[i], xyxy[own]) for i, own in zip(chosen, rows, strict=True)]
    job = partial(_describe_boxes, description)
    vectors = map_ordered(job, items, workers=workers, progress=progress, label="your boxes")
    out = np.empty((len(xyxy), description.width), description.settings.features.dtype)
    for own, part in zip(rows, vectors, strict=True):
        out[own] = part
    return out


def _describe_boxes(description: Description, item: tuple[Path, NDArray[np.float32]]) -> NDArray[np.floating]:
    path, boxes = item
    return describe(path, description, boxes=boxes).X
