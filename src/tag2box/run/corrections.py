"""What a run found, and what was said of it: the boxes of the training photos as they stand now."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections import Box, PhotoCorrections, State, read_state, warn
from tag2box.data.remote import RemotePath
from tag2box.detection.config import MIN_SCORE
from tag2box.detection.detections import Detections
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime.files import content_hash

# A found box that overlaps an accepted one of its class by more than this is that object.
SAME = 0.5


@dataclass(frozen=True)
class CorrectedBoxes:
    """detections: accepted boxes, and those found that nobody has judged; reviewed: (n,) which were accepted.

    whole: (n_images,) which photos were reviewed as a whole.
    """

    detections: Detections
    reviewed: NDArray[np.bool_]
    whole: NDArray[np.bool_]

    @property
    def photos(self) -> int:
        """How many photos were reviewed as a whole."""
        return int(self.whole.sum())

    @property
    def worth(self) -> NDArray[np.bool_]:
        """Which are worth writing: the best of each tag of a photo, and others of enough confidence."""
        boxes = self.detections
        order = np.lexsort((-boxes.score, boxes.label, boxes.image))
        pairs = np.stack([boxes.image, boxes.label], axis=1)[order]
        keep = boxes.score >= MIN_SCORE
        keep[order[np.unique(pairs, axis=0, return_index=True)[1]]] = True
        return np.asarray(keep)

    def __str__(self) -> str:
        if not self.reviewed.any() and not self.photos:
            return "None of them is reviewed."
        return f"Reviewed: {int(self.reviewed.sum())} of these boxes, {self.photos} photos as a whole."

    def to_dict(self) -> dict[str, int]:
        """The same for JSON."""
        return {"reviewed_boxes": int(self.reviewed.sum()), "reviewed_photos": self.photos}


def box_id(content: str, name: str, xyxy: NDArray[np.float32]) -> str:
    """The id of a found box: the same box found again in another run has the same one.

    content: the SHA-256 of its photo.
    """
    place = ",".join(f"{value:.1f}" for value in xyxy.tolist())
    return hashlib.sha256(f"{content}\n{name}\n{place}".encode()).hexdigest()[:16]


def still_open(photo: PhotoCorrections, key: str, name: str, xyxy: NDArray[np.float32]) -> bool:
    """Whether nothing was said of that found box, of the object in it, or of the photo as a whole."""
    if photo.state == "reviewed" or key in photo.boxes or photo.tags.get(name, 1) == -1:
        return False
    accepted = [box.xyxy for box in photo.accepted() if box.name == name]
    return not accepted or bool(iou_matrix(xyxy[None], np.array(accepted, np.float32)).max() <= SAME)


def is_replaced(path: Path, content: str) -> bool:
    """Whether a file holds another photo than that with this SHA-256; where it is gone, nobody knows."""
    try:
        return not isinstance(path, RemotePath) and content_hash(path) != content
    except OSError:
        return False


def contents_now(run: RunFolder, state: State) -> tuple[str, ...]:
    """The SHA-256 of the photos as the run learned from them; "" where a corrected one was replaced since."""
    pairs = zip(run.images.paths, run.contents, strict=True)
    return tuple("" if c in state.photos and is_replaced(path, c) else c for path, c in pairs)


def read_corrections(run: RunFolder) -> tuple[State, tuple[str, ...]]:
    """What was said, and the SHA-256 of the photos; a warning says what is damaged or of other photos."""
    state = read_state(run.folder)
    contents = contents_now(run, state)
    warn(state.left_out(run.images, contents))
    return state, contents


def corrected_boxes(run: RunFolder) -> CorrectedBoxes:
    """The boxes of the run's photos: accepted ones first, then the found ones that nobody has judged.

    An accepted box has a confidence of 1.
    """
    state, contents = read_corrections(run)
    mined, images = mined_windows(run), run.images
    keep = np.ones(len(mined), np.bool_)
    for n, (i, c) in enumerate(zip(mined.image.tolist(), mined.label.tolist(), strict=True)):
        if (photo := state.photos.get(contents[i])) is not None:
            name = images.classes[c]
            keep[n] = still_open(photo, box_id(contents[i], name, mined.xyxy[n]), name, mined.xyxy[n])
    accepted = [
        (i, box)
        for i, content in enumerate(contents)
        for box in state.photo(content).accepted()
        if box.name in images.classes
    ]
    both = Detections.concatenate([_detections(accepted, mined), mined[keep]])
    reviewed = np.arange(len(both)) < len(accepted)
    done = np.array([state.photo(content).state == "reviewed" for content in contents], np.bool_)
    return CorrectedBoxes(both, reviewed, done)


def _detections(boxes: list[tuple[int, Box]], mined: Detections) -> Detections:
    classes = mined.classes or ()
    return Detections(
        image=np.array([i for i, _ in boxes], np.intp),
        xyxy=np.array([box.xyxy for _, box in boxes], np.float32).reshape(-1, 4),
        score=np.ones(len(boxes)),
        label=np.array([classes.index(box.name) for _, box in boxes], np.intp),
        ids=mined.ids,
        classes=mined.classes,
    )
