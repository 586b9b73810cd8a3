"""Detections as labels of FiftyOne."""

from pathlib import Path
from typing import Any

from tag2box.data.decoding import image_size
from tag2box.data.formats.fiftyone_samples import sample_ids
from tag2box.detection.detections import Detections
from tag2box.errors import InputError

__all__ = ["add_to_fiftyone"]


def add_to_fiftyone(found: Detections, samples: Any, field: str) -> None:
    """Set `field` of the samples to the boxes; see `Detections.to_fiftyone`."""
    try:
        import fiftyone
    except ImportError as missing:
        raise InputError("to_fiftyone needs FiftyOne: pip install fiftyone") from missing
    ids = sample_ids(found.ids, samples) if found.ids is not None else list(samples.values("id"))
    if found.image.max(initial=-1) >= len(ids):
        raise InputError(f"detections in {found.image.max() + 1} images, but there are {len(ids)} samples")
    files = dict(zip(*samples.values(["id", "filepath"]), strict=True))
    labels = {}
    for i, sample in enumerate(ids):
        part = found[found.image == i]
        size = image_size(Path(files[sample])) if len(part) else (1, 1)
        boxes = [
            fiftyone.Detection(
                label=_name(found, label), bounding_box=_relative(xyxy, size), confidence=score
            )
            for label, xyxy, score in zip(
                part.label.tolist(), part.xyxy.tolist(), part.score.tolist(), strict=True
            )
        ]
        labels[sample] = fiftyone.Detections(detections=boxes)
    samples.set_values(field, labels, key_field="id")


def _name(found: Detections, label: int) -> str:
    return found.classes[label] if found.classes is not None else str(label)


def _relative(xyxy: list[float], size: tuple[int, int]) -> list[float]:
    """x, y, width, height as shares of the image."""
    x1, y1, x2, y2 = xyxy
    return [x1 / size[0], y1 / size[1], (x2 - x1) / size[0], (y2 - y1) / size[1]]
