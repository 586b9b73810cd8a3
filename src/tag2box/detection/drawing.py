"""Boxes drawn on photos made small, as JPEG: for the report, and for notebooks."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

__all__ = [
    "AFTER",
    "BEFORE",
    "DETECTED",
    "MINED",
    "TRUTH",
    "Picture",
    "as_colors",
    "as_picture",
    "draw_boxes",
    "fitted",
]

# Told apart by people with any color vision, and by their order of thickness (Okabe and Ito 2008).
BEFORE, AFTER, DETECTED, TRUTH = "#e69f00", "#009e73", "#56b4e9", "#ffffff"
MINED = "#cc79a7"  # by negative mining
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
