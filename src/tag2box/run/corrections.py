"""What a run found, and what was said of it: the boxes of the training photos as they stand now."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import Box, Photo, State, read_state
from tag2box.detection.detections import Detections
from tag2box.run.folder import RunFolder, mined_windows

__all__ = ["SAME", "Corrected", "box_id", "corrected_boxes", "still_open"]

# A found box that overlaps an accepted one of its class by more than this is that object.
SAME = 0.5


@dataclass(frozen=True)
class Corrected:
    """detections: accepted boxes, and those found that nobody has judged; reviewed: (n,) which were accepted.

    photos: how many photos were reviewed as a whole.
    """

    detections: Detections
    reviewed: NDArray[np.bool_]
    photos: int

    def __str__(self) -> str:
        if not self.reviewed.any() and not self.photos:
            return "None of them is reviewed."
        return f"Reviewed: {int(self.reviewed.sum())} of these boxes, {self.photos} photos as a whole."

    def to_dict(self) -> dict[str, int]:
        """The same for JSON."""
        return {"reviewed_boxes": int(self.reviewed.sum()), "reviewed_photos": self.photos}


def box_id(photo: str, name: str, xyxy: NDArray[np.float32]) -> str:
    """The id of a found box: the same box found again in another run has the same one."""
    place = ",".join(f"{value:.1f}" for value in xyxy.tolist())
    return hashlib.sha256(f"{photo}\n{name}\n{place}".encode()).hexdigest()[:16]


def still_open(photo: Photo, key: str, name: str, xyxy: NDArray[np.float32]) -> bool:
    """Whether nothing was said of that found box, of the object in it, or of the photo as a whole."""
    if photo.state == "reviewed" or key in photo.boxes or photo.tags.get(name, 1) == -1:
        return False
    accepted = [box.xyxy for box in photo.accepted() if box.name == name]
    return not accepted or iou_matrix(xyxy[None], np.array(accepted, np.float32)).max() <= SAME


def corrected_boxes(run: RunFolder, state: State | None = None) -> Corrected:
    """The boxes of the run's photos: accepted ones first, then the found ones that nobody has judged.

    An accepted box scores one more than the best found one.
    """
    state = read_state(run.folder) if state is None else state
    found, images = mined_windows(run), run.images
    keep = np.ones(len(found), np.bool_)
    for n, (i, c) in enumerate(zip(found.image.tolist(), found.label.tolist(), strict=True)):
        if (photo := state.photos.get(images.ids[i])) is not None:
            name = images.classes[c]
            keep[n] = still_open(photo, box_id(images.ids[i], name, found.xyxy[n]), name, found.xyxy[n])
    accepted = [
        (i, box)
        for i, name in enumerate(images.ids)
        if name in state.photos
        for box in state.photos[name].accepted()
        if box.name in images.classes
    ]
    both = Detections.concatenate([_detections(accepted, found), found[keep]])
    reviewed = np.arange(len(both)) < len(accepted)
    done = sum(state.photo(name).state == "reviewed" for name in images.ids)
    return Corrected(both, reviewed, done)


def _detections(boxes: list[tuple[int, Box]], found: Detections) -> Detections:
    classes = found.classes or ()
    return Detections(
        image=np.array([i for i, _ in boxes], np.intp),
        xyxy=np.array([box.xyxy for _, box in boxes], np.float32).reshape(-1, 4),
        score=np.full(len(boxes), found.score.max(initial=0.0) + 1),
        label=np.array([classes.index(box.name) for _, box in boxes], np.intp),
        ids=found.ids,
        classes=found.classes,
    )
