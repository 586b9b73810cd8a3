"""`describe`: a photo -> its windows, their vectors and its map. The way of every photo, old or new.

    described = describe("photo.jpg", description)

The photo is decoded once, and goes through the layers of the network once for each size. Memory is bounded
for any image size: a photo is shrunk to the largest size that anything needs, crops are made 512 at a time;
with the network a worker stays below 1 GB.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import READING_SIDE, Source, read_small
from tag2box.description.config import FeaturesConfig
from tag2box.description.description import Description
from tag2box.description.detail_windows import detail_windows
from tag2box.description.modes import Mode, Pool, Pyramid, Shared, Warp
from tag2box.description.record import Described, Maps, Raw
from tag2box.description.resolving import DescriptionConfig, engine_options, network_of
from tag2box.description.whole_photo import Seen, WholePhoto
from tag2box.errors import InputError
from tag2box.networks.network import network_hash
from tag2box.windows.record import Windows
from tag2box.windows.search import search_windows

Floats = NDArray[np.float32]
# Which windows of a photo are worth their time in the network, by its maps; X is their context alone.
Choice = Callable[[Described], NDArray[np.intp]]

LARGEST = float(np.finfo(np.float16).max)


def describe(
    source: Source,
    description: Description,
    *,
    boxes: Floats | None = None,
    choose: Choice | None = None,
    threads: int = 1,
) -> Described:
    """Describe one photo: find its windows, and what the network says of each.

    Parameters
    ----------
    source : str, Path, ndarray or PIL.Image.Image
        The photo.
    description : Description
        How photos are described.
    boxes : ndarray of float32 of shape (n, 4), default=None
        The boxes to describe, in pixels of the photo, in place of windows.
    choose : callable, default=None
        Which windows go through the network one by one, by what the photo's maps say of them. None takes all.
    threads : int, default=1
        The number of threads.

    Returns
    -------
    Described
        The windows, their vectors and the map of the photo.

    Examples
    --------
    A run fits a description, and a detector has it: ``detector.description``. This one keeps the first eight
    numbers, and no map.

    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.description.projection import Projection
    >>> from tag2box.description.resolving import resolve
    >>> features = t2b.FeaturesConfig(levels=(96,), grid=1, precision="f32")
    >>> settings = resolve(t2b.WindowsConfig(mode="single", max_windows=5), features, None)
    >>> projection = Projection(np.zeros(320, np.float32), np.eye(320, 8, dtype=np.float32), "l2", 20.0)
    >>> description = t2b.Description(settings, projection)
    >>> photo = np.zeros((64, 96, 3), np.uint8)
    >>> photo[16:48, 20:60] = 250, 120, 20
    >>> described = t2b.describe(photo, description)
    >>> described.windows.xyxy.shape, described.X.shape
    ((4, 4), (4, 8))
    """
    settings = description.settings
    seen = _see(source, settings, threads)
    windows = _windows(seen, settings, boxes, threads)
    maps, fine = _maps(seen, settings)
    details = description.details(_early(seen, settings)) if description.details else None
    if details is not None and boxes is None:
        more = detail_windows(details[0], windows.sizes[0])
        windows = Windows.of_image(np.concatenate([windows.xyxy, more]), tuple(windows.sizes[0]))
    around = description.around(windows, maps, fine)
    if choose is not None and maps is not None and around.shape[1]:
        seen_around = Described(windows, around, maps, details)
        few = seen_around.only(choose(seen_around))
        windows, around = few.windows, few.X
    X = description.project(_crops(seen, windows, settings, fine or maps, threads))
    return Described(windows, np.concatenate([X, around], axis=1), maps, details)


def raw_photo(source: Source, settings: DescriptionConfig) -> Raw:
    """One photo as the network sees it, before a projection is known; the hash of its file is left open."""
    seen = _see(source, settings, 1)
    windows = _windows(seen, settings, None, 1)
    maps, fine = _maps(seen, settings)
    early = Maps.of_image(_early(seen, settings)) if has_early(settings) else None
    return Raw(("",), windows, _crops(seen, windows, settings, fine or maps, 1), maps, fine, early=early)


def photo_map(source: Source, settings: DescriptionConfig) -> NDArray[np.float16]:
    """The network's last map of one photo, (h, w, c)."""
    if settings.maps is None:
        raise InputError("these settings keep no map of a photo")
    return _map(_see(source, settings, 1), settings.maps.side, settings)


def raw_widths(settings: DescriptionConfig) -> tuple[int, ...]:
    """The numbers of a window before the projection, of each part that is projected for itself."""
    return _mode(settings.features, 1).widths


def has_early(settings: DescriptionConfig) -> bool:
    """Whether photos are seen at the cut anyway, and what they show there may be of use."""
    return settings.maps is not None and settings.features.mode == "shared"


def check_maps(settings: DescriptionConfig) -> None:
    """Refuse a network that gives no map of a photo."""
    if settings.maps is not None:
        _network(settings.features, 1).check()


