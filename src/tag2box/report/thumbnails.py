"""Photos made small: crops and whole photos with boxes, as JPEG, in sizes that keep a report small."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tag2box.cover.votes import vote_map
from tag2box.data.decoding import Source, read_small

__all__ = [
    "AFTER",
    "BEFORE",
    "DETECTED",
    "TRUTH",
    "Heat",
    "Picture",
    "Thumbnails",
    "as_colors",
    "votes",
    "with_heat",
]

# Told apart by people with any color vision, and by their order of thickness (Okabe and Ito 2008).
BEFORE, AFTER, DETECTED, TRUTH = "#e69f00", "#009e73", "#56b4e9", "#ffffff"
# From dark to bright: nine colors of viridis (van der Walt and Smith 2015), mixed in between.
VIRIDIS = (
    *((68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140)),
    *((40, 174, 128), (94, 201, 98), (173, 220, 48), (253, 231, 37)),
)
# JPEG qualities, tried in turn until a picture takes at most so many bytes a pixel: noise costs no more room.
QUALITIES = (80, 65, 50, 35, 20)
BYTES_PER_PIXEL = 0.22


@dataclass(frozen=True)
class Picture:
    """A JPEG, what it shows for those who cannot see it, and a few words below it."""

    jpeg: bytes
    width: int
    height: int
    alt: str
    caption: str = ""
    good: bool | None = None

    @property
    def uri(self) -> str:
        """The picture itself as an address, so that a page needs no other file."""
        return f"data:image/jpeg;base64,{b64encode(self.jpeg).decode()}"


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
        return _picture(_fit(part, self.crop), alt)

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
        photo = _fit(Image.fromarray(pixels), self.photo)
        draw_boxes(photo, boxes, photo.width / size[0])
        return _picture(photo, alt, caption, good)

    def heated(
        self,
        source: Source,
        heat: "Heat",
        boxes: Sequence[tuple[NDArray[np.float32], str]],
        alt: str,
    ) -> Picture:
        """The photo under a map, bright where it is high."""
        pixels, size = read_small(source, self.photo)
        photo = _fit(Image.fromarray(pixels), self.photo)
        mixed = with_heat(photo, heat, photo.width / size[0])
        draw_boxes(mixed, boxes, photo.width / size[0])
        return _picture(mixed, alt)


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
    colors = Image.fromarray(as_colors(heat.values / max(heat.values.max(initial=0), 1e-12)))
    size = max(1, round(heat.width * scale)), max(1, round(heat.height * scale))
    over = photo.copy()
    over.paste(colors.resize(size, Image.Resampling.BILINEAR), (0, 0))
    return Image.blend(photo, over, 0.55)


def as_colors(share: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Numbers in [0, 1] as colors, (h, w, 3)."""
    at = np.linspace(0, 1, len(VIRIDIS))
    channels = [np.interp(share, at, values) for values in zip(*VIRIDIS, strict=True)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), np.uint8)


def draw_boxes(photo: Image.Image, boxes: Sequence[tuple[NDArray[np.float32], str]], scale: float) -> None:
    """Boxes of the full photo on its thumbnail, each line on a dark one, so that it shows on any ground."""
    pen = ImageDraw.Draw(photo)
    for box, color in boxes:
        corners = np.clip(np.asarray(box, np.float64) * scale, 0, [photo.width - 1, photo.height - 1] * 2)
        place = [float(c) for c in corners]
        width = 1 if color == TRUTH else 3
        pen.rectangle(place, outline="#101418", width=width + 2)
        inset = [place[0] + 1, place[1] + 1, max(place[2] - 1, place[0] + 1), max(place[3] - 1, place[1] + 1)]
        pen.rectangle(inset, outline=color, width=width)


def _fit(photo: Image.Image, side: int) -> Image.Image:
    scale = side / max(photo.size)
    return photo.resize([max(1, round(s * scale)) for s in photo.size], Image.Resampling.LANCZOS)


def _picture(photo: Image.Image, alt: str, caption: str = "", good: bool | None = None) -> Picture:
    for quality in QUALITIES:
        buffer = BytesIO()
        photo.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= BYTES_PER_PIXEL * photo.width * photo.height:
            break
    return Picture(buffer.getvalue(), photo.width, photo.height, alt, caption, good)
