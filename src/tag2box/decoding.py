"""From any picture, file or array, to (h, w, 3) uint8 RGB: upright, without alpha, first frame only.

Memory: at most about 9 bytes per pixel of the picture, 500 MB at 50 megapixels; JPEG files that are to be
shrunk are decoded small and need less. Pictures of more than `MAX_PIXELS` are refused.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from tag2box.errors import InputError

__all__ = ["MAX_PIXELS", "Source", "read_image", "read_small"]

Source = str | os.PathLike[str] | NDArray[Any] | Image.Image
RGB = NDArray[np.uint8]

# Pillow's own bound against decompression bombs, held here too whatever the caller did to Pillow's.
MAX_PIXELS = 89_478_485


def read_image(source: Source) -> RGB:
    """`source` (a file, an array or a Pillow image) as (h, w, 3) uint8 RGB.

    Arrays are (h, w), (h, w, 1) grey, (h, w, 2) grey and alpha, (h, w, 3) RGB or (h, w, 4) RGBA, of uint8,
    uint16, bool, or floats between 0 and 1. Alpha is laid over white.
    """
    return read_small(source, None)[0]


def read_small(source: Source, side: int | None) -> tuple[RGB, tuple[int, int]]:
    """`read_image`, shrunk so that no side is longer than `side`; and the full (width, height), upright."""
    if isinstance(source, np.ndarray):
        source = _from_array(source)
    if isinstance(source, Image.Image):
        return _shrink(source, side, source.size)
    path = Path(source)
    try:
        with Image.open(path) as picture:
            size = picture.size
            if side is not None:
                # JPEG can be decoded at half size and less; from twice the wanted size a good filter goes on.
                picture.draft(picture.mode, (2 * side, 2 * side))
            return _shrink(picture, side, size)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a folder, where an image file was expected") from None
    except UnidentifiedImageError:
        raise InputError(f"{path}: not an image that Pillow can read: convert it to PNG or JPEG") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InputError(f"{path}: more than {MAX_PIXELS} pixels: shrink it first") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"{path}: cannot be decoded ({error}): is the file damaged or cut short?") from None


def _shrink(picture: Image.Image, side: int | None, size: tuple[int, int]) -> tuple[RGB, tuple[int, int]]:
    """Shrink first where the pixels allow it: turning, converting and copying then cost little."""
    width, height = size  # before any reduced decoding
    if width * height > MAX_PIXELS:
        raise InputError(f"{width} x {height} pixels are more than {MAX_PIXELS}: shrink it first")
    # Pillow turns TIFFs by itself, and gives their upright size.
    turned = picture.format != "TIFF" and picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    if side is not None and max(width, height) > side:
        scale = side / max(width, height)
        small = max(1, round(width * scale)), max(1, round(height * scale))
        if picture.mode not in {"RGB", "L"}:
            picture = _to_rgb(picture)
        picture = picture.resize(small, Image.Resampling.BILINEAR, reducing_gap=2.0)
    upright = ImageOps.exif_transpose(_to_rgb(picture))
    return np.array(upright), ((height, width) if turned else (width, height))


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode == "RGB":
        return picture
    exif = picture.getexif()
    if picture.mode.startswith(("I", "F")):
        picture = Image.fromarray(_eight_bits(np.asarray(picture)))
    if "transparency" in picture.info or picture.mode in {"LA", "PA", "RGBA", "La", "RGBa"}:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture.getchannel("A"))
        picture = white
    rgb = picture.convert("RGB")
    rgb.info["exif"] = exif.tobytes()
    return rgb


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (2, 3, 4)):
        raise InputError(f"an image is (h, w) or (h, w, 1 to 4), but the shape is {array.shape}")
    if array.size == 0:
        raise InputError(f"an image needs at least one pixel, but the shape is {array.shape}")
    return Image.fromarray(np.ascontiguousarray(_eight_bits(array)))


def _eight_bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint16:
        return (array >> 8).astype(np.uint8)
    if array.dtype == np.int32 and array.min() >= 0 and array.max() < 1 << 16:  # Pillow's 16-bit grey
        return (array >> 8).astype(np.uint8)
    if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        return np.round(array * 255).astype(np.uint8)
    raise InputError(
        f"pixels must be uint8, uint16, bool or floats between 0 and 1, but they are {array.dtype}"
    )
