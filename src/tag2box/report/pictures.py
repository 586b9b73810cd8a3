"""The pictures of a report, as JPEG: photos with boxes or under a map, and crops of windows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.boxes import iou_matrix
from tag2box.cover.greedy import Cover
from tag2box.data.decoding import Source, read_small
from tag2box.detection.detections import Detections
from tag2box.detection.drawing import Picture, as_colors, as_picture, class_color, draw_boxes, fitted
from tag2box.errors import InputError
from tag2box.evaluation.matching import IGNORED, KINDS, TRUE, align, outcomes
from tag2box.images import ImageSet
from tag2box.neighbors.search import Neighbors
from tag2box.run.heat_maps import Heat
from tag2box.runtime.executor import map_ordered
from tag2box.windows.search import Windows

Box = NDArray[np.float32]
Boxes = Mapping[int, Box]  # image: its one box
Marks = Sequence[tuple[Box, str]]  # boxes and their colors, the first lowest

# By what they are, told apart with any color vision (Okabe and Ito 2008).
BEFORE, AFTER, TRUTH = "#e69f00", "#009e73", "#ffffff"
NEIGHBORS = 5  # as in the paper's Figure 2
# The contact sheet: so many photos at most; the long side in pixels of few of them, and of more.
SHEET, FEW, SHEET_SIDES = 1500, 400, (176, 96)
SERIAL = 60  # so few are drawn in this process


@dataclass(frozen=True)
class Sizes:
    """How large and how many: `photo`, `small` and `crop` are long sides in pixels, the others numbers."""

    photo: int
    small: int
    crop: int
    rows: int
    photos: int

    @staticmethod
    def for_classes(n: int) -> "Sizes":
        """Fewer and smaller pictures for more classes: of up to 100 they take a few megabytes in all."""
        for most, sizes in (
            (3, (560, 320, 128, 4, 6)),
            (6, (440, 280, 112, 4, 6)),
            (12, (320, 200, 96, 3, 4)),
            (20, (280, 160, 80, 3, 4)),
            (100, (128, 96, 56, 2, 2)),
        ):
            if n <= most:
                return Sizes(*sizes)
        return Sizes(96, 96, 48, 1, 1)


def boxed(
    source: Source, marks: Marks, side: int, alt: str, caption: str = "", good: bool | None = None
) -> Picture | None:
    """The photo with boxes drawn on it; None where it cannot be read any more."""
    try:
        pixels, size = read_small(source, side)
    except InputError:
        return None
    photo = fitted(Image.fromarray(pixels), side)
    draw_boxes(photo, marks, photo.width / size[0])
    return as_picture(photo, alt, caption, good)


def heated(source: Source, heat: Heat, marks: Marks, side: int, alt: str) -> Picture | None:
    """The photo under a map, bright where it is high."""
    try:
        pixels, size = read_small(source, side)
    except InputError:
        return None
    photo = fitted(Image.fromarray(pixels), side)
    scale = photo.width / size[0]
    mixed = with_heat(photo, heat, scale)
    draw_boxes(mixed, marks, scale)
    return as_picture(mixed, alt)


def with_heat(photo: Image.Image, heat: Heat, scale: float) -> Image.Image:
    """The photo, of `scale` times the size that the map speaks of, under it."""
    colors = Image.fromarray(as_colors(heat.values / max(float(heat.values.max(initial=0)), 1e-12)))
    size = max(1, round(heat.width * scale)), max(1, round(heat.height * scale))
    over = photo.copy()
    over.paste(colors.resize(size, Image.Resampling.BILINEAR), (0, 0))
    return Image.blend(photo, over, 0.55)


def cut(source: Source, box: Box, side: int, alt: str) -> Picture | None:
    """What is in the box."""
    try:
        pixels, size = read_small(source, 1024)
    except InputError:
        return None
    photo = Image.fromarray(pixels)
    x1, y1, x2, y2 = (round(float(v) * photo.width / size[0]) for v in box)
    return as_picture(fitted(photo.crop((x1, y1, max(x2, x1 + 1), max(y2, y1 + 1))), side), alt)


def contact_sheet(images: ImageSet, boxes: Detections, workers: int | None = None) -> tuple[Picture, ...]:
    """All photos with boxes, those of the lowest confidence first."""
    rows: dict[int, list[int]] = {}
    for row in np.argsort(boxes.score, kind="stable").tolist():
        rows.setdefault(int(boxes.image[row]), []).append(row)
    shown = list(rows)[:SHEET]
    side = SHEET_SIDES[len(shown) > FEW]
    jobs = []
    for i in shown:
        marks = [(boxes.xyxy[row], class_color(int(boxes.label[row]))) for row in rows[i]]
        named = [(images.classes[int(boxes.label[row])], boxes.score[row]) for row in rows[i][:3]]
        caption = ", ".join(f"{name} {score:.2f}" for name, score in named)
        jobs.append((images.paths[i], marks, side, f"{images.ids[i]}: {caption}", caption))
    few = len(jobs) < SERIAL
    pictures = map_ordered(_boxed, jobs, workers=1 if few else workers, label="drawing all photos")
    return tuple(picture for picture in pictures if picture)


def _boxed(job: tuple[Source, Marks, int, str, str]) -> Picture | None:
    return boxed(*job)


def picks_and_neighbors(
    images: ImageSet,
    windows: Windows,
    neighbors: Neighbors | None,
    cover: Cover | None,
    name: str,
    sizes: Sizes,
) -> tuple[tuple[Picture, ...], ...]:
    """The first selected windows, each with its nearest in other positive images: the paper's Figure 2."""
    if neighbors is None or neighbors.queries is None or cover is None:
        return ()
    positive = np.zeros(len(images), np.bool_)
    positive[images.positives(name)] = True
    place = {int(row): at for at, row in enumerate(neighbors.queries)}
    rows = []
    for number, row in enumerate(cover.selected[: sizes.rows], start=1):
        if int(row) not in place:
            continue
        at, own = place[int(row)], int(windows.image_of(row))
        pairs = zip(neighbors.image[at].tolist(), neighbors.window[at].tolist(), strict=True)
        near = [(i, w) for i, w in pairs if positive[i] and i != own][:NEIGHBORS]
        pick = cut(images.paths[own], windows.xyxy[row], sizes.crop, f"{name}: window {number} of the cover")
        others = (
            cut(images.paths[i], windows.xyxy[w], sizes.crop, f"its neighbor {n} in another image")
            for n, (i, w) in enumerate(near, start=1)
        )
        rows.append(tuple(picture for picture in (pick, *others) if picture))
    return tuple(rows)


