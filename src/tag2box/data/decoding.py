"""From any picture, file or array, to (h, w, 3) uint8 RGB: upright, without alpha, first frame only.

A file may be anything that a stranger sent: only the decoders in `DECODERS` run, no picture has more than
`MAX_PIXELS`, and none is decoded that would need more than `MAX_MEMORY` for it. Shrinking adds little, since
pixels are converted and averaged strip by strip; in full size there are 3 more bytes per pixel, 6 if turned.

photo = read_photo("photo.jpg")              # the file is read once: what is hashed is what is decoded
photo.sha256, photo.small(1024)
"""

import hashlib
import io
import math
import os
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from tag2box.data.remote import RemotePath, open_file
from tag2box.errors import InputError

RGB = NDArray[np.uint8]

# The long side at which photos are read by all that do not need more. One size for all of them: a photo is
# then decoded once in `Detector.detect`, and has the same pixels as when it was learned from.
READING_SIDE = 1024
# To see whether a photo is whole: JPEG is decoded at an eighth of its size for this.
CHECK_SIDE = 32
# What people keep photos in. Pillow knows more, and some of it starts other programs: EPS runs Ghostscript.
DECODERS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
# Pillow's own bound against decompression bombs, held here too whatever the caller did to Pillow's.
MAX_PIXELS = 89_478_485
# Bytes that decoding one file may take. Pictures of 89 megapixels in 4 bytes each stay below.
MAX_MEMORY = 512_000_000
# Bytes of a file: no photo has more pixels than they could hold.
MAX_FILE = MAX_MEMORY
# Bytes of a pixel in Pillow's memory; 4 in all other modes.
PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}
# Further bytes that the decoder holds, measured: WebP's canvases; a strip of TIFF, which may be all of it.
WEBP_BYTES, TIFF_BYTES = 12, 8
# A progressive JPEG has about ten scans, and decoding takes as long as all of them.
MAX_SCANS = 100
# Pixels that are converted at a time.
STRIP = 1 << 20
# EXIF's orientations, and what undoes them.
UPRIGHT: dict[int, Callable[[RGB], RGB]] = {
    2: lambda rgb: rgb[:, ::-1],
    3: lambda rgb: rgb[::-1, ::-1],
    4: lambda rgb: rgb[::-1],
    5: lambda rgb: rgb.transpose(1, 0, 2),
    6: lambda rgb: rgb[::-1].transpose(1, 0, 2),
    7: lambda rgb: rgb[::-1, ::-1].transpose(1, 0, 2),
    8: lambda rgb: rgb[:, ::-1].transpose(1, 0, 2),
}


@dataclass(frozen=True, eq=False)
class Photo:
    """A file of a photo, read once: what may have become of the file since does not matter."""

    name: str  # for messages
    content: bytes
    sha256: str  # of the content, 64 hexadecimal digits

    def small(self, side: int | None) -> tuple[RGB, tuple[int, int]]:
        """`read_small` of these bytes."""
        return read_small(self, side)


@dataclass(frozen=True, eq=False)
class Decoded:
    """A photo that was decoded, no side longer than `READING_SIDE`, and its full (width, height)."""

    rgb: RGB
    size: tuple[int, int]


Source = str | os.PathLike[str] | NDArray[Any] | Image.Image | Photo | Decoded


def read_photo(path: str | os.PathLike[str]) -> Photo:
    """Read a file here or elsewhere, once, and hash what was read. Nothing is decoded."""
    path = path if isinstance(path, Path | RemotePath) else Path(path)
    with _one_line(str(path)), open_file(path) as file:
        size = MAX_FILE if isinstance(path, RemotePath) else os.fstat(file.fileno()).st_size
        content = file.read(min(size, MAX_FILE) + 1)  # bounded, even if somebody is writing to it
        if len(content) > MAX_FILE:
            raise InputError(f"more than {MAX_FILE // 10**6} MB: no photo is so large; shrink it first")
    return Photo(str(path), content, hashlib.sha256(content).hexdigest())


def read_image(source: Source) -> RGB:
    """`source` (a file, an array or a Pillow image) as (h, w, 3) uint8 RGB.

    Arrays are (h, w), (h, w, 1) grey, (h, w, 2) grey and alpha, (h, w, 3) RGB or (h, w, 4) RGBA, of uint8,
    uint16, bool, or floats between 0 and 1. Alpha is laid over white.
    """
    return read_small(source, None)[0]


