"""`Corrections`: what was said of the photos of an `ImageSet`, as arrays. Training takes these."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.log import warn
from tag2box.corrections.state import PhotoCorrections, State
from tag2box.images import ImageSet


@dataclass(frozen=True)
class Corrections:
    """Judged boxes, and what is known of photos as a whole.

    image: (n,) index of the box's photo; xyxy: (n, 4) float32; label: (n,) index of its class; right: (n,)
    whether it was accepted, or else rejected. reviewed: (n_images,) whether all objects of the photo have an
    accepted box. tags: (n_images, n_classes) int8, the tags with all that the corrections say of them.
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    label: NDArray[np.intp]
    right: NDArray[np.bool_]
    reviewed: NDArray[np.bool_]
    tags: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.image)

    def key(self) -> str:
        """A hash of everything."""
        digest = hashlib.sha256()
        for array in (self.image, self.xyxy, self.label, self.right, self.reviewed, self.tags):
            digest.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def collect(state: State, images: ImageSet, contents: Sequence[str]) -> Corrections | None:
    """What `state` says of these images and classes; None where it says nothing.

    contents: the SHA-256 of each photo. Where photos or classes are others than those that were corrected, a
    warning says so.
    """
    warn(state.left_out(images, contents))
    tags, reviewed = images.tags.copy(), np.zeros(len(images), np.bool_)
    label = {name: c for c, name in enumerate(images.classes)}
    rows: list[tuple[int, tuple[float, ...], int, bool]] = []
    for i, content in enumerate(contents):
        if (photo := state.photos.get(content)) is None:
            continue
        reviewed[i] = photo.state == "reviewed"
        tags[i] = _tags(photo, tags[i], label)
        for _, box in sorted(photo.boxes.items()):
            if box.name in label:
                rows.append((i, box.xyxy, label[box.name], box.state == "accepted"))
    if not rows and not reviewed.any() and np.array_equal(tags, images.tags):
        return None
    image, xyxy, label_of, right = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Corrections(
        np.array(image, np.intp),
        np.array(xyxy, np.float32).reshape(-1, 4),
        np.array(label_of, np.intp),
        np.array(right, np.bool_),
        reviewed,
        tags,
    )


def _tags(photo: PhotoCorrections, before: NDArray[np.int8], label: dict[str, int]) -> NDArray[np.int8]:
    """The tags of one photo: those that were set, then what its boxes say, then what they were."""
    after = before.copy()
    if photo.state == "reviewed":
        after[:] = -1
    for box in photo.accepted():
        if box.name in label:
            after[label[box.name]] = 1
    for name, tag in photo.tags.items():
        if name in label:
            after[label[name]] = tag
    return after
