"""Windows: where an object might be. Selective search, after Uijlings et al. 2013.

"Selective search for object recognition", IJCV 104. Segment the image in several color spaces and at several
scales (`segmentation`), describe the regions (`regions`), group them bottom-up by several similarities
(`grouping`), and take the bounding box of every region that ever lived.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import crowding, thin
from tag2box.data.decoding import Source, read_small
from tag2box.images import ImageSet
from tag2box.runtime.checks import Choice, Overlap, Range, Seed, check_at_least, check_choice
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.windows.color import blur, convert
from tag2box.windows.edges import sort_edges
from tag2box.windows.grouping import Terms, group
from tag2box.windows.record import Windows
from tag2box.windows.regions import common_parts, describe_regions, neighbors, sides, unite
from tag2box.windows.segmentation import pieces, segment

__all__ = ["Windows", "WindowsConfig", "find_windows", "search_windows", "selective_search"]

Boxes = NDArray[np.float32]

# The long side of the image at work; time grows with its square. VOC's photos are that large: shrinking them
# to 460 or 420 cost 0.007 of overlap.
SIDE = 500
SIGMA = 0.8  # Felzenszwalb and Huttenlocher's
# Felzenszwalb's k, and the least pixels of a region at SIDE (fewer, by area, where a photo is smaller).
# Smaller ones find more objects, larger ones fit them better with few windows; chosen on VOC with as many
# windows as OpenCV returns (docs/windows.md).
SCALES = (75.0, 150.0, 300.0)
MIN_PIXELS = 100
# Windows of a fine segmentation follow later, and so do those of all but the first two similarities: their
# ranks are so many times higher. With as many windows as OpenCV, recall rose by 0.005, overlap by 0.001.
FINE, FINE_LATER, OTHERS_LATER = 100.0, 3.0, 2.0


def _terms(*names: str) -> tuple[Terms, ...]:
    """Which of color, texture, size and fill each named similarity adds up."""
    return tuple(("c" in name, "t" in name, "s" in name, "f" in name) for name in names)


# Those without color and texture ("s", "f", "sf") gave much the same windows for every segmentation.
SIMILARITIES = _terms("ctsf", "tsf", "csf", "cts", "ts")


@dataclass(frozen=True)
class _Mode:
    spaces: tuple[str, ...]
    scales: tuple[float, ...]
    similarities: tuple[Terms, ...]


MODES = {
    "single": _Mode(("hsv",), SCALES[1:2], SIMILARITIES[:1]),
    "fast": _Mode(("hsv", "lab"), SCALES, SIMILARITIES),
    "quality": _Mode(("hsv", "lab", "rgi", "rgb", "hue"), (50.0, *SCALES), SIMILARITIES),
}


@stored
@dataclass(frozen=True)
class WindowsConfig(Settings):
    """Settings of `find_windows`: those of `selective_search`, and which of its windows are kept.

    Parameters
    ----------
    mode : {"single", "fast", "quality"}, default="fast"
        The number of hierarchies of selective search: 1, 30 or 100.
    min_size : float, default=10.0
        The smallest width and height of a window, in pixels.
    n_search : int, default=2000
        The number of windows to search for.
    thin_iou : float, default=0.8
        Of two windows whose intersection over union is greater than this, the later is dropped.
    max_windows : int, default=300
        The number of windows to keep of each photo, best rank first.
    seed : int, default=0
        The seed of the random part of the rank.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.WindowsConfig(max_windows=200).mode
    'fast'
    """

    mode: Annotated[str, Choice(*MODES)] = "fast"
    min_size: Annotated[float, Range(0, 10_000)] = 10.0
    n_search: Annotated[int, Range(1, 100_000)] = 2000
    thin_iou: Overlap = 0.8
    max_windows: Annotated[int, Range(1, 10_000)] = 300
    seed: Seed = 0


def find_windows(
    images: ImageSet,
    config: WindowsConfig | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Windows:
    """Find the windows of every image.

    Parameters
    ----------
    images : ImageSet
        The images.
    config : WindowsConfig, default=None
        The settings. None stands for the defaults.
    workers : int, default=1
        The number of processes; None means one per core. No result depends on it.
    progress : callable, default=silent
        Called with (label, done, total) as the work proceeds.

    Returns
    -------
    Windows
        The windows of all images.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tag2box as t2b
    >>> file = Path(tempfile.mkdtemp()) / "photo.png"
    >>> Image.new("RGB", (80, 60), "navy").save(file)
    >>> images = t2b.ImageSet(("photo",), (file,), np.zeros((1, 0), np.int8), ())
    >>> windows = t2b.find_windows(images, t2b.WindowsConfig(mode="single"))
    >>> windows.sizes.tolist(), windows[0].tolist()
    ([[80, 60]], [[0.0, 0.0, 80.0, 60.0]])
    """
    search = partial(search_windows, config=config or WindowsConfig())
    search(np.zeros((2, 2, 3), np.uint8))  # compiles once, here
    parts = map_ordered(search, images.paths, workers=workers, progress=progress, label="windows")
    return Windows.concatenate(list(parts))


def selective_search(
    image: Source, mode: str = "fast", min_size: float = 10.0, max_windows: int = 2000, seed: int = 0
) -> Boxes:
    """Find windows that may hold an object, by selective search (Uijlings et al. 2013).

    Parameters
    ----------
    image : str, Path, ndarray or PIL.Image.Image
        The photo. Files that carry an EXIF orientation are turned upright first.
    mode : {"single", "fast", "quality"}, default="fast"
        The number of hierarchies: 1, 30 or 100.
    min_size : float, default=10.0
        The smallest width and height of a window, in pixels.
    max_windows : int, default=2000
        The greatest number of windows.
    seed : int, default=0
        The seed of the random part of the rank.

    Returns
    -------
    ndarray of float32 of shape (n, 4)
        The windows in pixels of the photo, best rank first. The first one is the whole photo. Equal
        arguments give equal bytes.

    Notes
    -----
    As in the paper, windows are ranked by their position in the hierarchy, 1 at its top, times a random
    number, and exact duplicates are dropped. The nearer a window comes to one of better rank, the later it
    follows.

    Photos are worked on with a long side of at most 500 pixels: beyond decoding, memory stays below 100 MB.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> photo = np.full((120, 160, 3), 40, np.uint8)
    >>> photo[30:90, 50:110] = 250, 120, 20
    >>> boxes = t2b.selective_search(photo, mode="single")
    >>> boxes[0].tolist()
    [0.0, 0.0, 160.0, 120.0]
    >>> bool(np.abs(boxes - [50, 30, 110, 90]).max(axis=1).min() <= 3)  # one of them fits the square
    True
    """
    check_choice("mode", mode, MODES)
    check_at_least(1, max_windows=max_windows)
    check_at_least(0, min_size=min_size, seed=seed)
    return _search(image, mode, min_size, max_windows, seed)[0]


def _search(
    image: Source, mode: str, min_size: float, max_windows: int, seed: int, threads: int = 1
) -> tuple[Boxes, tuple[int, int]]:
    """`selective_search`, and the width and height of the image."""
    rgb, (width, height) = read_small(image, SIDE)
    h, w, _ = rgb.shape
    boxes, position = _hierarchies(rgb, MODES[mode], threads)
    rank = position * np.random.default_rng(seed).random(len(position))
    rank[(boxes == (0, 0, w, h)).all(axis=1)] = 0
    order = np.argsort(rank, kind="stable")
    order = order[_first_of_each(boxes[order])]
    xyxy = (boxes[order] * (np.array((width, height, width, height)) / (w, h, w, h))).astype(np.float32)
    large = np.flatnonzero((xyxy[1:, 2:] - xyxy[1:, :2] >= min_size).all(axis=1)) + 1
    large = np.append(0, large)  # the whole image stays
    xyxy, rank = xyxy[large], rank[order[large]]
    return xyxy[np.argsort(_spread(xyxy, rank), kind="stable")[:max_windows]], (width, height)


def search_windows(image: Source, config: WindowsConfig, threads: int = 1) -> Windows:
    """The windows of one image by `config`: searched, thinned, the first of them.

    With several `threads` color spaces are searched at the same time, for whoever waits for one photo: to
    the same bytes. For many photos, processes use the cores better.
    """
    boxes, size = _search(image, config.mode, config.min_size, config.n_search, config.seed, threads)
    return Windows.of_image(boxes[thin(boxes, config.thin_iou)][: config.max_windows], size)


def _hierarchies(
    rgb: NDArray[np.uint8], mode: _Mode, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Boxes (n, 4) of all regions of all hierarchies, and the position of each in its own, 1 at the top.

    Positions count more in hierarchies that come later.
    """
    smooth = blur(rgb, SIGMA)
    search = partial(_of_one_space, smooth, mode)
    if threads > 1 and len(mode.spaces) > 1:
        with ThreadPoolExecutor(min(threads, len(mode.spaces))) as pool:
            hierarchies = list(pool.map(search, mode.spaces))  # in the order of the spaces, whoever is first
    else:
        hierarchies = list(map(search, mode.spaces))
    boxes, position = zip(*hierarchies, strict=True)
    return np.concatenate(boxes), np.concatenate(position)


