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
from collections.abc import Iterator, Sequence
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
from tag2box.features.modes import BATCH, Pool, Shared, Warp
from tag2box.features.networks.content import network_hash
from tag2box.features.networks.engine import PRECISIONS, RUNTIMES, How
from tag2box.features.networks.inference import Part
from tag2box.features.networks.precision import Speeds, fastest
from tag2box.features.projection import NORMS, Projection, fit_projection
from tag2box.images import ImageSet
from tag2box.runtime.checks import check_above, check_at_least, check_choice
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.record import ByImage, Windows

__all__ = [
    "Features",
    "FeaturesConfig",
    "check_finite",
    "features_of_photos",
    "find_features",
    "find_projection",
    "how_of",
    "measure_precision",
    "mode_of",
    "raw_features",
    "resolved",
    "window_features",
]

Floats = NDArray[np.float32]

MODES = ("auto", "shared", "warp", "pool")


@dataclass(frozen=True)
class FeaturesConfig:
    """Settings of the features: the network, how windows go through it, and the projection.

    Parameters
    ----------
    network : str, default="efficientnet-lite0"
        A built-in network, or the path of an ONNX file with its TOML beside it.
    mode : {"auto", "shared", "warp", "pool"}, default="auto"
        Cut windows out of an early map of the photo ("shared"), or out of the photo itself ("warp"), which is
        slower, or average the last map inside of them ("pool"). "auto" is "shared" where the network says
        where to cut it, else "pool".
    cut : str, default=None
        The map at which "shared" cuts. None is the network's own choice.
    crop : int, default=8
        The number of samples of that map per window and direction.
    levels : tuple of int, default=(724, 512, 362, 256, 181)
        The long sides, in pixels, at which "shared" looks at the photo; "pool" takes the largest.
    size : int, default=128
        The width and height, in pixels, to which "warp" resizes a window.
    padding : float, default=0.0
        The context on each side of a window, as a share of its size.
    grid : int, default=2
        The features are averages over grid x grid parts of a window; 1 forgets its layout.
    precision : {"auto", "f32", "bf16", "f16"}, default="auto"
        The precision of the network; "auto" measures which is the fastest on this machine.
    runtime : {"openvino", "onnxruntime"}, default="openvino"
        What runs the network; the second needs `pip install "tag2box[onnxruntime]"`.
    device : str, default="auto"
        An OpenVINO device, or of onnxruntime CUDA, CoreML, DirectML or CPU; "auto" is a GPU if the runtime
        offers one, else the CPU.
    dimensions : int, default=512
        The greatest number of dimensions of the PCA. None keeps the raw vectors.
    whitening : float, default=0.25
        The power of the variance by which each axis is divided: 0 is plain PCA, 0.5 whitens fully.
    norm : {"l2", "mean", "none"}, default="l2"
        Whether every vector gets `length`, or their mean does, or nothing is scaled.
    length : float, default=20.0
        The length of the vectors.
    sample_images : int, default=300
        The number of images on which the PCA is fitted.
    sample_windows : int, default=64
        The number of windows of each of them.
    seed : int, default=0
        The seed of that sample.
    dtype : {"float16", "float32"}, default="float16"
        The type of the stored vectors.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.FeaturesConfig(mode="warp", size=224).dimensions
    512
    """

    # A built-in network, or the path of an ONNX file with its TOML beside it.
    network: str = "efficientnet-lite0"
    # "shared" cuts windows out of an early map, "warp" out of the photo: about as good, and slower. "pool"
    # averages the last map, for networks that cannot be cut. "auto" is "shared" where a cut is known.
    mode: str = "auto"
    # shared: the map to cut at; None is the network's own, for EfficientNet the first stage of stride 16.
    cut: str | None = None
    # shared: samples of the early map per window and direction.
    crop: int = 8
    # shared: long sides of the photo, in pixels: the smaller a window, the larger the photo it is taken from.
    # The smallest serves windows as large as the photo. pool takes the largest alone.
    levels: tuple[int, ...] = (724, 512, 362, 256, 181)
    # warp: pixels per window and direction.
    size: int = 128
    # Context on each side, as a share of the window. With more, a part of an object looks like all of it.
    padding: float = 0.0
    # Averages over grid x grid parts of the window: 1 forgets the layout, more keep it.
    grid: int = 2
    # "auto" is the fastest on this machine, by measurement.
    precision: str = "auto"
    # OpenVINO is faster on the CPU; onnxruntime knows the GPUs of NVIDIA, Apple and Windows.
    runtime: str = "openvino"
    # "auto" is a GPU where the runtime offers one, else the CPU.
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
        check_choice("mode", self.mode, MODES)
        check_choice("runtime", self.runtime, RUNTIMES)
        check_choice("precision", self.precision, ("auto", *PRECISIONS))
        if self.runtime == "onnxruntime" and self.precision not in ("auto", "f32"):
            raise InputError(f'onnxruntime computes in "f32", not in {self.precision!r}: leave precision out')
        check_choice("norm", self.norm, NORMS)
        check_choice("dtype", self.dtype, ("float16", "float32"))
        check_at_least(1, crop=self.crop, size=self.size, grid=self.grid)
        check_at_least(1, sample_images=self.sample_images, sample_windows=self.sample_windows)
        if not self.levels or min(self.levels) < 32 or max(self.levels) > 4096:
            raise InputError(f"levels must be sizes from 32 to 4096 pixels, but they are {self.levels}")
        check_above(-0.5, padding=self.padding)
        check_above(0, length=self.length)


