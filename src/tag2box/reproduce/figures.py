"""The paper's figures, of a finished run by `song2014`: pictures to be saved as PNG."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps

from tag2box.cover.greedy import Cover
from tag2box.cover.stage import find_covers
from tag2box.data.decoding import read_small
from tag2box.detection.drawing import draw_boxes
from tag2box.errors import InputError
from tag2box.images import known_tags
from tag2box.run.folder import RunFolder

NEIGHBORS = 5  # as in the paper
SIDE, LINE, GAP = 120, 14, 4  # pixels of a picture, of a line of text, and between two
OURS, RIVAL, GROUND, INK, GRID = "#009e73", "#d62728", "white", "black", "#cccccc"
PHOTOS = 5  # of a class, in Figure 5
PLOT = (360, 220)


def read_song2014(folder: Path) -> RunFolder:
    """The run in a folder; an error where it is of another method."""
    run = RunFolder(folder)
    if run.config.method != "song2014" or run.config.cover.initializer != "cover":
        raise InputError(f"{folder} is no run of the cover: tag2box run DATA --method song2014 makes one")
    return run


def first_clusters(run: RunFolder) -> Image.Image:
    """Figure 2: of each class the windows nearest to the first selected one, in positive images."""
    windows, covers = run.result("described").windows, run.result("covers")
    rows = []
    for name, cover in zip(run.images.classes, covers, strict=True):
        cluster = cover.covered[cover.by == 0][:NEIGHBORS]
        rows.append((name, [_crop(run, int(windows.image_of(row)), windows.xyxy[row]) for row in cluster]))
    return _sheet(rows, NEIGHBORS)


def mined_windows(run: RunFolder) -> Image.Image:
    """Figure 5: the first window of the cover (green) and that of negative mining (red), photo by photo."""
    described, tags = run.result("described"), known_tags(run.images.tags, run.config.unknown)
    other = replace(run.config.cover, initializer="negative_mining")
    mined = find_covers(described.windows, run.result("compared"), tags, run.result("degrees"), other)
    rows = []
    for name, ours, theirs in zip(run.images.classes, run.result("covers"), mined, strict=True):
        pairs = _differing(ours, theirs, described.windows.xyxy)
        rows.append((name, [_photo(run, image, boxes) for image, *boxes in pairs[:PHOTOS]]))
    return _sheet(rows, PHOTOS)


def convergence(run: RunFolder) -> Image.Image:
    """The objective of the refinement by rounds, over the first one's, and the windows that it holds."""
    traces = run.result("refined").trace if "refined" in run.keys else ()
    if not any(traces):
        raise InputError("this run was not refined: refine.method=slsvm or lsvm does it")
    titles = "objective / objective of the first round", "windows held"
    values = (
        [[line["objective"] / trace[0]["objective"] for line in trace] for trace in traces],
        [[line["held"] for line in trace] for trace in traces],
    )
    sheet = Image.new("RGB", (2 * PLOT[0], PLOT[1]), GROUND)
    for i, (title, curves) in enumerate(zip(titles, values, strict=True)):
        sheet.paste(_plot(f"{run.config.refine.method}: {title}", curves), (i * PLOT[0], 0))
    return sheet


def _differing(ours: Cover, theirs: Cover, xyxy: NDArray[np.float32]) -> list[tuple[Any, ...]]:
    """(image, our box, their box) of images that both reach by different windows, from all over the set."""
    rival = dict(zip(*(each.tolist() for each in theirs.first()), strict=True))
    pairs = [
        (image, xyxy[row], xyxy[rival[image]])
        for image, row in zip(*(each.tolist() for each in ours.first()), strict=True)
        if image in rival and rival[image] != row
    ]
    step = max(len(pairs) // PHOTOS, 1)
    return pairs[::step]


def _crop(run: RunFolder, image: int, box: NDArray[np.float32]) -> Image.Image:
    pixels, size = read_small(run.images.paths[image], 1024)
    scale = pixels.shape[1] / size[0]
    x1, y1, x2, y2 = (round(float(side) * scale) for side in box)
    return Image.fromarray(pixels).crop((x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)))


def _photo(run: RunFolder, image: int, boxes: Sequence[NDArray[np.float32]]) -> Image.Image:
    pixels, size = read_small(run.images.paths[image], 2 * SIDE)
    photo = Image.fromarray(pixels)
    draw_boxes(photo, list(zip(boxes, (OURS, RIVAL), strict=True))[::-1], photo.width / size[0])
    return photo


def _sheet(rows: Sequence[tuple[str, Sequence[Image.Image]]], n: int) -> Image.Image:
    """Two columns of classes, n pictures each, the class above them."""
    width, height = n * (SIDE + GAP) + 3 * GAP, SIDE + LINE + 2 * GAP
    sheet = Image.new("RGB", (min(2, len(rows)) * width, -(-len(rows) // 2) * height), GROUND)
    pen = ImageDraw.Draw(sheet)
    for i, (name, pictures) in enumerate(rows):
        x, y = i % 2 * width + GAP, i // 2 * height
        pen.text((x, y), name, fill=INK)
        for j, picture in enumerate(pictures):
            fitted = ImageOps.contain(picture, (SIDE, SIDE))
            sheet.paste(fitted, (x + j * (SIDE + GAP), y + LINE + (SIDE - fitted.height) // 2))
    return sheet


def _plot(title: str, curves: Sequence[Sequence[float]]) -> Image.Image:
    """A curve for each class, over rounds."""
    picture = Image.new("RGB", PLOT, GROUND)
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), (52, 24, PLOT[0] - 12, PLOT[1] - 30)
    most = max((max(curve) for curve in curves if curve), default=1) or 1
    rounds = max(max(len(curve) for curve in curves) - 1, 1)
    pen.text((left, 4), title, fill=INK)
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        pen.line((left, y, right, y), fill=GRID)
        pen.text((4, y - 6), f"{share * most:.4g}", fill=INK)
    pen.text((left, bottom + 10), f"rounds 0 to {rounds}, a line for each class", fill=INK)
    for c, curve in enumerate(curves):
        points = [
            (left + i * (right - left) / rounds, bottom - value / most * (bottom - top))
            for i, value in enumerate(curve)
        ]
        color = Image.new("HSV", (1, 1), (c * 255 // len(curves), 200, 170)).convert("RGB").getpixel((0, 0))
        if len(points) > 1:
            pen.line(points, fill=color, width=2)
    return picture
