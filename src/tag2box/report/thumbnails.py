"""Photos made small: crops and whole photos with boxes, as JPEG, in sizes that keep a report small."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.cover.votes import vote_map
from tag2box.data.decoding import Source, read_small
from tag2box.detection.drawing import (
    AFTER,
    BEFORE,
    DETECTED,
    MINED,
    TRUTH,
    Picture,
    as_picture,
    draw_boxes,
    fitted,
)

__all__ = [
    "AFTER",
    "BEFORE",
    "DETECTED",
    "MINED",
    "TRUTH",
    "Heat",
    "Picture",
    "Thumbnails",
    "as_colors",
    "votes",
    "with_heat",
]

# From dark to bright: nine colors of viridis (van der Walt and Smith 2015), mixed in between.
VIRIDIS = (
    *((68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140)),
    *((40, 174, 128), (94, 201, 98), (173, 220, 48), (253, 231, 37)),
)


@dataclass(frozen=True)
class Thumbnails:
    """How large and how many: `photo` and `crop` are long sides in pixels, `rows` and `photos` numbers."""

    photo: int
    crop: int
    rows: int
    photos: int

    @staticmethod
    def for_classes(n: int) -> "Thumbnails":
        """Fewer and smaller pictures for more classes: whatever they show, up to 100 fit into 5 MB."""
        for most, sizes in (
            (6, (320, 128, 4, 6)),
            (12, (240, 112, 3, 5)),
            (20, (200, 90, 3, 4)),
            (100, (104, 56, 2, 2)),
        ):
            if n <= most:
                return Thumbnails(*sizes)
        return Thumbnails(96, 48, 1, 1)

    def cut(self, source: Source, box: NDArray[np.float32], alt: str) -> Picture:
        """What is in the box."""
        pixels, size = read_small(source, 1024)
        photo = Image.fromarray(pixels)
        x1, y1, x2, y2 = (float(v) * photo.width / size[0] for v in box)
        part = photo.crop(
            (round(x1), round(y1), max(round(x2), round(x1) + 1), max(round(y2), round(y1) + 1))
        )
        return as_picture(fitted(part, self.crop), alt)

    def boxed(
        self,
        source: Source,
        boxes: Sequence[tuple[NDArray[np.float32], str]],
        alt: str,
        caption: str = "",
        good: bool | None = None,
    ) -> Picture:
        """The photo with boxes drawn on it, each in its color, the first lowest."""
        pixels, size = read_small(source, self.photo)
        photo = fitted(Image.fromarray(pixels), self.photo)
        draw_boxes(photo, boxes, photo.width / size[0])
        return as_picture(photo, alt, caption, good)

    def heated(
        self,
        source: Source,
        heat: "Heat",
        boxes: Sequence[tuple[NDArray[np.float32], str]],
        alt: str,
    ) -> Picture:
        """The photo under a map, bright where it is high."""
        pixels, size = read_small(source, self.photo)
        photo = fitted(Image.fromarray(pixels), self.photo)
        mixed = with_heat(photo, heat, photo.width / size[0])
        draw_boxes(mixed, boxes, photo.width / size[0])
        return as_picture(mixed, alt)


@dataclass(frozen=True)
class Heat:
    """A map, (h, w), over the first `width` x `height` pixels of a photo."""

    values: NDArray[np.floating]
    width: float
    height: float


def votes(windows: NDArray[np.float32], degree: NDArray[np.float64]) -> Heat:
    """The map of one image's votes."""
    values, cell = vote_map(windows, degree)
    return Heat(values, values.shape[1] * cell, values.shape[0] * cell)


def with_heat(photo: Image.Image, heat: Heat, scale: float) -> Image.Image:
    """The photo, of `scale` times the size that the map speaks of, under it."""
    colors = Image.fromarray(as_colors(heat.values / max(float(heat.values.max(initial=0)), 1e-12)))
    size = max(1, round(heat.width * scale)), max(1, round(heat.height * scale))
    over = photo.copy()
    over.paste(colors.resize(size, Image.Resampling.BILINEAR), (0, 0))
    return Image.blend(photo, over, 0.55)


def as_colors(share: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Numbers in [0, 1] as colors, (h, w, 3)."""
    at = np.linspace(0, 1, len(VIRIDIS))
    channels = [np.interp(share, at, values) for values in zip(*VIRIDIS, strict=True)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), np.uint8)
