"""How windows become vectors: the features of each, and the context that the photo's maps give it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Source
from tag2box.features.automatic import resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.one_photo import see, window_features
from tag2box.features.projection import Projection
from tag2box.features.whole_photo import Seen
from tag2box.images import ImageSet
from tag2box.maps.context import Context, Photo, photo_context
from tag2box.maps.object_maps import Maps
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.record import Windows

__all__ = ["Description", "describe_images"]


@dataclass(frozen=True)
class Description:
    """projection: of the features. context: of the photo's maps, None where vectors are features alone."""

    projection: Projection
    context: Context | None = None

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return int(self.projection.A.shape[1]) + (self.context.width if self.context else 0)

    def __call__(
        self,
        seen: Seen,
        boxes: NDArray[np.float32],
        map_: NDArray[np.floating] | None,
        config: FeaturesConfig,
        threads: int = 1,
    ) -> NDArray[np.floating]:
        """The vectors of the `boxes` of one photo, (n, width); map_: its last map, for the context."""
        X = window_features(seen, boxes, self.projection, config, threads=threads)
        if self.context is None or map_ is None:
            return X
        photo = Photo(seen, map_, np.array(seen.size[::-1]), boxes)
        more = photo_context(self.context, config, photo, threads=threads)
        return np.concatenate([X, more.astype(X.dtype)], axis=1)

    def see(self, source: Source, config: FeaturesConfig, threads: int = 1) -> Seen:
        """The photo, decoded as large as any map of it needs."""
        fine_side = self.context.fine_side if self.context else 0
        return see(source, config, side=fine_side, threads=threads)


def describe_images(
    images: ImageSet,
    windows: Windows,
    maps: Maps | None,
    how: Description,
    config: FeaturesConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Iterator[NDArray[np.floating]]:
    """The vectors of the windows of each photo, in order."""
    wants_map = maps is not None and how.context is not None
    jobs = [
        (path, windows[i], np.asarray(maps[i]) if wants_map and maps is not None else None)
        for i, path in enumerate(images.paths)
    ]
    job = partial(_describe, how, resolved(config))
    return map_ordered(job, jobs, workers=workers, progress=progress, label="features")


def _describe(
    how: Description,
    config: FeaturesConfig,
    job: tuple[Path, NDArray[np.float32], NDArray[np.floating] | None],
) -> NDArray[np.floating]:
    path, boxes, map_ = job
    return how(how.see(path, config), boxes, map_, config)