def decode(source: Source) -> Decoded:
    """Decode a photo once, for all that look at it: `read_small` gives the same pixels of it as of a file."""
    return source if isinstance(source, Decoded) else Decoded(*_read(source, READING_SIDE))


def read_small(source: Source, side: int | None) -> tuple[RGB, tuple[int, int]]:
    """`read_image`, shrunk so that no side is longer than `side`; and the full (width, height), upright.

    What is smaller than `READING_SIDE` is made of the photo at that size.
    """
    if isinstance(source, Decoded) or (side is not None and side <= READING_SIDE):
        decoded = decode(source)
        if side is None or side >= max(decoded.rgb.shape[:2]):
            return decoded.rgb, decoded.size
        return _shrink(Image.fromarray(decoded.rgb), side, decoded.rgb.shape[1::-1])[0], decoded.size
    return _read(source, side)


def check_photo(photo: Photo) -> tuple[int, int]:
    """Decode a photo as small as it can be, only to see whether it is whole; its upright (width, height)."""
    return _read(photo, CHECK_SIDE)[1]


def _read(source: Source, side: int | None) -> tuple[RGB, tuple[int, int]]:
    if isinstance(source, np.ndarray):
        source = _from_array(source)
    if isinstance(source, Image.Image):
        return _shrink(source, side, source.size)
    assert not isinstance(source, Decoded)
    photo = source if isinstance(source, Photo) else read_photo(source)
    with _opened(io.BytesIO(photo.content), photo.name) as picture:
        size = picture.size
        if side is not None:
            # JPEG can be decoded at half size and less; from twice the wanted size a good filter goes on.
            picture.draft(picture.mode, (2 * side, 2 * side))
        _check_cost(picture, size, photo.content)
        return _shrink(picture, side, size)


def image_size(path: Path) -> tuple[int, int]:
    """(width, height) of the upright image, from the file's header alone."""
    with _one_line(str(path)), open_file(path) as file, _opened(file, str(path)) as picture:
        width, height = picture.size
        return (height, width) if _orientation(picture) > 4 else (width, height)


