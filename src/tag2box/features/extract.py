"""Windows through the network -> `Features`: one vector per window.

    projection = find_projection(images, windows, config)
    features = find_features(images, windows, projection, config, path="features.npy")

An image's features depend on that image, the projection and the config alone: not on other images, the
number of workers or how windows fall into batches. X is on disk where `path` is given.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.features.automatic import mode_of, network_of, resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.one_photo import pooled_features, raw_features, window_features
from tag2box.features.projection import Projection, fit_projection
from tag2box.features.record import Features
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.record import Windows

__all__ = [
    "Features",
    "FeaturesConfig",
    "features_of_photos",
    "find_features",
    "find_projection",
    "raw_features",
    "resolved",
    "window_features",
]

Floats = NDArray[np.float32]


class _Maps(Protocol):
    """The map (h, w, c) of each photo."""

    def __getitem__(self, i: int, /) -> NDArray[np.floating]: ...


def find_projection(
    images: ImageSet,
    windows: Windows,
    config: FeaturesConfig,
    *,
    maps: _Maps | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Projection:
    """Fit the projection (PCA, whitening and length) on a sample of windows.

    Parameters
    ----------
    images : ImageSet
        The images.
    windows : Windows
        Their windows.
    config : FeaturesConfig
        The settings.
    maps : Maps, default=None
        The last maps of the photos. Where they are there, the mode "pool" runs no network again.
    workers : int, default=1
        The number of processes; None means one per core. No result depends on it.
    progress : callable, default=silent
        Called with (label, done, total) as the work proceeds.

    Returns
    -------
    Projection
        Maps the raw vectors of the network to features.

    See Also
    --------
    find_features : Uses it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tag2box as t2b
    >>> file = Path(tempfile.mkdtemp()) / "photo.png"
    >>> Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)).save(file)
    >>> images = t2b.ImageSet(("photo",), (file,), np.zeros((1, 0), np.int8), ())
    >>> boxes = np.array([[0, 0, 96, 96], [8, 8, 60, 60], [30, 4, 90, 70]], np.float32)
    >>> windows = t2b.Windows(boxes, np.array([0, 3]), np.array([[96, 96]]))
    >>> config = t2b.FeaturesConfig(levels=(96,), grid=1, dimensions=2)
    >>> projection = t2b.find_projection(images, windows, config)
    >>> projection.A.shape
    (320, 2)
    """
    rng = np.random.default_rng(config.seed)
    chosen = np.sort(rng.permutation(len(images))[: config.sample_images])
    some = []
    for i in chosen:
        boxes = windows[i]
        some.append(boxes[np.sort(rng.permutation(len(boxes))[: config.sample_windows])])
    if maps is not None and mode_of(config, network_of(config)) == "pool":
        vectors: Iterator[NDArray[np.floating]] = (
            pooled_features(maps[i], boxes, windows.sizes[i], config)
            for i, boxes in zip(chosen, some, strict=True)
        )
    else:
        jobs = [(images.paths[i], boxes) for i, boxes in zip(chosen, some, strict=True)]
        vectors = features_of_photos(
            jobs, None, config, workers=workers, progress=progress, label="projection"
        )
    sample = np.concatenate(list(vectors))
    if len(sample) == 0:
        raise InputError("there is no window in the sampled images: nothing to fit the projection on")
    return fit_projection(sample, config.dimensions, config.whitening, config.norm, config.length)


def find_features(
    images: ImageSet,
    windows: Windows,
    projection: Projection,
    config: FeaturesConfig,
    *,
    path: str | Path | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Features:
    """Compute the features of all windows.

    Parameters
    ----------
    images : ImageSet
        The images.
    windows : Windows
        Their windows.
    projection : Projection
        The projection, from `find_projection`.
    config : FeaturesConfig
        The settings.
    path : str or Path, default=None
        A ``.npy`` file to write the vectors to; the result is then mapped from it. None keeps them in memory.
    workers : int, default=1
        The number of processes; None means one per core. No result depends on it.
    progress : callable, default=silent
        Called with (label, done, total) as the work proceeds.

    Returns
    -------
    Features
        One vector per window, in the order of the windows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tag2box as t2b
    >>> file = Path(tempfile.mkdtemp()) / "photo.png"
    >>> Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)).save(file)
    >>> images = t2b.ImageSet(("photo",), (file,), np.zeros((1, 0), np.int8), ())
    >>> boxes = np.array([[0, 0, 96, 96], [8, 8, 60, 60], [30, 4, 90, 70]], np.float32)
    >>> windows = t2b.Windows(boxes, np.array([0, 3]), np.array([[96, 96]]))
    >>> config = t2b.FeaturesConfig(levels=(96,), grid=1, dimensions=2)
    >>> projection = t2b.find_projection(images, windows, config)
    >>> features = t2b.find_features(images, windows, projection, config)
    >>> features.X.shape
    (3, 2)
    """
    shape = (len(windows.xyxy), projection.A.shape[1])
    dtype = np.dtype(config.dtype)
    X = np.empty(shape, dtype) if path is None else open_memmap(Path(path), "w+", dtype, shape)
    jobs = [(file, windows[i]) for i, file in enumerate(images.paths)]
    blocks = features_of_photos(
        jobs, projection, config, workers=workers, progress=progress, label="features"
    )
    for (a, z), block in zip(windows.spans(), blocks, strict=True):
        X[a:z] = block
    if isinstance(X, np.memmap):
        X.flush()
    return Features(X, windows.offsets)


def features_of_photos(
    jobs: Sequence[tuple[Path, Floats]],
    projection: Projection | None,
    config: FeaturesConfig,
    *,
    workers: int | None,
    progress: Progress,
    label: str,
) -> Iterator[NDArray[np.floating]]:
    """The vectors of each job, a photo and boxes in it; raw where there is no projection yet."""
    find = partial(_of_photo, resolved(config), projection)
    return map_ordered(find, jobs, workers=workers, progress=progress, label=label)


def _of_photo(
    config: FeaturesConfig, projection: Projection | None, job: tuple[Path, Floats]
) -> NDArray[np.floating]:
    path, boxes = job
    return (
        raw_features(path, boxes, config)
        if projection is None
        else window_features(path, boxes, projection, config)
    )
