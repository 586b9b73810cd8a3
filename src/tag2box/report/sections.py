"""The pictures of one class: selected windows and their neighbors, maps, boxes, best and worst detections."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.cover.greedy import Cover
from tag2box.detection.detections import Detections
from tag2box.detection.drawing import Picture
from tag2box.evaluation.matching import IGNORED, KINDS, TRUE, align, outcomes
from tag2box.images import ImageSet
from tag2box.neighbors.search import Neighbors
from tag2box.report.thumbnails import AFTER, BEFORE, DETECTED, MINED, TRUTH, Thumbnails
from tag2box.run.heat_maps import Heat
from tag2box.windows.search import Windows

Box = NDArray[np.float32]
NEIGHBORS = 5  # as in the paper's Figure 2


def picks_and_neighbors(
    images: ImageSet,
    windows: Windows,
    neighbors: Neighbors | None,
    cover: Cover | None,
    name: str,
    thumbnails: Thumbnails,
) -> tuple[tuple[Picture, ...], ...]:
    """The first selected windows, each with its nearest in other positive images: the paper's Figure 2."""
    if neighbors is None or neighbors.queries is None or cover is None:
        return ()
    positive = np.zeros(len(images), np.bool_)
    positive[images.positives(name)] = True
    place = {int(row): at for at, row in enumerate(neighbors.queries)}
    rows = []
    for number, row in enumerate(cover.selected[: thumbnails.rows], start=1):
        if int(row) not in place:
            continue
        at = place[int(row)]
        own = int(windows.image_of(row))
        near = _nearest_positives(neighbors, at, own, positive)[:NEIGHBORS]
        pick = thumbnails.cut(images.paths[own], windows.xyxy[row], f"{name}: window {number} of the cover")
        rows.append(
            (
                pick,
                *(
                    thumbnails.cut(images.paths[i], windows.xyxy[w], f"its neighbor {n} in another image")
                    for n, (i, w) in enumerate(near, start=1)
                ),
            )
        )
    return tuple(rows)