def heat_maps(
    images: ImageSet, heat: Callable[[int], Heat] | None, boxes: Boxes, name: str, sizes: Sizes
) -> tuple[Picture, ...]:
    """Photos under their map of the class, `heat(image)`, with the box that comes from it."""
    if heat is None:
        return ()
    alt = "{} under the map of {}"
    pictures = (
        heated(images.paths[i], heat(i), [(boxes[i], AFTER)], sizes.small, alt.format(images.ids[i], name))
        for i in spread(sorted(boxes), max(sizes.photos // 2, 1))
    )
    return tuple(picture for picture in pictures if picture)


def before_and_after(
    images: ImageSet, before: Boxes, after: Boxes, name: str, sizes: Sizes
) -> tuple[Picture, ...]:
    """Photos with the first window and the box after learning, and the IoU of both."""
    pictures = []
    for i in spread(sorted(set(before) | set(after)), sizes.photos):
        marks = [(b[i], color) for b, color in ((before, BEFORE), (after, AFTER)) if i in b]
        known = [
            iou for b in (before, after) if i in b and (iou := overlap(images, i, name, b[i])) is not None
        ]
        caption = f"IoU {' → '.join(f'{iou:.2f}' for iou in known)}" if known else ""
        alt = f"{images.ids[i]} with the box of {name} before and after learning"
        good = known[-1] >= 0.5 if known else None
        pictures.append(boxed(images.paths[i], marks, sizes.small, alt, caption, good))
    return tuple(picture for picture in pictures if picture)


def learned_boxes(
    images: ImageSet, boxes: Boxes, confidence: Mapping[int, float], name: str, sizes: Sizes
) -> tuple[Picture, ...]:
    """Photos learned from with their box, from the surest to the most doubtful in even steps."""
    color, pictures = class_color(images.classes.index(name)), []
    for i in spread(sorted(boxes, key=lambda i: -confidence.get(i, 0.0)), sizes.photos):
        iou = overlap(images, i, name, boxes[i])
        told = [images.ids[i], f"{confidence[i]:.2f}" if i in confidence else ""]
        told.append(f"IoU {iou:.2f}" if iou is not None else "")
        alt = f"{images.ids[i]} with the box of {name}"
        good = None if iou is None else iou >= 0.5
        caption = " · ".join(filter(None, told))
        pictures.append(boxed(images.paths[i], [(boxes[i], color)], sizes.photo, alt, caption, good))
    return tuple(picture for picture in pictures if picture)


def best_and_worst(
    images: ImageSet, detections: Detections | None, name: str, sizes: Sizes
) -> tuple[tuple[Picture, ...], tuple[Picture, ...]]:
    """The surest detections that are right and, one per image, the surest that are wrong; without truth, the
    surest, one per image, and the most doubtful that are shown by default."""
    if detections is None or detections.classes is None or name not in detections.classes:
        return (), ()
    most, label = max(sizes.photos // 2, 1), detections.classes.index(name)
    if images.truth is None:
        part = detections[detections.label == label].above()
        part = part[np.argsort(-part.score, kind="stable")]
        part = part[np.sort(np.unique(part.image, return_index=True)[1])]  # the best of each image
        place = {image: i for i, image in enumerate(images.ids)}
        at = np.array([place.get(part.ids[i], -1) if part.ids else i for i in part.image.tolist()], np.intp)
        part = replace(part[at >= 0], image=at[at >= 0], ids=images.ids)
        sure, doubtful = (
            tuple(filter(None, (_found(images, name, sizes, part[row], "", None, []) for row in chosen)))
            for chosen in (range(len(part))[:most], range(len(part))[most:][: -most - 1 : -1])
        )
        return sure, doubtful
    aligned, objects, classes = align(detections.above(), images)
    label, outcome = classes.index(name), outcomes(aligned, objects)
    order = np.argsort(-aligned.score, kind="stable")
    of_class = order[aligned.label[order] == label]
    right = of_class[outcome[of_class] == TRUE]
    wrong = of_class[(outcome[of_class] != TRUE) & (outcome[of_class] != IGNORED)]
    wrong = wrong[np.sort(np.unique(aligned.image[wrong], return_index=True)[1])]  # one per image
    out: list[tuple[Picture, ...]] = []
    for chosen in (right[:most].tolist(), wrong[:most].tolist()):
        pictures = []
        for row in chosen:
            true = objects.xyxy[(objects.image == aligned.image[row]) & (objects.label == label)]
            what = KINDS.get(int(outcome[row]), "right")
            marks = [(box, TRUTH) for box in true]
            pictures.append(_found(images, name, sizes, aligned[row], what, what == "right", marks))
        out.append(tuple(filter(None, pictures)))
    return out[0], out[1]


def _found(
    images: ImageSet,
    name: str,
    sizes: Sizes,
    box: Detections,
    what: str,
    good: bool | None,
    true: Marks,
) -> Picture | None:
    """A photo with one detection, and the true boxes below it."""
    image = images.ids[box.image[0]]
    marks = [*true, (box.xyxy[0], class_color(int(box.label[0])))]
    caption = " · ".join(filter(None, [image, f"{box.score[0]:.2f}", what]))
    alt = f"{image} with a detection of {name}"
    return boxed(images.paths[box.image[0]], marks, sizes.photo, alt, caption, good)


def overlap(images: ImageSet, image: int, name: str, box: Box) -> float | None:
    """IoU with the nearest true object of the class; None without truth."""
    if images.truth is None:
        return None
    of_class = (images.truth.image == image) & (images.truth.label == images.classes.index(name))
    return float(iou_matrix(np.asarray(box)[None], images.truth.xyxy[of_class]).max(initial=0))


def spread(items: Sequence[int], n: int) -> list[int]:
    """At most n of the items, from the first to the last in even steps: not the n prettiest."""
    if len(items) <= n:
        return list(items)
    return [items[round(at)] for at in np.linspace(0, len(items) - 1, n)]
