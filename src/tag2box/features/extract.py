"""Windows through the network -> `Features`: one vector per window.

    projection = find_projection(images, windows, config)
    features = find_features(images, windows, projection, config, path="features.npy")
    X = window_features(photo, boxes, projection, config)      # one new photo, the same code path

An image's features depend on that image, the projection and the config alone: not on other images, the
number of workers or how windows fall into batches. Memory is bounded for any image size: a photo is
decoded and resized to at most the largest level, crops are made 512 at a time; with the network a worker
stays below 1 GB. X itself is on disk where `path` is given.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import Source, read_small
from tag2box.errors import InputError
from tag2box.features.backbone import Network, load_network
from tag2box.features.modes import BATCH, Shared, Warp
from tag2box.features.networks.content import network_hash
from tag2box.features.networks.inference import PRECISIONS, How, Part
from tag2box.features.networks.precision import Speeds, fastest
from tag2box.features.projection import NORMS, Projection, fit_projection
from tag2box.images import ImageSet
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.record import ByImage, Windows

__all__ = [
    "Features",
    "FeaturesConfig",
    "check_finite",
    "find_features",
    "find_projection",
    "measure_precision",
    "resolved",
    "window_features",
]

Floats = NDArray[np.float32]

# Larger photos are shrunk to this long side before windows are warped out of them: a bound for memory.
WARP_SIDE = 2048


@dataclass(frozen=True)
class FeaturesConfig:
    """How windows become vectors. The defaults are the best of the table in docs/features.md."""

    # A built-in network, or the path of an ONNX file with its TOML beside it.
    network: str = "efficientnet-lite0"
    # "shared" cuts windows out of an early map, "warp" out of the photo: about as good, and slower.
    mode: str = "shared"
    # shared: the map to cut at; None is the network's own, for EfficientNet the first stage of stride 16.
    cut: str | None = None
    # shared: samples of the early map per window and direction.
    crop: int = 8
    # shared: long sides of the photo, in pixels: the smaller a window, the larger the photo it is taken from.
    # The smallest serves windows as large as the photo.
    levels: tuple[int, ...] = (724, 512, 362, 256, 181)
    # warp: pixels per window and direction.
    size: int = 128
    # Context on each side, as a share of the window. With more, a part of an object looks like all of it.
    padding: float = 0.0
    # Averages over grid x grid parts of the window: 1 forgets the layout, more keep it.
    grid: int = 2
    # "auto" is the fastest on this machine, by measurement.
    precision: str = "auto"
    # "auto" is a GPU where OpenVINO offers one, else the CPU.
    device: str = "auto"
    # PCA: None keeps the raw vectors. Whitening 0 is plain PCA, 0.5 whitens fully. Neighbors want no more
    # than the first 128, but with those alone an SVM on true boxes had 7 points of AP less (an earlier cut).
    dimensions: int | None = 512
    whitening: float = 0.25
    # "l2": every vector has the length 20; "mean": the mean length is 20 (R-CNN, which the SVM's C assumes).
    norm: str = "l2"
    length: float = 20.0
    # The sample for the projection: so many images, so many windows of each.
    sample_images: int = 300
    sample_windows: int = 64
    seed: int = 0
    dtype: str = "float16"

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, ("shared", "warp"))
        _one_of("precision", self.precision, ("auto", *PRECISIONS))
        _one_of("norm", self.norm, NORMS)
        _one_of("dtype", self.dtype, ("float16", "float32"))
        for name in ("crop", "size", "grid", "sample_images", "sample_windows"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        if not self.levels or min(self.levels) < 32 or max(self.levels) > 4096:
            raise InputError(f"levels must be sizes from 32 to 4096 pixels, but they are {self.levels}")
        if self.padding <= -0.5 or self.length <= 0:
            raise InputError("padding must be above -0.5 and length above 0")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, but it is {value!r}")


@stored
@dataclass(frozen=True)
class Features(ByImage):
    """X: (n, d), float16 or float32, one row per window, maybe on disk; offsets: (n_images + 1)."""

    X: NDArray[np.floating]
    offsets: NDArray[np.int64]


def resolved(config: FeaturesConfig) -> FeaturesConfig:
    """`config` with the precision that "auto" means on this machine.

    Whoever hands a config to workers resolves it first: all of them must compute the same.
    """
    return replace(config, precision=measure_precision(config).precision)


@lru_cache(maxsize=16)
def measure_precision(config: FeaturesConfig) -> Speeds:
    """The precision of `config`, and where it is "auto" the figures that it was chosen by."""
    if config.precision != "auto":
        return Speeds(config.precision, {})
    network = _network(config)
    whole = config.mode == "warp" or network.cut is None
    start, size = (None, config.size) if whole else (network.cut, config.crop)

    def compiled(precision: str) -> Part:
        how = How(precision, device=config.device)
        return Part(network, (BATCH, size, size), how, start=start, grid=config.grid)

    content = [content_hash(network.path), network.output, start, size, config.grid]
    return fastest(compiled, config.device, content)


def find_projection(
    images: ImageSet,
    windows: Windows,
    config: FeaturesConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Projection:
    """PCA, whitening and length from a sample of windows of a sample of the images."""
    config = resolved(config)
    rng = np.random.default_rng(config.seed)
    chosen = np.sort(rng.permutation(len(images))[: config.sample_images])
    jobs = []
    for i in chosen:
        boxes = windows[i]
        rows = np.sort(rng.permutation(len(boxes))[: config.sample_windows])
        jobs.append((images.paths[i], boxes[rows]))
    vectors = map_ordered(
        partial(_of_job, config, None), jobs, workers=workers, progress=progress, label="projection"
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
    """The vectors of all windows, in their order; in the `.npy` file `path`, memory-mapped, where given."""
    config = resolved(config)
    shape = (len(windows.xyxy), projection.A.shape[1])
    dtype = np.dtype(config.dtype)
    X = np.empty(shape, dtype) if path is None else open_memmap(Path(path), "w+", dtype, shape)
    jobs = [(file, windows[i]) for i, file in enumerate(images.paths)]
    blocks = map_ordered(
        partial(_of_job, config, projection), jobs, workers=workers, progress=progress, label="features"
    )
    for (a, z), block in zip(windows.spans(), blocks, strict=True):
        X[a:z] = block
    if isinstance(X, np.memmap):
        X.flush()
    return Features(X, windows.offsets)


def window_features(
    source: Source,
    boxes: Floats,
    projection: Projection,
    config: FeaturesConfig,
    *,
    flip: bool = False,
    streams: int = 1,
) -> NDArray[np.floating]:
    """The vectors of `boxes` (n, 4) in one image, file or array, (n, d): the bits of `find_features`.

    `flip`: of the image seen in a mirror; row i still belongs to box i. `streams`: threads to use.
    """
    vectors = projection(_raw(source, boxes, config, flip=flip, streams=streams))
    with np.errstate(over="ignore"):
        stored = vectors.astype(config.dtype)
    if not np.isfinite(stored).all():
        raise InputError(f'features of length {config.length:g} do not fit: set features.dtype to "float32"')
    return stored


def _of_job(
    config: FeaturesConfig, projection: Projection | None, job: tuple[Path, Floats]
) -> NDArray[np.floating]:
    """The vectors of one image file: projected, or raw where there is no projection yet."""
    path, boxes = job
    return (
        _raw(path, boxes, config) if projection is None else window_features(path, boxes, projection, config)
    )


def _raw(
    source: Source, boxes: Floats, config: FeaturesConfig, *, flip: bool = False, streams: int = 1
) -> Floats:
    """Pooled vectors before the projection, (n, grid * grid * c)."""
    boxes = as_boxes(boxes)
    extract = _extractor(resolved(config), streams, network_hash(config.network))
    if len(boxes) == 0:
        return np.empty((0, extract.width), np.float32)
    side = max(config.levels) if config.mode == "shared" else WARP_SIDE
    photo, full_size = read_small(source, side)
    boxes = boxes * np.tile(np.array(photo.shape[1::-1]) / np.array(full_size), 2).astype(np.float32)
    if flip:
        right = np.float32(photo.shape[1])
        photo = np.ascontiguousarray(photo[:, ::-1])
        boxes = np.stack([right - boxes[:, 2], boxes[:, 1], right - boxes[:, 0], boxes[:, 3]], axis=1)
    raw = extract(photo, boxes).reshape(len(boxes), -1)
    check_finite(raw, source, config)
    return raw


def check_finite(numbers: NDArray[np.floating], source: Source, config: FeaturesConfig) -> None:
    """Refuse what a network made of a photo where it is no number: nothing behind it could use it."""
    if not np.isfinite(numbers).all():
        photo = source if isinstance(source, str | os.PathLike) else "a photo"
        raise InputError(
            f"{config.network} makes no finite numbers of {photo}: check the mean and std in its TOML, "
            f'or set features.precision to "f32"'
        )


def _network(config: FeaturesConfig) -> Network:
    network = load_network(config.network)
    return network if config.cut is None else replace(network, cut=config.cut)


@lru_cache(maxsize=2)
def _extractor(config: FeaturesConfig, streams: int, _content: str) -> Shared | Warp:
    """The compiled network; made once per process and content, since that takes some tenths of a second."""
    network = _network(config)
    how = How(config.precision, streams, config.device)
    if config.mode == "warp":
        return Warp(network, how, size=config.size, padding=config.padding, grid=config.grid)
    return Shared(
        network, how, crop=config.crop, levels=config.levels, padding=config.padding, grid=config.grid
    )
