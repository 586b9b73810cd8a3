"""Photos through the student's graph: what `tag2box detect --student` does."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import READING_SIDE, Source, read_small
from tag2box.description.photos import Photos
from tag2box.detection.detections import Detections
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.student.graph import student_graph
from tag2box.student.record import Student


@stage("detections", version=1)
def detect_by_student(
    photos: Photos,
    student: Student,
    min_score: float,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Detections:
    """What the student finds in many photos; `image` is their place among all."""
    job = partial(_detect, _graph(student), student.classes, min_score)
    parts = map_ordered(job, photos.paths, workers=workers, progress=progress, label="detections")
    return Detections.concatenate(
        replace(part, image=part.image + photos.first + i) for i, part in enumerate(parts)
    )


def student_detector(
    content: bytes, classes: tuple[str, ...], *, threads: int = 1
) -> Callable[[Source], Detections]:
    """The graph of a student as a function of one photo."""
    compiled = _compiled(content, threads)

    def detect(source: Source) -> Detections:
        photo, size = read_small(source, READING_SIDE)
        result = compiled(photo)
        boxes, score, label = (np.array(result[k]) for k in range(3))
        return _detections(boxes * _stretch(photo, size), score, label, classes)

    return detect


def _detect(content: bytes, classes: tuple[str, ...], min_score: float, path: Path) -> Detections:
    found = student_detector(content, classes)(path)
    return found[found.score >= min_score]


@lru_cache(maxsize=1)
def _graph(student: Student) -> bytes:
    return student_graph(student, {})


@lru_cache(maxsize=2)
def _compiled(content: bytes, threads: int) -> Any:
    from tag2box.networks.openvino_engine import compiled_graph

    return compiled_graph(content, threads)


def _stretch(photo: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.float32]:
    """From the pixels of the photo as it was read to those of its file, for x, y, x, y."""
    h, w = photo.shape[:2]
    return np.tile(np.array([size[0] / w, size[1] / h], np.float32), 2)


def _detections(
    boxes: NDArray[np.float32], score: NDArray[np.float32], label: NDArray[np.int64], classes: tuple[str, ...]
) -> Detections:
    """By class, best first, as a detector has them."""
    order = np.lexsort((-score, label))
    image = np.zeros(len(order), np.intp)
    return Detections(image, boxes[order], score[order].astype(np.float64), label[order], classes=classes)