def _see(source: Source, settings: DescriptionConfig, threads: int) -> Seen:
    """The photo, decoded as large as anything needs it. Nothing is run yet; what is asked for is run once."""
    network, mode = _network(settings.features, threads), _mode(settings.features, threads)
    sides = _sides(settings)
    reading_side = max(READING_SIDE, mode.reading_side, *(network.reading_side(side) for side in sides))
    photo, (width, height) = read_small(source, reading_side)
    return Seen(photo, (height, width), network, str(source) if isinstance(source, str | os.PathLike) else "")


def _sides(settings: DescriptionConfig) -> list[int]:
    """The long sides at which last maps are needed: 0 alone where none is."""
    maps = settings.maps
    if maps is None:
        return [0]
    return [maps.fine_side, maps.side] if maps.context and maps.fine_side else [maps.side]


def _windows(seen: Seen, settings: DescriptionConfig, boxes: Floats | None, threads: int) -> Windows:
    """The windows, while another thread runs what the network needs none for."""
    if boxes is not None:
        return Windows.of_image(as_boxes(boxes), seen.size[::-1])
    search = partial(search_windows, seen.decoded, settings.windows, threads=threads)
    levels = settings.features.levels if seen.net.cut else ()
    sides = [side for side in _sides(settings) if side]
    if threads == 1:
        return search()
    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(search)
        seen.run(levels, sides)
        return searching.result()


def _maps(seen: Seen, settings: DescriptionConfig) -> tuple[Maps | None, Maps | None]:
    """The last map of the photo, and a finer one: where they are needed."""
    maps = settings.maps
    if maps is None:
        return None, None
    sides = _sides(settings)
    seen.run((), sides)
    *finer, last = (Maps.of_image(_map(seen, side, settings)) for side in sides)
    return last, finer[0] if finer else None


def _early(seen: Seen, settings: DescriptionConfig) -> NDArray[np.float16]:
    """The map at the cut of the largest size, (h, w, c)."""
    return np.clip(seen.early(max(settings.features.levels)), -LARGEST, LARGEST).astype(np.float16)


def _map(seen: Seen, side: int, settings: DescriptionConfig) -> NDArray[np.float16]:
    clipped = np.clip(seen.last(side), -LARGEST, LARGEST)
    _check_finite(clipped, seen, settings)
    return np.asarray(clipped, np.float16)


def _crops(
    seen: Seen, windows: Windows, settings: DescriptionConfig, finest: Maps | None, threads: int
) -> Floats:
    """What each window looks like alone, (n, D): as it is before the projection.

    finest: a map of the photo that is there already; the mode "pool" averages it and runs nothing.
    """
    mode = _mode(settings.features, threads)
    boxes = windows.xyxy
    if len(boxes) == 0:
        return np.empty((0, sum(mode.widths)), np.float32)
    if isinstance(mode, Pool) and finest is not None:
        raw = mode.pooled(finest[0], boxes, windows.sizes[0])
    else:
        h, w = seen.photo.shape[:2]
        scale = np.tile(np.array((w, h)) / np.array(seen.size[::-1]), 2).astype(np.float32)
        raw = mode(seen, boxes * scale)
    raw = raw.reshape(len(boxes), -1)
    _check_finite(raw, seen, settings)
    return raw


def _check_finite(numbers: NDArray[np.floating], seen: Seen, settings: DescriptionConfig) -> None:
    """Refuse what a network made of a photo where it is no number: nothing behind it could use it."""
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{settings.features.network} makes no finite numbers of {seen.name or 'a photo'}: check the "
            f'mean and std in its TOML, or set features.precision to "f32"'
        )


def _network(config: FeaturesConfig, threads: int) -> WholePhoto:
    return _compiled(config, threads, network_hash(config.network))[0]


def _mode(config: FeaturesConfig, threads: int) -> Mode:
    return _compiled(config, threads, network_hash(config.network))[1]


@lru_cache(maxsize=2)
def _compiled(config: FeaturesConfig, threads: int, _content: str) -> tuple[WholePhoto, Mode]:
    """The network for whole photos and for windows: once per process and content, as it takes its time."""
    network, options = network_of(config), engine_options(config, threads)
    whole = WholePhoto(network, options, cut=config.cut)
    padding, grid = config.padding, config.grid
    if config.mode == "pool":
        side = max(config.levels)
        reading_side = whole.reading_side(side)
        return whole, Pool(whole.channels, side=side, reading_side=reading_side, padding=padding, grid=grid)
    if config.mode == "pyramid":
        return whole, Pyramid(whole, levels=config.levels, padding=padding, grid=grid)
    if config.mode == "warp":
        return whole, Warp(network, options, size=config.size, padding=padding, grid=grid)
    return whole, Shared(network, options, crop=config.crop, levels=config.levels, padding=padding, grid=grid)