@stored
@dataclass(frozen=True)
class Features(ByImage):
    """One vector per window.

    Parameters
    ----------
    X : ndarray of float16 or float32 of shape (n, d)
        The vectors of all windows; it may be mapped from a file.
    offsets : ndarray of int64 of shape (n_images + 1,)
        Where the rows of each image start.

    See Also
    --------
    find_features : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> features = t2b.Features(np.zeros((5, 8), np.float32), np.array([0, 2, 5]))
    >>> features.counts.tolist()
    [2, 3]
    """

    X: NDArray[np.floating]
    offsets: NDArray[np.int64]


def resolved(config: FeaturesConfig) -> FeaturesConfig:
    """`config` with the mode that "auto" means for its network, and the precision on this machine.

    Whoever hands a config to workers resolves it first: all of them must compute the same.
    """
    mode = mode_of(config, _network(config))
    return replace(config, mode=mode, precision=measure_precision(config).precision)


def mode_of(config: FeaturesConfig, network: Network) -> str:
    """How windows go through `network`, where that is left to it."""
    if config.mode != "auto":
        return config.mode
    return "pool" if network.cut is None or network.size is not None else "shared"


def how_of(config: FeaturesConfig, streams: int) -> How:
    """How the network is to be run."""
    return How(config.precision, streams, config.device, config.runtime)


@lru_cache(maxsize=16)
def measure_precision(config: FeaturesConfig) -> Speeds:
    """The precision of `config`, and where it is "auto" the figures that it was chosen by."""
    if config.precision != "auto" or config.runtime == "onnxruntime":
        return Speeds("f32" if config.precision == "auto" else config.precision, {})
    network = _network(config)
    mode = mode_of(config, network)
    start, (batch, h, w) = _measured_part(config, network, mode)
    grid = None if mode == "pool" else config.grid

    def compiled(precision: str) -> Part:
        how = how_of(replace(config, precision=precision), 1)
        return Part(network, (batch, h, w), how, start=start, grid=grid)

    content = [content_hash(network.path), network.output, start, batch, h, config.grid]
    return fastest(compiled, config.device, content)


def _measured_part(
    config: FeaturesConfig, network: Network, mode: str
) -> tuple[str | None, tuple[int, int, int]]:
    """Where the part that takes most of the time starts, and what goes into it."""
    if mode == "shared" and network.cut is not None:
        return network.cut, (BATCH, config.crop, config.crop)
    if mode == "pool":
        side = max(max(config.levels) // 2 // network.block, 1) * network.block
        return None, (1, *(network.size or (side, side)))
    return None, (BATCH, *(network.size or (config.size, config.size)))


def find_projection(
    images: ImageSet,
    windows: Windows,
    config: FeaturesConfig,
    *,
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
    jobs = []
    for i in chosen:
        boxes = windows[i]
        rows = np.sort(rng.permutation(len(boxes))[: config.sample_windows])
        jobs.append((images.paths[i], boxes[rows]))
    vectors = features_of_photos(jobs, None, config, workers=workers, progress=progress, label="projection")
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
        A `.npy` file to write the vectors to; the result is then mapped from it. None keeps them in memory.
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


def window_features(
    source: Source,
    boxes: Floats,
    projection: Projection,
    config: FeaturesConfig,
    *,
    flip: bool = False,
    streams: int = 1,
) -> NDArray[np.floating]:
    """Compute the features of some boxes of one photo.

    Parameters
    ----------
    source : str, Path, ndarray or PIL.Image.Image
        The photo.
    boxes : ndarray of float32 of shape (n, 4)
        The boxes in pixels of the photo.
    projection : Projection
        The projection, from `find_projection`.
    config : FeaturesConfig
        The settings.
    flip : bool, default=False
        Whether to see the photo in a mirror; row i still belongs to box i.
    streams : int, default=1
        The number of threads.

    Returns
    -------
    ndarray of shape (n, d)
        One vector per box, bit for bit those of `find_features`.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.features.projection import Projection
    >>> photo = np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)
    >>> config = t2b.FeaturesConfig(levels=(96,), grid=1)
    >>> first_four = Projection(np.zeros(320, np.float32), np.eye(320, 4, dtype=np.float32), "l2", 20.0)
    >>> boxes = np.array([[0, 0, 96, 96], [8, 8, 60, 60]], np.float32)
    >>> t2b.window_features(photo, boxes, first_four, config).shape
    (2, 4)
    """
    vectors = projection(raw_features(source, boxes, config, flip=flip, streams=streams))
    with np.errstate(over="ignore"):
        stored = vectors.astype(config.dtype)
    if not np.isfinite(stored).all():
        raise InputError(f'features of length {config.length:g} do not fit: set features.dtype to "float32"')
    return stored


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


def raw_features(
    source: Source, boxes: Floats, config: FeaturesConfig, *, flip: bool = False, streams: int = 1
) -> Floats:
    """Pooled vectors before the projection, (n, grid * grid * c)."""
    boxes = as_boxes(boxes)
    extract = _extractor(resolved(config), streams, network_hash(config.network))
    if len(boxes) == 0:
        return np.empty((0, extract.width), np.float32)
    photo, full_size = read_small(source, extract.reading_side)
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
def _extractor(config: FeaturesConfig, streams: int, _content: str) -> Shared | Warp | Pool:
    """The compiled network; made once per process and content, since that takes some tenths of a second."""
    network, how = _network(config), how_of(config, streams)
    if config.mode == "pool":
        return Pool(network, how, side=max(config.levels), padding=config.padding, grid=config.grid)
    if config.mode == "warp":
        return Warp(network, how, size=config.size, padding=config.padding, grid=config.grid)
    return Shared(
        network, how, crop=config.crop, levels=config.levels, padding=config.padding, grid=config.grid
    )
