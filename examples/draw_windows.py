"""Draw the pictures of docs/windows.md: a photo, its segmentations and its first windows.

    python examples/draw_windows.py docs/pictures

The photo comes with scikit-image.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from skimage.data import coffee

from tag2box import selective_search, thin
from tag2box.colour import blur, convert
from tag2box.decoding import read_small
from tag2box.segmentation import segment, sort_edges
from tag2box.windows import MIN_PIXELS, SCALES, SIDE, SIGMA


def segmentation(rgb, space, k):
    """Each region in its mean colour."""
    h, w, _ = rgb.shape
    labels, n = segment(*sort_edges(convert(blur(rgb, SIGMA), space)), h, w, k, MIN_PIXELS)
    flat = labels.ravel()
    mean = [np.bincount(flat, rgb[:, :, c].ravel(), n) / np.bincount(flat, minlength=n) for c in range(3)]
    return Image.fromarray(np.stack(mean, axis=1)[labels].astype(np.uint8)), n


def windows(photo, n):
    """The first windows that are clearly different from each other, the better the thicker."""
    boxes = selective_search(photo)
    picture = Image.fromarray(photo)
    draw = ImageDraw.Draw(picture)
    for rank, box in enumerate(boxes[thin(boxes, 0.5)][1 : n + 1]):
        hue = int(255 * rank / n)
        colour = Image.new("HSV", (1, 1), (hue, 255, 255)).convert("RGB").getpixel((0, 0))
        draw.rectangle([*box[:2], *(box[2:] - 1)], outline=colour, width=4 if rank < n / 2 else 2)
    return picture


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    photo = coffee()
    rgb, _ = read_small(photo, SIDE)
    Image.fromarray(rgb).save(folder / "windows-photo.jpg", quality=85)
    for space, k in (("hsv", SCALES[0]), ("lab", SCALES[1])):
        picture, n = segmentation(rgb, space, k)
        picture.save(folder / f"windows-{space}-{k:.0f}.png", optimize=True)
        print(f"{space}, k = {k:.0f}: {n} regions")
    windows(photo, 16).resize((rgb.shape[1], rgb.shape[0])).save(folder / "windows-first.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
