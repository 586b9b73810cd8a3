"""Corrections from other tools and for them: COCO, Label Studio, CVAT."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.corrections import CorrectionLog, check_inside, new_id
from tag2box.data.decoding import image_size
from tag2box.data.formats import cvat
from tag2box.data.reading import read_images
from tag2box.errors import InputError
from tag2box.exports.writing import write_detections
from tag2box.run.corrections import box_id, corrected_boxes, is_replaced
from tag2box.run.folder import RunFolder
from tag2box.run.same_photos import PhotoNames
from tag2box.runtime.files import write_whole

FORMATS = ("coco", "labelstudio")


@dataclass(frozen=True)
class Imported:
    """How much came in: photos and boxes; left out: photos and classes that the run does not have."""

    photos: int
    boxes: int
    unknown_photos: int
    unknown_classes: tuple[str, ...]


def import_corrections(run: RunFolder, file: Path, *, reviewed: bool = True) -> Imported:
    """Take the boxes of `file` for accepted ones. reviewed: photos that have some are reviewed as a whole.

    What the run's own log says of other boxes stays. The same file twice changes nothing.
    """
    known, place = PhotoNames(run.images), {name: i for i, name in enumerate(run.images.ids)}
    sizes = run.result("described").windows.sizes.tolist()
    events: list[dict[str, Any]] = []
    photos: set[str] = set()
    unknown: Counter[str] = Counter()
    missing = 0
    for name, boxes in _read(run, file):
        photo = known.find(name)
        missing += photo is None
        unknown.update(kind for kind, _ in boxes if kind not in run.images.classes)
        known_boxes = [box for box in boxes if box[0] in run.images.classes]
        if photo is None or not known_boxes:
            continue
        photos.add(photo)
        identity = _identity(run, place[photo])
        for kind, xyxy in known_boxes:
            check_inside(photo, xyxy, sizes[place[photo]])
            events.append(identity | _accepted(identity["sha256"], kind, xyxy))
        if reviewed:
            events.append(identity | {"set": "photo", "state": "reviewed"})
    now = round(time.time(), 3)
    log = CorrectionLog(run.folder)
    log.append({**event, "id": new_id(), "time": now, "by": "import"} for event in events)
    boxes_in = sum(event["set"] == "box" for event in events)
    return Imported(len(photos), boxes_in, missing, tuple(sorted(unknown)))


def _identity(run: RunFolder, i: int) -> dict[str, str]:
    """By what an event knows photo i."""
    photo, content = run.images.ids[i], run.contents[i]
    if is_replaced(run.images.paths[i], content):
        raise InputError(f"photo {photo!r} was replaced since the run has learned from it: run again first")
    return {"photo": photo, "sha256": content}


def _accepted(content: str, kind: str, xyxy: Any) -> dict[str, Any]:
    place = np.asarray(xyxy, np.float32)
    event = {"set": "box", "class": kind, "state": "accepted", "xyxy": place.tolist()}
    return {**event, "box": box_id(content, kind, place)}


def _read(run: RunFolder, file: Path) -> list[cvat.Labelled]:
    """The images of the file, by their names there, and the boxes of each."""
    if file.suffix.lower() == ".xml":
        return cvat.read_boxes(file)
    folder = os.path.commonpath([path.parent.absolute() for path in run.images.paths])
    given = read_images(folder, file, on_error="skip")
    boxes = given.truth
    if boxes is None:
        raise InputError(f"{file} has no boxes: expected COCO, Label Studio or CVAT with some")
    rows = zip(boxes.image, boxes.label, boxes.xyxy.tolist(), boxes.difficult, strict=True)
    out: list[cvat.Labelled] = [(name, []) for name in given.ids]
    for image, label, (x1, y1, x2, y2), crowd in rows:
        if not crowd:
            out[image][1].append((given.classes[label], (x1, y1, x2, y2)))
    return out


def export_corrections(run: RunFolder, target: Path, kind: str) -> tuple[int, int]:
    """Write the accepted boxes of all photos that were reviewed or have one; how many photos and boxes."""
    corrected = corrected_boxes(run)
    accepted = corrected.detections[corrected.reviewed]
    chosen = np.union1d(accepted.image, np.flatnonzero(corrected.whole)).tolist()
    if not chosen:
        raise InputError(f"{run.folder} has no corrections yet: `tag2box review {run.folder}` makes some")
    if kind in FORMATS:
        write_detections(accepted, run.images.take(chosen), target, kind)
    elif kind == "cvat":
        parts = [accepted[accepted.image == i] for i in chosen]
        names = [f"{run.images.ids[i]}{run.images.paths[i].suffix}" for i in chosen]
        sizes = [image_size(run.images.paths[i]) for i in chosen]
        boxes = [
            [(run.images.classes[c], xyxy) for c, xyxy in zip(part.label, part.xyxy.tolist(), strict=True)]
            for part in parts
        ]
        write_whole(target, cvat.document(zip(names, sizes, boxes, strict=True)))
    else:
        raise InputError(f"no format {kind!r} for corrections: there are {', '.join(FORMATS)} and cvat")
    return len(chosen), len(accepted)