def _nearest_positives(
    neighbors: Neighbors, at: int, own: int, positive: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """(image, window) of the neighbors of query `at` in other positive images, nearest first."""
    pairs = zip(neighbors.image[at].tolist(), neighbors.window[at].tolist(), strict=True)
    return [(image, window) for image, window in pairs if positive[image] and image != own]


def heat_maps(
    images: ImageSet,
    windows: Windows,
    heat: Callable[[int], Heat] | None,
    boxes: Mapping[int, Box],
    name: str,
    thumbnails: Thumbnails,
) -> tuple[Picture, ...]:
    """Photos under their map of the class, `heat(image)`, with the box that came of it."""
    if heat is None:
        return ()
    shown = [i for i in images.positives(name).tolist() if windows.counts[i]]
    pictures = []
    for i in _spread(shown, max(thumbnails.photos // 2, 1)):
        drawn = [(boxes[i], AFTER)] if i in boxes else []
        alt = f"{images.ids[i]} under the map of {name}"
        pictures.append(thumbnails.heated(images.paths[i], heat(i), drawn, alt))
    return tuple(pictures)


def before_and_after(
    images: ImageSet,
    before: Mapping[int, Box],
    after: Mapping[int, Box],
    name: str,
    thumbnails: Thumbnails,
    mined: Mapping[int, Box] | None = None,
) -> tuple[Picture, ...]:
    """Photos with the first window and the box after learning, and the IoU of both.

    mined: windows of negative mining, drawn below them: the paper's Figure 5.
    """
    drawn_boxes = ((mined or {}, MINED), (before, BEFORE), (after, AFTER))
    pictures = []
    for i in _spread(sorted(set(before) | set(after)), thumbnails.photos):
        drawn = [(boxes[i], color) for boxes, color in drawn_boxes if i in boxes]
        overlaps = [_overlap(images, i, name, boxes[i]) for boxes in (before, after) if i in boxes]
        known = [overlap for overlap in overlaps if overlap is not None]
        caption = f"IoU {' → '.join(f'{o:.2f}' for o in known)}" if known else ""
        alt = f"{images.ids[i]} with the box of {name} before and after learning"
        pictures.append(
            thumbnails.boxed(images.paths[i], drawn, alt, caption, known[-1] >= 0.5 if known else None)
        )
    return tuple(pictures)


def best_and_worst(
    images: ImageSet, detections: Detections | None, name: str, thumbnails: Thumbnails
) -> dict[str, tuple[Picture, ...]]:
    """The surest detections that are right and, one per image, the surest that are wrong; without truth, the
    surest and the least sure of those that are best in an image tagged with the class."""
    if detections is None or detections.classes is None or name not in detections.classes:
        return {}
    if images.truth is None:
        return _without_truth(images, detections, name, thumbnails)
    aligned, objects, classes = align(detections, images)
    label = classes.index(name)
    outcome = outcomes(aligned, objects)
    order = np.argsort(-aligned.score, kind="stable")
    of_class = order[aligned.label[order] == label]

    def shown(rows: NDArray[np.intp], good: bool) -> tuple[Picture, ...]:
        pictures = []
        for row in rows[: thumbnails.photos]:
            i = int(aligned.image[row])
            true = objects.xyxy[(objects.image == i) & (objects.label == label)]
            drawn = [*((box, TRUTH) for box in true), (aligned.xyxy[row], DETECTED)]
            what = "right" if good else KINDS[int(outcome[row])]
            pictures.append(
                _find(images, i, drawn, f"{aligned.score[row]:.2f}, {what}", name, thumbnails, good)
            )
        return tuple(pictures)

    right = of_class[outcome[of_class] == TRUE]
    wrong = of_class[(outcome[of_class] != TRUE) & (outcome[of_class] != IGNORED)]
    one_each = np.sort(np.unique(aligned.image[wrong], return_index=True)[1])
    return {"best": shown(right, good=True), "worst": shown(wrong[one_each], good=False)}


def _without_truth(
    images: ImageSet, detections: Detections, name: str, thumbnails: Thumbnails
) -> dict[str, tuple[Picture, ...]]:
    assert detections.classes is not None
    of_class = detections[detections.label == detections.classes.index(name)]
    number = {image: i for i, image in enumerate(images.ids)}
    place = (
        of_class.image
        if of_class.ids is None
        else np.array([number.get(of_class.ids[i], -1) for i in of_class.image], int)
    )
    order = np.argsort(-of_class.score, kind="stable")
    order = order[place[order] >= 0]
    first = order[
        np.sort(np.unique(place[order], return_index=True)[1])
    ]  # the best of each image, surest first

    def shown(rows: Sequence[int]) -> tuple[Picture, ...]:
        return tuple(
            _find(
                images,
                int(place[r]),
                [(of_class.xyxy[r], DETECTED)],
                f"{of_class.score[r]:.2f}",
                name,
                thumbnails,
            )
            for r in rows
        )

    column = images.classes.index(name) if name in images.classes else None
    tagged = first if column is None else first[images.tags[place[first], column] != -1]
    return {
        "best": shown(first[: thumbnails.photos].tolist()),
        "worst": shown(tagged[: -thumbnails.photos - 1 : -1].tolist()),
    }


def _find(
    images: ImageSet,
    image: int,
    drawn: Sequence[tuple[Box, str]],
    caption: str,
    name: str,
    thumbnails: Thumbnails,
    good: bool | None = None,
) -> Picture:
    alt = f"{images.ids[image]} with a detection of {name}"
    return thumbnails.boxed(images.paths[image], drawn, alt, caption, good)


def _overlap(images: ImageSet, image: int, name: str, box: Box) -> float | None:
    """IoU with the nearest true object of the class; None without truth."""
    if images.truth is None:
        return None
    of_class = (images.truth.image == image) & (images.truth.label == images.classes.index(name))
    return float(iou_matrix(np.asarray(box)[None], images.truth.xyxy[of_class]).max(initial=0))


def _spread(items: Sequence[int], n: int) -> list[int]:
    """At most n of the items, from the first to the last in even steps: not the n prettiest."""
    if len(items) <= n:
        return list(items)
    return [items[round(at)] for at in np.linspace(0, len(items) - 1, n)]
