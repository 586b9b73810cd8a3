"""Pictures of the cover: its windows and their neighbors, its gains, the map of votes, ours against a rival.

Each function returns a Pillow image. Photos are decoded as in every other stage, and only those shown.
"""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tag2box.cover.greedy import Cover
from tag2box.data.decoding import read_image
from tag2box.images import ImageSet
from tag2box.neighbors.search import Neighbors
from tag2box.report.thumbnails import votes, with_heat
from tag2box.windows.search import Windows

__all__ = [
    "degree_map",
    "draw_boxes",
    "gain_curve",
    "mined_windows",
    "nearest_positives",
    "neighbor_sheet",
]

TILE = 128  # pixels of a crop's side in a sheet
GAP = 6
OURS, RIVAL, PICK = "#2ca02c", "#d62728", "#1f77b4"  # matplotlib's green, red and blue


def neighbor_sheet(
    images: ImageSet,
    windows: Windows,
    neighbors: Neighbors,
    cover: Cover,
    positive: NDArray[np.bool_],
    rows: int = 6,
    n: int = 5,
) -> Image.Image:
    """The first `rows` selected windows, framed, each with its `n` nearest in other positive images.

    The paper's Figure 2, for one class; `positive` is a mask over the images.
    """
    if neighbors.queries is None:
        raise ValueError("the table must know its queries: take one of group_neighbors")
    place = {int(row): at for at, row in enumerate(neighbors.queries)}
    tiles = []
    for row in cover.selected[:rows]:
        at = place[int(row)]
        own = int(windows.image_of(row))
        shown = [(own, int(row)), *nearest_positives(neighbors, at, own, positive)[:n]]
        tiles.append([_crop(images, image, windows.xyxy[window]) for image, window in shown])
    return _sheet(tiles, n + 1)


def nearest_positives(
    neighbors: Neighbors, at: int, own: int, positive: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """(image, window) of the neighbors of query `at` in other positive images, nearest first."""
    found = zip(neighbors.image[at].tolist(), neighbors.window[at].tolist(), strict=True)
    return [(image, window) for image, window in found if positive[image] and image != own]


def mined_windows(
    images: ImageSet, windows: Windows, ours: Cover, rival: Cover, n: int = 12, columns: int = 4
) -> Image.Image:
    """Photos with the first window of `ours` in green and of `rival` in red: the paper's Figure 5."""
    first, other = (dict(zip(*cover.first(), strict=True)) for cover in (ours, rival))
    shown = [image for image in first if image in other][:n]
    photos = [
        draw_boxes(images, image, windows.xyxy[[other[image], first[image]]], (RIVAL, OURS), side=2 * TILE)
        for image in shown
    ]
    rows = [photos[i : i + columns] for i in range(0, len(photos), columns)]
    return _sheet(rows, columns, 2 * TILE)


def draw_boxes(
    images: ImageSet, image: int, xyxy: NDArray[np.float32], colors: Sequence[str], side: int = 512
) -> Image.Image:
    """One photo, at most `side` pixels wide and high, with boxes on it."""
    photo = Image.fromarray(read_image(images.paths[image]))
    scale = side / max(photo.size)
    photo = photo.resize([max(1, round(s * scale)) for s in photo.size])
    pen = ImageDraw.Draw(photo)
    for box, color in zip(xyxy * scale, colors, strict=True):
        corners = np.clip(box, 0, [photo.width - 1, photo.height - 1] * 2)
        pen.rectangle([float(c) for c in corners], outline="white", width=5)
        pen.rectangle([float(c) for c in corners], outline=color, width=3)
    return photo


def degree_map(
    images: ImageSet, image: int, windows: Windows, degree: NDArray[np.float64], side: int = 512
) -> Image.Image:
    """One photo under the map of its windows' votes: bright where they are. `degree`: (n windows,)."""
    photo = Image.fromarray(read_image(images.paths[image]))
    mixed = with_heat(photo, votes(windows[image], degree[windows.rows_of(image)]), 1.0)
    return mixed.resize([max(1, round(s * side / max(mixed.size))) for s in mixed.size])


def gain_curve(cover: Cover, title: str = "") -> Image.Image:
    """F(S) after each pick, as a share of F(V)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    reached = np.concatenate([[0], np.cumsum(cover.gains)]) / max(cover.F_V, 1e-12)
    axes.plot(np.arange(len(reached)), reached, drawstyle="steps-post", color=PICK)
    axes.set(xlabel="windows selected", ylabel="F(S) / F(V)", title=title, ylim=(0, 1.02), xlim=(0, None))
    axes.grid(alpha=0.3)
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return Image.open(buffer).convert("RGB")


def _crop(images: ImageSet, image: int, box: NDArray[np.float32]) -> Image.Image:
    photo = Image.fromarray(read_image(images.paths[image]))
    x1, y1, x2, y2 = (round(float(side)) for side in box)
    return photo.crop((x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)))


def _sheet(rows: Sequence[Sequence[Image.Image]], columns: int, side: int = TILE) -> Image.Image:
    """Pictures in a grid on white, each shrunk to fit its square."""
    step = side + GAP
    sheet = Image.new("RGB", (columns * step + GAP, max(len(rows), 1) * step + GAP), "white")
    for y, row in enumerate(rows):
        for x, picture in enumerate(row):
            scale = side / max(picture.size)
            small = picture.resize([max(1, round(s * scale)) for s in picture.size])
            left = GAP + x * step + (side - small.width) // 2
            sheet.paste(small, (left, GAP + y * step + (side - small.height) // 2))
    if columns > 1 and side == TILE:  # the first column are the picks
        pen = ImageDraw.Draw(sheet)
        for y in range(len(rows)):
            top = y * step + GAP // 2
            pen.rectangle([GAP // 2, top, step + GAP // 2 - 1, top + step - 1], outline=PICK, width=3)
    return sheet
