"""`describe`: a photo -> its windows, their vectors and its map. The way of every photo, old or new.

    described = describe("photo.jpg", description)

The photo is decoded once, and goes through the layers of the network once for each size. Memory is bounded
for any image size: a photo is shrunk to the largest size that anything needs, crops are made 512 at a time;
with the network a worker stays below 1 GB.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_boxes
from tag2box.data.decoding import READING_SIDE, Photo, Source, read_small
from tag2box.description.config import FeaturesConfig
from tag2box.description.description import Description
from tag2box.description.details import Details, detail_windows
from tag2box.description.modes import Mode, Pool, Pyramid, Shared, Warp
from tag2box.description.record import Described, EarlyMaps, Maps
from tag2box.description.resolving import DescriptionConfig, engine_options, network_of
from tag2box.description.whole_photo import Seen, WholePhoto
from tag2box.errors import InputError
from tag2box.windows.color import blur, convert
from tag2box.windows.record import Windows
from tag2box.windows.search import search_windows

Floats = NDArray[np.float32]
# Which windows of a photo are worth their time in the network, by its maps; X is their context alone.
Choice = Callable[[Described], NDArray[np.intp]]

PATHS = (str, os.PathLike)
# The long side, in pixels, of the lightness that is kept of a photo, and how far it is blurred.
LIGHT_SIDE, LIGHT_BLUR = 300, 0.8
LARGEST = float(np.finfo(np.float16).max)


def describe(
    source: Source,
    description: Description,
    *,
    boxes: Floats | None = None,
    details: Details | None = None,
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
    details : Details, default=None
        What fine cells speak for, where objects are small: then there are windows where they stand out.
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
    describer = _describer(settings, threads)
    seen = describer.see(source)
    windows = describer.windows(seen, boxes)
    maps, fine = describer.maps(seen)
    speaks = details(seen.early(settings.early_sides[0])) if details and settings.early_sides else None
    if speaks is not None and boxes is None:
        windows = _joined(windows, detail_windows(speaks[0], windows.sizes[0]))
    around = description.around(windows, maps, fine)
    if choose is not None and maps is not None and around.shape[1]:
        seen_around = Described(windows, around, maps, details=speaks)
        few = seen_around.only(choose(seen_around))
        windows, around = few.windows, few.X
    X = description.project(describer.crops(seen, windows, fine or maps))
    return Described(windows, np.concatenate([X, around], axis=1), maps, details=speaks)


def raw_photo(source: Source, settings: DescriptionConfig) -> Described:
    """All that the network says of one photo. X are the vectors as they are before the projection."""
    describer = _describer(settings, 1)
    seen = describer.see(source)
    windows = describer.windows(seen, None)
    maps, fine = describer.maps(seen)
    X = describer.crops(seen, windows, fine or maps)
    return Described(windows, X, maps, describer.early(seen), light=describer.light(seen), fine=fine)


def finished(raw: Described, description: Description) -> Described:
    """One photo described, from what `raw_photo` said of it."""
    around = description.around(raw.windows, raw.maps, raw.fine)
    X = description.project(np.asarray(raw.X))
    return replace(raw, X=np.concatenate([X, around], axis=1), fine=None)


def with_details(photo: Described, description: Description, details: Details) -> Described:
    """One photo with what its fine cells speak for, and windows where they stand out.

    photo: one that was described, with its early maps: no pixels are needed.
    """
    describer = _describer(description.settings, 1)
    seen, speaks = describer.recall(photo), details(photo.early[0][0])
    boxes = detail_windows(speaks[0], photo.windows.sizes[0])
    more = Windows.of_image(boxes, tuple(photo.windows.sizes[0]))
    fine = describer.maps(seen)[1]
    around = description.around(more, photo.maps, fine)
    X = np.concatenate([description.project(describer.crops(seen, more, fine or photo.maps)), around], axis=1)
    return replace(
        photo, windows=_joined(photo.windows, boxes), X=np.concatenate([photo.X, X]), early=(), details=speaks
    )


def _joined(windows: Windows, boxes: Floats) -> Windows:
    """The windows of a photo, and more behind them."""
    return Windows.of_image(np.concatenate([windows.xyxy, boxes]), tuple(windows.sizes[0]))


def photo_map(source: Source, settings: DescriptionConfig) -> NDArray[np.float16]:
    """The network's last map of one photo, (h, w, c)."""
    if settings.maps is None:
        raise InputError("these settings keep no map of a photo")
    describer = _describer(settings, 1)
    return describer.last(describer.see(source), settings.maps.side)


def raw_widths(settings: DescriptionConfig) -> tuple[int, ...]:
    """The numbers of a window before the projection, of each part that is projected for itself."""
    return _describer(settings, 1).mode.widths


def check_maps(settings: DescriptionConfig) -> None:
    """Refuse a network that gives no map of a photo."""
    if settings.maps is not None:
        _describer(settings, 1).network.check()


