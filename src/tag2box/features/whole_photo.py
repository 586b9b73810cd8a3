"""The network's last map of whole photos, (h, w, c), whatever it gives: a map, or the tokens of patches.

A photo is resized to whole cells, its long side near `side` pixels, so that the map covers it exactly. For a
network that takes one size alone it is resized to that, and `side` has no say: its cells may then be oblong.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.errors import InputError
from tag2box.features.backbone import Network
from tag2box.features.networks.inference import How, Part

__all__ = ["WholePhoto"]

Sizes = NDArray[np.int64]


class WholePhoto:
    """A network that looks at whole photos.

    block: photos are resized to multiples of so many pixels. cells: of the map, along a block.
    """

    def __init__(self, network: Network, how: How) -> None:
        self.network, self.block = network, network.block
        self.part = Part(network, (1, *(network.size or (-1, -1))), how)
        if not self.part.gives_map:
            raise InputError(
                f"{network.path.name} gives no map (n, c, h, w) or tokens (n, tokens, c) of a photo"
            )

    @cached_property
    def _of_nothing(self) -> NDArray[np.float32]:
        """The map of a gray photo, to see how large it is and how many channels it has."""
        h, w = self.network.size or (3 * self.block, 4 * self.block)
        return self._map(np.full((h, w, 3), 128, np.uint8))

    @property
    def channels(self) -> int:
        """Numbers per cell."""
        return int(self._of_nothing.shape[-1])

    @cached_property
    def cells(self) -> int:
        """The map's cells along a block; where its size is not as many times that of the photo, an error."""
        h, w = self._of_nothing.shape[:2]
        if h < 3 or h % 3 or w * 3 != h * 4:
            raise InputError(
                f"{self.network.path.name} has no whole cell for every {self.block} pixels of a photo: "
                f"set patch in its TOML to the pixels between two cells"
            )
        return int(h // 3)

    def reading_side(self, side: int) -> int:
        """The long side at which a photo is to be read: `side`, or what the one size needs."""
        return max(side, *(self.network.size or (0,)))

    def shapes(self, sizes: Sizes, side: int) -> Sizes:
        """The (h, w) of the maps of photos, (..., 2), by their (height, width) in pixels."""
        if self.network.size is not None:
            return np.broadcast_to(np.array(self._of_nothing.shape[:2]), sizes.shape).copy()
        return self._blocks(sizes, side) * self.cells

    def __call__(self, photo: NDArray[np.uint8], size: tuple[int, int], side: int) -> NDArray[np.float32]:
        """The map, (h, w, c), of a photo of `size` (height, width), which may have been shrunk."""
        h, w = self.network.size or (self._blocks(np.array(size), side) * self.block).tolist()
        resized = Image.fromarray(photo).resize((w, h), Image.Resampling.BILINEAR)
        return self._map(np.asarray(resized))

    def _map(self, photo: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.asarray(self.part(photo[None])[0])

    def _blocks(self, sizes: Sizes, side: int) -> Sizes:
        """Sizes in pixels as multiples of the block, the long side near `side`."""
        scale = side / sizes.max(axis=-1, keepdims=True)
        return np.asarray(np.maximum(np.rint(sizes * scale / self.block), 1), np.int64)
