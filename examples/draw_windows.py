"""Draw the pictures of docs/windows.md: a photo, its segmentations and its best windows.

    python examples/draw_windows.py docs/pictures

The photo comes with scikit-image.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from skimage.data import coffee

from tag2box import selective_search
from tag2box.boxes import iou_matrix, thin
from tag2box.data.decoding import read_small
from tag2box.windows.color import blur, convert
from tag2box.windows.edges import sort_edges
from tag2box.windows.search import MIN_PIXELS, SCALES, SIDE, SIGMA
from tag2box.windows.segmentation import pieces, segment

# By eye, in pixels of the photo.
THINGS = {
    "saucer": ((76, 70, 478, 386), "yellow"),
    "cup": ((172, 17, 408, 350), "cyan"),
    "coffee": ((205, 103, 390, 192), "lime"),
    "spoon": ((325, 68, 428, 329), "white"),
}


def segmentation(rgb, space, k):
    """Each region in its mean color."""
    h, w, _ = rgb.shape
    piece, parts = pieces(*sort_edges(convert(blur(rgb, SIGMA), space)), h, w, k, k)
    region, n = segment(parts, k, MIN_PIXELS)
    labels = region[piece]
    flat = labels.ravel()
    mean = [np.bincount(flat, rgb[:, :, c].ravel(), n) / np.bincount(flat, minlength=n) for c in range(3)]
    return Image.fromarray(np.stack(mean, axis=1)[labels].astype(np.uint8)), n


def windows(photo):
    """Of the 300 windows that a run keeps, the one that fits each thing in the photo best."""
    boxes = selective_search(photo)
    boxes = boxes[thin(boxes, 0.8)][:300]
    picture = Image.fromarray(photo)
    draw = ImageDraw.Draw(picture)
    overlap = iou_matrix(boxes, np.array([box for box, _ in THINGS.values()], np.float32))
    for i, (name, (_, color)) in enumerate(THINGS.items()):
        rank = overlap[:, i].argmax()
        draw.rectangle([*boxes[rank, :2], *(boxes[rank, 2:] - 1)], outline=color, width=4)
        print(f"{name}: window {rank + 1}, IoU {overlap[rank, i]:.2f}")
    return picture


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    photo = coffee()
    rgb, _ = read_small(photo, SIDE)
    Image.fromarray(rgb).save(folder / "windows-photo.jpg", quality=85)
    for space, k in (("hsv", SCALES[0]), ("lab", SCALES[-1])):
        picture, n = segmentation(rgb, space, k)
        picture.save(folder / f"windows-{space}-{k:.0f}.png", optimize=True)
        print(f"{space}, k = {k:.0f}: {n} regions")
    windows(photo).resize((rgb.shape[1], rgb.shape[0])).save(folder / "windows-best.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
