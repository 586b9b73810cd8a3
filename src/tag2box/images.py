"""`ImageSet`: which images there are, and which classes each of them is tagged with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError

__all__ = ["ImageSet", "Truth", "read_images"]


@dataclass(frozen=True)
class Truth:
    """True boxes, for evaluation only: no training code reads them.

    image: (n,) index of the box's image; xyxy: (n, 4); label: (n,) index of its class; difficult: (n,) bool.
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    label: NDArray[np.intp]
    difficult: NDArray[np.bool_]


@dataclass(frozen=True)
class ImageSet:
    """Images and their tags: +1 the class is in the image, -1 it is not, 0 unknown.

    ids: one unique name per image; paths: its file; tags: (n_images, n_classes) int8; classes: their names.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    tags: NDArray[np.int8]
    classes: tuple[str, ...]
    truth: Truth | None = None

    def __post_init__(self) -> None:
        if not (len(self.ids) == len(self.paths) == len(self.tags)):
            raise InputError(
                f"an image set needs as many ids, paths and rows of tags: "
                f"{len(self.ids)}, {len(self.paths)}, {len(self.tags)}"
            )
        if self.tags.shape != (len(self.ids), len(self.classes)):
            raise InputError(f"tags must be (n_images, n_classes), but the shape is {self.tags.shape}")
        if len(set(self.ids)) != len(self.ids):
            raise InputError("image ids must be unique")

    def __len__(self) -> int:
        return len(self.ids)

    def positives(self, name: str) -> NDArray[np.intp]:
        """Indices of the images tagged +1 for class `name`."""
        return np.flatnonzero(self.tags[:, self._column(name)] == 1)

    def negatives(self, name: str) -> NDArray[np.intp]:
        """Indices of the images tagged -1 for class `name`."""
        return np.flatnonzero(self.tags[:, self._column(name)] == -1)

    def _column(self, name: str) -> int:
        if name not in self.classes:
            raise InputError(f"no class {name!r} here: the classes are {', '.join(self.classes)}")
        return self.classes.index(name)


def read_images(path: str | Path, tags: str | Path | None = None, split: str | None = None) -> ImageSet:
    """The images and tags below `path`. Read today: the VOC devkit's layout (`split` names its list)."""
    from tag2box.formats import voc

    root = Path(path)
    if tags is not None:
        raise InputError("tag files are not read yet: give a folder in the layout of the VOC devkit")
    if not root.is_dir():
        raise InputError(f"{root} is not a folder: give the one that holds JPEGImages and ImageSets")
    if not (root / "ImageSets" / "Main").is_dir():
        raise InputError(f"{root} holds no ImageSets/Main: expected the layout of the VOC devkit")
    return voc.read(root, split or "trainval")
