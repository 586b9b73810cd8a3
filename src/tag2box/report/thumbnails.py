"""Photos made small: crops and whole photos with boxes, as JPEG, in sizes that keep a report small."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import Source, read_small
from tag2box.detection.drawing import Picture, as_colors, as_picture, draw_boxes, fitted
from tag2box.run.heat_maps import Heat

# By what they are, told apart with any color vision (Okabe and Ito 2008); MINED: by negative mining.
BEFORE, AFTER, DETECTED, TRUTH, MINED = "#e69f00", "#009e73", "#56b4e9", "#ffffff", "#cc79a7"


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
        heat: Heat,
        boxes: Sequence[tuple[NDArray[np.float32], str]],
        alt: str,
    ) -> Picture:
        """The photo under a map, bright where it is high."""
        pixels, size = read_small(source, self.photo)
        photo = fitted(Image.fromarray(pixels), self.photo)
        mixed = with_heat(photo, heat, photo.width / size[0])
        draw_boxes(mixed, boxes, photo.width / size[0])
        return as_picture(mixed, alt)


def with_heat(photo: Image.Image, heat: Heat, scale: float) -> Image.Image:
    """The photo, of `scale` times the size that the map speaks of, under it."""
    colors = Image.fromarray(as_colors(heat.values / max(float(heat.values.max(initial=0)), 1e-12)))
    size = max(1, round(heat.width * scale)), max(1, round(heat.height * scale))
    over = photo.copy()
    over.paste(colors.resize(size, Image.Resampling.BILINEAR), (0, 0))
    return Image.blend(photo, over, 0.55)