def _of_one_space(
    smooth: NDArray[np.float32], mode: _Mode, space: str
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The hierarchies of all scales and similarities in one color space."""
    h, w, _ = smooth.shape
    colors = convert(smooth, space)
    piece, parts = pieces(*sort_edges(colors), h, w, min(mode.scales), max(mode.scales))
    least = max(round(MIN_PIXELS * (max(h, w) / SIDE) ** 2), 1)
    regions, counts = zip(*(segment(parts, k, least) for k in mode.scales), strict=True)
    part, of_scale = common_parts(np.stack(regions), np.array(counts))
    labels = part[piece]
    described, between = describe_regions(colors, labels, of_scale.shape[1]), sides(labels)
    boxes, position = [], []
    for k, n, region in zip(mode.scales, counts, of_scale, strict=True):
        size, box, histogram = unite(*described, region, n)
        pairs = neighbors(between, region, n)
        for i, terms in enumerate(mode.similarities):
            group(size, box, histogram, pairs, terms)
            later = (FINE_LATER if k < FINE else 1.0) * (OTHERS_LATER if i > 1 else 1.0)
            boxes.append(box.copy())
            position.append(later * np.arange(2 * n - 1, 0, -1))
    return np.concatenate(boxes), np.concatenate(position)


def _spread(xyxy: Boxes, rank: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks that grow where windows crowd: divided by (1 - IoU^8)^4, for the nearest window of better rank.

    A heuristic, measured on VOC with as many windows as OpenCV returns. The power 8 spares all but the close
    ones: dividing by (1 - IoU)^1.5 cost 0.004 of overlap at the same recall. The outer power trades recall
    for overlap (from 3 to 4: 0.001 more recall, 0.002 less overlap).
    """
    near = crowding(xyxy).astype(np.float64)
    for _ in range(3):
        near = near * near
    apart = (1.0 - near) * (1.0 - near)
    return np.asarray(rank / (apart * apart))


def _first_of_each(boxes: NDArray[np.int32]) -> NDArray[np.intp]:
    """Indices without the exact duplicates of a box before them."""
    key = boxes.astype(np.int64) @ (1 << np.array((48, 32, 16, 0)))
    return np.sort(np.unique(key, return_index=True)[1])
