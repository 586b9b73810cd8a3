"""The network's maps of whole photos, (h, w, c): its last one, and where it can be cut the early one too.

A photo is resized to whole cells, its long side near `side` pixels, so that the map covers it exactly. For a
network that takes one size alone it is resized to that, and `side` has no say: its cells may then be oblong.

    seen = Seen(photo, (height, width), WholePhoto(network, options, cut="block10"))
    seen.last(512), seen.early(512)      # the layers before the cut are run once

What lies before the cut is run once for a photo and a side, whoever asks first: windows are cut out of the
early map, and the rest of the network makes the last map of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import READING_SIDE, Decoded, read_small
from tag2box.errors import InputError
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import Network

Map = NDArray[np.float32]
Sizes = NDArray[np.int64]


class WholePhoto:
    """A network that looks at whole photos, in two steps where `cut` names a map inside of it.

    block: photos are resized to multiples of so many pixels.
    """

    def __init__(self, network: Network, options: EngineOptions, *, cut: str | None = None) -> None:
        self.network, self.block, self.cut, self._options = network, network.block, cut, options

    @cached_property
    def _first(self) -> Part:
        """From the photo to the cut, or to the end."""
        return Part(self.network, (1, *(self.network.size or (-1, -1))), self._options, end=self.cut)

    @cached_property
    def _rest(self) -> Part:
        """From the cut to the end."""
        return Part(self.network, (1, -1, -1), self._options, start=self.cut)

    def check(self) -> None:
        """Refuse a network that gives no map of a photo, or one that does not grow with it."""
        if not (self._rest if self.cut else self._first).gives_map:
            raise InputError(
                f"{self.network.path.name} gives no map (n, c, h, w) or tokens (n, tokens, c) of a photo"
            )
        h, w = self._of_nothing.shape[:2]
        if self.network.size is None and (h < 3 or h % 3 or w * 3 != h * 4):
            raise InputError(
                f"{self.network.path.name} has no whole cell for every {self.block} pixels of a photo: "
                f"set patch in its TOML to the pixels between two cells"
            )

    @cached_property
    def _first_of_nothing(self) -> Map:
        """The map of a gray photo, to see how large it is and how many channels it has."""
        h, w = self.network.size or (3 * self.block, 4 * self.block)
        return self._run(self._first, [np.full((h, w, 3), 128, np.uint8)])[0]

    @cached_property
    def _of_nothing(self) -> Map:
        return self.last([self._first_of_nothing])[0]

    @property
    def stride(self) -> float:
        """The pixels between two cells of the map at the cut."""
        return 4 * self.block / int(self._first_of_nothing.shape[1])

    @property
    def early_channels(self) -> int:
        """Numbers per cell of the map at the cut."""
        return int(self._first_of_nothing.shape[-1])

    @property
    def channels(self) -> int:
        """Numbers per cell."""
        return int(self._of_nothing.shape[-1])

    def reading_side(self, side: int) -> int:
        """The long side at which a photo is to be read: `side`, or what the one size needs."""
        return max(side, *(self.network.size or (0,)))

    def first(self, photo: NDArray[np.uint8], size: tuple[int, int], sides: Sequence[int]) -> list[Map]:
        """The maps at the cut, or the last ones, of a photo of `size` (height, width), perhaps shrunk."""
        return self._run(self._first, (self._resized(photo, size, side) for side in sides))

    def last(self, first: Sequence[Map]) -> list[Map]:
        """The last maps, from what `first` gives."""
        return self._run(self._rest, first) if self.cut else list(first)

    @staticmethod
    def _run(part: Part, inputs: Iterable[NDArray[np.uint8] | Map]) -> list[Map]:
        """As many at a time as there are threads."""
        return [np.asarray(result[0]) for result in part.each(x[None] for x in inputs)]

    def _resized(self, photo: NDArray[np.uint8], size: tuple[int, int], side: int) -> NDArray[np.uint8]:
        h, w = self.network.size or (self._blocks(np.array(size), side) * self.block).tolist()
        return np.asarray(Image.fromarray(photo).resize((w, h), Image.Resampling.BILINEAR))

    def _blocks(self, sizes: Sizes, side: int) -> Sizes:
        """Sizes in pixels as multiples of the block, the long side near `side`."""
        scale = side / sizes.max(axis=-1, keepdims=True)
        return np.asarray(np.maximum(np.rint(sizes * scale / self.block), 1), np.int64)


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo and what the network made of it so far, by side. size: (height, width) before any shrinking.

    name: of its file, where it has one.
    """

    photo: NDArray[np.uint8]
    size: tuple[int, int]
    net: WholePhoto
    name: str = ""
    _first: dict[int, Map] = field(default_factory=dict)
    _last: dict[int, Map] = field(default_factory=dict)

    @property
    def decoded(self) -> Decoded:
        """The photo for whoever reads it as all do, however large it was read."""
        rgb, _ = read_small(self.photo, READING_SIDE)
        return Decoded(rgb, self.size[::-1])

    def remember(self, early: Mapping[int, Map]) -> None:
        """Take these maps at the cut, by side, for those that the network would make."""
        self._first.update(early)

    def early(self, side: int) -> Map:
        """The map at the cut, with the long side of the photo near `side` pixels."""
        self.run([side], [])
        return self._first[side]

    def last(self, side: int) -> Map:
        """The network's last map."""
        self.run([], [side])
        return self._last[side]

    def run(self, early: Iterable[int], last: Iterable[int]) -> None:
        """Run the network for what is missing of these maps."""
        last = [side for side in dict.fromkeys(last) if side not in self._last]
        missing = [side for side in dict.fromkeys([*last, *early]) if side not in self._first]
        self._first.update(zip(missing, self.net.first(self.photo, self.size, missing), strict=True))
        self._last.update(zip(last, self.net.last([self._first[side] for side in last]), strict=True))
