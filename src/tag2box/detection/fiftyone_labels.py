"""Detections as labels of FiftyOne."""

from pathlib import Path
from typing import Any

import numpy as np

from tag2box.boxes import as_xywh
from tag2box.data.decoding import image_size
from tag2box.data.formats.fiftyone_samples import sample_ids
from tag2box.detection.detections import Detections
from tag2box.errors import InputError


def add_to_fiftyone(detections: Detections, samples: Any, field: str) -> None:
    """Set `field` of the samples to the boxes; see `Detections.to_fiftyone`."""
    try:
        import fiftyone
    except ImportError as missing:
        raise InputError("to_fiftyone needs FiftyOne: pip install fiftyone") from missing
    ids = sample_ids(detections.ids, samples) if detections.ids is not None else list(samples.values("id"))
    if detections.image.max(initial=-1) >= len(ids):
        raise InputError(
            f"detections in {detections.image.max() + 1} images, but there are {len(ids)} samples"
        )
    files = dict(zip(*samples.values(["id", "filepath"]), strict=True))
    names = detections.classes or range(detections.label.max(initial=-1) + 1)
    labels = {}
    for i, sample in enumerate(ids):
        part = detections[detections.image == i]
        size = image_size(Path(files[sample])) if len(part) else (1, 1)
        shares = as_xywh(part.xyxy) / np.array([*size, *size])
        boxes = [
            fiftyone.Detection(label=str(names[label]), bounding_box=box, confidence=score)
            for label, box, score in zip(part.label, shares.tolist(), part.score.tolist(), strict=True)
        ]
        labels[sample] = fiftyone.Detections(detections=boxes)
    samples.set_values(field, labels, key_field="id")
