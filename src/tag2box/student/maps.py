"""`StudentMaps`: what the student's trunk sees in photos, each of them as it is and mirrored."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import READING_SIDE, read_small
from tag2box.description.photos import Photos
from tag2box.description.record import Maps
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.student.graph import map_graph


@stored
@dataclass(frozen=True)
class StudentMaps:
    """The early and the last map of photos in half precision, two of each photo: as it is, and mirrored."""

    ROWS: ClassVar[tuple[str, ...]] = ("early.X", "last.X")

    early: Maps
    last: Maps

    def __len__(self) -> int:
        return len(self.early.shape) // 2

    def of(self, i: int, mirrored: bool) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Both maps of photo i, (h, w, c)."""
        return self.early[2 * i + mirrored], self.last[2 * i + mirrored]

    @classmethod
    def concatenate(cls, parts: Sequence["StudentMaps"]) -> "StudentMaps":
        """The maps of several sets of photos."""
        return cls(
            Maps.concatenate([part.early for part in parts]), Maps.concatenate([part.last for part in parts])
        )


@stage("student_maps", version=1)
def see_photos(
    photos: Photos, side: int, *, workers: int | None = 1, progress: Progress = silent
) -> StudentMaps:
    """What the trunk sees in photos whose long side is resized to `side`."""
    job = partial(_see, side)
    seen = map_ordered(job, photos.paths, workers=workers, progress=progress, label="student's maps")
    return StudentMaps.concatenate(list(seen))


def _see(side: int, path: Path) -> StudentMaps:
    photo, _ = read_small(path, READING_SIDE)
    pairs = [_trunk(side)(np.ascontiguousarray(view)) for view in (photo, photo[:, ::-1])]
    early, last = (
        Maps.concatenate([Maps.of_image(_channels_last(pair[k])) for pair in pairs]) for k in (0, 1)
    )
    return StudentMaps(early, last)


def _channels_last(map_: NDArray[np.float32]) -> NDArray[np.float16]:
    return np.ascontiguousarray(map_[0].transpose(1, 2, 0), dtype=np.float16)


@lru_cache(maxsize=2)
def _trunk(side: int) -> Any:
    from tag2box.networks.openvino_engine import compiled_graph

    return compiled_graph(map_graph(side))
