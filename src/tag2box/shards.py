"""The long stages in shards: the same pure functions over images a to z, and how results are joined."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tag2box.detections import Detections
from tag2box.detector import Detector
from tag2box.features import FeaturesConfig, find_features, resolved
from tag2box.images import ImageSet
from tag2box.photo_maps import find_cells
from tag2box.projection import Projection
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress
from tag2box.windows import Windows, WindowsConfig, find_windows

__all__ = ["cells_of", "detections_of", "features_of", "join_windows", "windows_of"]


def windows_of(
    images: ImageSet, config: WindowsConfig, a: int, z: int, progress: Progress, *, workers: int
) -> Windows:
    """The windows of images a to z."""
    return find_windows(_images(images, a, z), config, workers, progress)


def features_of(
    images: ImageSet,
    windows: Windows,
    projection: Projection,
    config: FeaturesConfig,
    a: int,
    z: int,
    progress: Progress,
    *,
    workers: int,
) -> NDArray[np.floating]:
    """The features of the windows of images a to z."""
    first, last = windows.offsets[a], windows.offsets[z]
    part = Windows(windows.xyxy[first:last], windows.offsets[a : z + 1] - first)
    return find_features(
        _images(images, a, z), part, projection, config, workers=workers, progress=progress
    ).X


def cells_of(
    images: ImageSet, side: int, config: FeaturesConfig, a: int, z: int, progress: Progress, *, workers: int
) -> NDArray[np.floating]:
    """The cells of the maps of images a to z."""
    return find_cells(_images(images, a, z), side, config, workers=workers, progress=progress)


def detections_of(
    detector: Detector, images: ImageSet, a: int, z: int, progress: Progress, *, workers: int
) -> Detections:
    """What the detector finds in images a to z; the first of them has the number a."""
    detector = replace(detector, features=resolved(detector.features))
    with one_thread():  # as in a worker: the last bit of a product depends on the threads
        parts = map_ordered(
            detector.detect, images.paths[a:z], workers=workers, progress=progress, label="detections"
        )
        return Detections.concatenate(replace(part, image=part.image + i) for i, part in enumerate(parts, a))


def _images(images: ImageSet, a: int, z: int) -> ImageSet:
    return images.take(np.arange(a, z))


def join_windows(parts: Sequence[Windows]) -> Windows:
    """The windows of all shards, in their order."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    xyxy = np.concatenate([part.xyxy for part in parts])
    return Windows(xyxy, np.append(0, np.cumsum(counts)).astype(np.int64))