def lightness(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lightness of a photo, a little blurred, in 255 steps."""
    light = convert(blur(rgb, LIGHT_BLUR), "lab")[0]  # from 0 to 255
    return np.asarray(np.clip(np.rint(light), 0, 255), np.uint8)


class Describer:
    """The network of a description, made ready: for whole photos (`network`) and for windows (`mode`)."""

    def __init__(self, settings: DescriptionConfig, threads: int) -> None:
        self.settings, self.threads = settings, threads
        self.network, self.mode = _prepared(settings.features, threads, settings.network)

    def see(self, source: Source) -> Seen:
        """The photo, decoded as large as anything needs it. What is asked of the network is run once."""
        sides = (self.network.reading_side(side) for side in self.settings.sides)
        photo, (width, height) = read_small(source, max(READING_SIDE, self.mode.reading_side, *sides))
        name = source.name if isinstance(source, Photo) else source if isinstance(source, PATHS) else ""
        return Seen(photo, (height, width), self.network, str(name))

    def recall(self, photo: Described) -> Seen:
        """A photo as the network saw it, from its stored maps."""
        width, height = photo.windows.sizes[0].tolist()
        blank = np.empty((height, width, 3), np.uint8)  # its size counts, nobody looks at it
        seen = Seen(blank, (height, width), self.network)
        sides = self.settings.early_sides
        seen.remember({side: early[0] for side, early in zip(sides, photo.early, strict=True)})
        return seen

    def windows(self, seen: Seen, boxes: Floats | None) -> Windows:
        """The windows, while another thread runs what the network needs none for."""
        if boxes is not None:
            return Windows.of_image(as_boxes(boxes), seen.size[::-1])
        search = partial(search_windows, seen.decoded, self.settings.windows, threads=self.threads)
        if self.threads == 1:
            return search()
        levels = self.settings.features.levels if self.network.cut else ()
        with ThreadPoolExecutor(1) as pool:
            searching = pool.submit(search)
            seen.run(levels, [side for side in self.settings.sides if side])
            return searching.result()

    def maps(self, seen: Seen) -> tuple[Maps | None, Maps | None]:
        """The last map of the photo, and a finer one: where they are needed."""
        if self.settings.maps is None:
            return None, None
        seen.run((), self.settings.sides)
        *finer, last = (Maps.of_image(self.last(seen, side)) for side in self.settings.sides)
        return last, finer[0] if finer else None

    def early(self, seen: Seen) -> tuple[EarlyMaps, ...]:
        """The maps at the cut, of the sizes that windows are cut out of."""
        return tuple(EarlyMaps.of_image(seen.early(side)) for side in self.settings.early_sides)

    def light(self, seen: Seen) -> Maps | None:
        """The lightness of the photo, where maps are needed."""
        if self.settings.maps is None:
            return None
        return Maps.of_image(lightness(read_small(seen.photo, LIGHT_SIDE)[0])[..., None])

    def last(self, seen: Seen, side: int) -> NDArray[np.float16]:
        """The network's last map at one size."""
        clipped = np.clip(seen.last(side), -LARGEST, LARGEST)
        self._check_finite(clipped, seen)
        return np.asarray(clipped, np.float16)

    def crops(self, seen: Seen, windows: Windows, finest: Maps | None) -> Floats:
        """What each window looks like alone, (n, D): as it is before the projection.

        finest: a map of the photo that is there already; the mode "pool" averages it and runs nothing.
        """
        boxes = windows.xyxy
        if len(boxes) == 0:
            return np.empty((0, sum(self.mode.widths)), np.float32)
        if isinstance(self.mode, Pool) and finest is not None:
            raw = self.mode.pooled(finest[0], boxes, windows.sizes[0])
        else:
            h, w = seen.photo.shape[:2]
            scale = np.tile(np.array((w, h)) / np.array(seen.size[::-1]), 2).astype(np.float32)
            raw = self.mode(seen, boxes * scale)
        raw = raw.reshape(len(boxes), -1)
        self._check_finite(raw, seen)
        return raw

    def _check_finite(self, numbers: NDArray[np.floating], seen: Seen) -> None:
        """Refuse what a network made of a photo where it is no number: nothing behind it could use it."""
        if not np.isfinite(numbers).all():
            raise InputError(
                f"{self.settings.features.network} makes no finite numbers of {seen.name or 'a photo'}: "
                f'check the mean and std in its TOML, or set features.precision to "f32"'
            )


@lru_cache(maxsize=2)
def _describer(settings: DescriptionConfig, threads: int) -> Describer:
    """Once per process: to make a network ready takes its time."""
    return Describer(settings, threads)


@lru_cache(maxsize=2)
def _prepared(config: FeaturesConfig, threads: int, _network: str) -> tuple[WholePhoto, Mode]:
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
