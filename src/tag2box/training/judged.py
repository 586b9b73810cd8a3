"""The features of boxes that a person judged: those of the boxes themselves, not of the nearest window."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.features.extract import FeaturesConfig, features_of_photos, resolved
from tag2box.features.projection import Projection
from tag2box.images import ImageSet
from tag2box.maps.context import Context, Photo, photo_context
from tag2box.maps.object_maps import Maps
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.search import Windows

__all__ = ["judged_context", "judged_features"]

Floats = NDArray[np.float32]


def judged_features(
    images: ImageSet,
    corrections: Corrections,
    projection: Projection,
    config: FeaturesConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> NDArray[np.floating]:
    """The vectors of the judged boxes themselves, (n, d), in the order of `corrections`."""
    photos = np.unique(corrections.image)
    rows = [np.flatnonzero(corrections.image == i) for i in photos]
    jobs = [(images.paths[i], corrections.xyxy[mine]) for i, mine in zip(photos, rows, strict=True)]
    out = np.empty((len(corrections), projection.A.shape[1]), config.dtype)
    parts = features_of_photos(
        jobs, projection, config, workers=workers, progress=progress, label="your boxes"
    )
    for mine, part in zip(rows, parts, strict=True):
        out[mine] = part
    return out


def judged_context(
    images: ImageSet,
    corrections: Corrections,
    context: Context,
    maps: Maps,
    windows: Windows,
    config: FeaturesConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Floats:
    """The context of the judged boxes, (n, k), in the order of `corrections`."""
    rows = [np.flatnonzero(corrections.image == i) for i in np.unique(corrections.image)]
    photos = [
        Photo(images.paths[i], np.asarray(maps[i]), windows.sizes[i], corrections.xyxy[mine])
        for i, mine in zip(np.unique(corrections.image), rows, strict=True)
    ]
    job = partial(photo_context, context, resolved(config))
    parts = map_ordered(job, photos, workers=workers, progress=progress, label="around your boxes")
    out = np.empty((len(corrections), context.width), np.float32)
    for mine, part in zip(rows, parts, strict=True):
        out[mine] = part
    return out
