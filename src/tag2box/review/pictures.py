"""Pictures for the page: photos as they are where a browser can show them, thumbnails, object maps.

Thumbnails are made when they are first asked for and kept in the run folder: memory holds one at a time.
"""

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from tag2box.data.decoding import read_small
from tag2box.detection.drawing import as_colors
from tag2box.run.heat_maps import Heat
from tag2box.runtime.files import read_sealed, write_sealed

# Long sides in pixels: of a thumbnail, and of photos that a browser cannot show as they are.
THUMBNAIL, LARGE = 256, 2048
# A file that is larger is sent smaller.
MOST_BYTES = 12_000_000
# How files begin that every browser shows, and what they are.
BROWSERS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


def browser_type(path: Path) -> str | None:
    """The type of a photo that can be sent as it is."""
    with path.open("rb") as file:
        head = file.read(16)
    kind = next((kind for start, kind in BROWSERS.items() if head.startswith(start)), None)
    return kind if path.stat().st_size <= MOST_BYTES else None


def small_picture(path: Path, side: int, cache: Path) -> bytes:
    """The photo as JPEG with that long side, from the cache where it is there and the photo is unchanged."""
    about = path.stat()
    content = f"{path.resolve()}\n{about.st_size}\n{about.st_mtime_ns}\n{side}"
    name = hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()[:24]
    kept = cache / name[:2] / f"{name}.jpg"
    if (picture := read_sealed(kept)) is not None:
        return picture
    pixels, _ = read_small(path, side)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=80)
    write_sealed(kept, buffer.getvalue())
    return buffer.getvalue()


def heat_picture(heat: Heat, size: tuple[int, int]) -> bytes:
    """A map as a PNG to lay over the photo: clear where it is 0."""
    width = max(1, round(heat.values.shape[1] * size[0] / max(heat.width, 1e-6)))
    height = max(1, round(heat.values.shape[0] * size[1] / max(heat.height, 1e-6)))
    values = np.zeros((height, width))
    part = heat.values[:height, :width]
    values[: part.shape[0], : part.shape[1]] = part / max(float(part.max(initial=0)), 1e-12)
    alpha = (np.sqrt(values) * 200).astype(np.uint8)
    pixels = np.dstack([as_colors(values), alpha])
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
