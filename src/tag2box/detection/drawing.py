"""Boxes drawn on photos, as JPEG: for files, notebooks and the report. One color a class everywhere."""

from base64 import b64encode
from collections.abc import Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

# From dark to bright: nine colors of viridis (van der Walt and Smith 2015), mixed in between.
VIRIDIS = (
    *((68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140)),
    *((40, 174, 128), (94, 201, 98), (173, 220, 48), (253, 231, 37)),
)
# JPEG qualities, tried in turn until a picture takes at most so many bytes a pixel: noise costs no more room.
QUALITIES = (80, 65, 50, 35, 20)
BYTES_PER_PIXEL = 0.22
DARK = "#101418"


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


def class_color(label: int) -> str:
    """The color of a class, on the pages too: steps of the golden angle."""
    rgb = hls_to_rgb((label * 137.5 + 210) % 360 / 360, 0.55, 0.9)
    return "#" + "".join(f"{round(255 * value):02x}" for value in rgb)


def draw_boxes(
    photo: Image.Image,
    boxes: Sequence[tuple[NDArray[np.float32], str]],
    scale: float,
    names: Sequence[str] = (),
) -> None:
    """Draw (box, color) on a photo of `scale` times the size that the boxes are in, and their names.

    A dark line runs along each side, so that every color shows on every ground.
    """
    pen = ImageDraw.Draw(photo)
    width = max(2, round(max(photo.size) / 250))
    edges = []
    for box, color in boxes:
        corners = np.clip(np.asarray(box, np.float64) * scale, 0, [photo.width - 1, photo.height - 1] * 2)
        x1, y1, x2, y2 = corners.tolist()
        pen.rectangle([x1, y1, x2, y2], outline=DARK, width=width + 2)
        pen.rectangle([x1 + 1, y1 + 1, max(x2 - 1, x1 + 1), max(y2 - 1, y1 + 1)], outline=color, width=width)
        edges.append((x1, y1))
    font = ImageFont.load_default(max(11, round(max(photo.size) / 45))) if names else None
    for (x, y), (_, color), name in zip(edges, boxes, names, strict=False):
        left, top, right, bottom = pen.textbbox((0, 0), name, font=font)
        wide, high = right - left + 6, bottom - top + 6
        at_x, at_y = max(0.0, min(x, photo.width - wide)), y - high if y >= high else y
        pen.rectangle([at_x, at_y, at_x + wide, at_y + high], fill=color)
        dark = np.dot(ImageColor.getrgb(color)[:3], (0.299, 0.587, 0.114)) < 110
        pen.text((at_x + 3 - left, at_y + 3 - top), name, fill="white" if dark else DARK, font=font)


def fitted(photo: Image.Image, side: int) -> Image.Image:
    """The photo with a long side of so many pixels."""
    scale = side / max(photo.size)
    return photo.resize([max(1, round(s * scale)) for s in photo.size], Image.Resampling.LANCZOS)


def as_picture(photo: Image.Image, alt: str, caption: str = "", good: bool | None = None) -> Picture:
    """The photo as a JPEG of few bytes."""
    for quality in QUALITIES:
        buffer = BytesIO()
        photo.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= BYTES_PER_PIXEL * photo.width * photo.height:
            break
    return Picture(buffer.getvalue(), photo.width, photo.height, alt, caption, good)


def as_colors(share: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Numbers in [0, 1] as colors, (h, w, 3)."""
    at = np.linspace(0, 1, len(VIRIDIS))
    channels = [np.interp(share, at, values) for values in zip(*VIRIDIS, strict=True)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), np.uint8)