@contextmanager
def _opened(file: IO[bytes], name: str) -> Iterator[Image.Image]:
    with _one_line(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of size and of odd metadata: what fails is told here
        with Image.open(file, formats=DECODERS) as picture:
            yield picture


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """A damaged file may raise anything inside a decoder: it becomes one line."""
    try:
        yield
    except UnidentifiedImageError:
        raise InputError(f"{name}: not an image that is read here: convert it to PNG or JPEG") from None
    except Image.DecompressionBombError:
        raise InputError(f"{name}: more than {MAX_PIXELS} pixels: shrink it first") from None
    except InputError as error:
        raise error if name in str(error) else InputError(f"{name}: {error}") from None
    except OSError as error:
        if error.strerror is None:  # a decoder's own
            raise InputError(f"{name}: {_damaged(error)}") from None
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    except Exception as error:
        raise InputError(f"{name}: {_damaged(error)}") from error


def _damaged(error: Exception) -> str:
    return f"cannot be decoded ({str(error) or type(error).__name__}): is the file damaged or cut short?"


def _check_cost(picture: Image.Image, size: tuple[int, int], content: bytes) -> None:
    """Refuse what would take too much memory or time to decode, before anything is decoded."""
    pixels = math.prod(picture.size)  # of a JPEG as it will be decoded
    each = PIXEL_BYTES.get(picture.mode, 4)
    needed = pixels * each
    if picture.format == "WEBP":
        needed += pixels * WEBP_BYTES
    elif picture.format == "TIFF" and picture.info.get("compression") != "raw":
        tags: Any = picture.tag_v2  # type: ignore[attr-defined]
        tile = int(tags.get(322, 0)) * int(tags.get(323, 0))  # a tile may be larger than the picture
        needed += max(pixels, tile) * TIFF_BYTES
    elif picture.info.get("progressive"):  # all coefficients of a JPEG, at its full size
        needed += 2 * len(picture.getbands()) * math.prod(size)
        scans = content.count(b"\xff\xda")
        if scans > MAX_SCANS:
            raise InputError(f"a JPEG of {scans} scans, more than {MAX_SCANS}: save it again as plain JPEG")
    if needed > MAX_MEMORY:
        raise InputError(
            f"{size[0]} x {size[1]} pixels would take {needed // 10**6} MB to decode, more than the "
            f"{MAX_MEMORY // 10**6} MB that a photo may take: shrink it first"
        )


def _orientation(picture: Image.Image) -> int:
    """EXIF's orientation, 1 to 8; 1 where there is none to read. TIFFs are turned by Pillow itself."""
    if picture.format == "TIFF":
        return 1
    try:
        value = _exif(picture).get(0x0112, 1)
    except Exception:  # damaged EXIF may raise anything, and the pixels are none the worse for it
        return 1
    return value if value in UPRIGHT else 1


def _exif(picture: Image.Image) -> Image.Exif:
    file: IO[bytes] | None = getattr(picture, "fp", None)
    if picture.format != "PNG" or "exif" in picture.info or file is None:
        return picture.getexif()
    # It may be behind the pixels, and Pillow would decode them all to see. A decoder keeps its own place.
    exif, place = Image.Exif(), file.tell()
    file.seek(8)
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"eXIf":
            exif.load(file.read(length))
            break
        file.seek(length + 4, os.SEEK_CUR)
    file.seek(place)
    return exif


def _shrink(picture: Image.Image, side: int | None, size: tuple[int, int]) -> tuple[RGB, tuple[int, int]]:
    """Shrink first, then turn: that costs little then. `size` is that before any reduced decoding."""
    width, height = size
    if not width or not height:
        raise InputError("no pixels: 0 in width or height")
    if width * height > MAX_PIXELS:
        raise InputError(f"{width} x {height} pixels are more than {MAX_PIXELS}: shrink it first")
    orientation = _orientation(picture)
    scale = 1.0 if side is None else min(1.0, side / max(width, height))
    rgb = _resized(picture, (max(1, round(width * scale)), max(1, round(height * scale))))
    upright = np.ascontiguousarray(UPRIGHT[orientation](rgb)) if orientation in UPRIGHT else rgb
    return upright, ((height, width) if orientation > 4 else (width, height))


def _resized(picture: Image.Image, size: tuple[int, int]) -> RGB:
    """The picture in that size: averages of blocks down to twice the size, and a filter from there."""
    width, height = picture.size
    kx, ky = (max(1, old // new // 2) for old, new in zip(picture.size, size, strict=True))
    if picture.size == size:
        return _averaged(picture, 1, 1)
    if (kx, ky) != (1, 1) or picture.mode != "RGB":
        picture = Image.fromarray(_averaged(picture, kx, ky))
    return np.array(picture.resize(size, Image.Resampling.BILINEAR, box=(0, 0, width / kx, height / ky)))


def _averaged(picture: Image.Image, kx: int, ky: int) -> RGB:
    """Averages over blocks of kx x ky pixels, without a copy of the whole picture."""
    width, height = picture.size
    out = np.empty((-(-height // ky), -(-width // kx), 3), np.uint8)
    rows = max(1, STRIP // (width * ky)) * ky
    for top in range(0, height, rows):
        strip = _to_rgb(picture.crop((0, top, width, min(top + rows, height))))
        small = strip.reduce((kx, ky)) if (kx, ky) != (1, 1) else strip
        out[top // ky : (top + rows) // ky] = np.asarray(small)
    return out


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        picture = Image.fromarray(_eight_bits(np.asarray(picture)))
    if "transparency" in picture.info or picture.mode in {"LA", "PA", "RGBA", "La", "RGBa"}:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture.getchannel("A"))
        return white
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (2, 3, 4)):
        raise InputError(f"an image is (h, w) or (h, w, 1 to 4), but the shape is {array.shape}")
    if array.size == 0:
        raise InputError(f"an image needs at least one pixel, but the shape is {array.shape}")
    return Image.fromarray(np.ascontiguousarray(_eight_bits(array)))


def _eight_bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    kind = array.dtype.newbyteorder("=")  # TIFF has both byte orders
    if kind == np.uint8:
        return array
    if kind == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if kind == np.uint16:
        return (array >> 8).astype(np.uint8)
    if kind == np.int32 and array.min() >= 0 and array.max() < 1 << 16:  # Pillow's 16-bit grey
        return (array >> 8).astype(np.uint8)
    if kind.kind == "f" and array.min() >= 0 and array.max() <= 1:
        return np.round(array * 255).astype(np.uint8)
    raise InputError(
        f"pixels must be uint8, uint16, bool or floats between 0 and 1, but they are {array.dtype}: "
        f"save it with 8 bits, or divide it by its largest value"
    )
