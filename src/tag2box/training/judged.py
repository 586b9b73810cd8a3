"""The vectors of the boxes that a person judged: computed for each box itself, not for a window near it."""

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.features.config import FeaturesConfig
from tag2box.features.projection import Projection
from tag2box.images import ImageSet
from tag2box.maps.context import Context, Photo, vectors_of_photos
from tag2box.maps.object_maps import Maps
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.record import Windows

__all__ = ["judged_vectors"]


def judged_vectors(
    images: ImageSet,
    corrections: Corrections,
    windows: Windows,
    maps: Maps | None,
    projection: Projection,
    context: Context | None,
    config: FeaturesConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> NDArray[np.floating]:
    """The vectors of the judged boxes themselves, (n, d), in the order of `corrections`."""
    chosen = np.unique(corrections.image)
    rows = [np.flatnonzero(corrections.image == i) for i in chosen]
    photos = [
        Photo(images.paths[i], None if maps is None else maps[i], windows.sizes[i], corrections.xyxy[mine])
        for i, mine in zip(chosen, rows, strict=True)
    ]
    parts = vectors_of_photos(
        photos, projection, context, config, workers=workers, progress=progress, label="your boxes"
    )
    width = projection.A.shape[1] + (context.width if context else 0)
    out = np.empty((len(corrections), width), config.dtype)
    for mine, part in zip(rows, parts, strict=True):
        out[mine] = part
    return out
