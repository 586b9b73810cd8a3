"""COCO's average precision, computed by pycocotools: the reference itself, not a copy of it."""

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import as_xywh
from tag2box.detection.detections import Detections
from tag2box.errors import InputError, install_command
from tag2box.images import Truth

# pycocotools' twelve figures, in its order.
SUMMARY = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


def coco_ap(
    detections: Detections, objects: Truth, n_classes: int
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """AP per class and the summary, both pycocotools' own; what it marks -1 (nothing there) is left out."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as missing:
        raise InputError(f'metric "coco" needs pycocotools: {install_command("coco")}') from missing
    truth, result = COCO(), COCO()
    images = np.union1d(detections.image, objects.image).tolist()
    for side, rows in ((truth, _rows(objects)), (result, _rows(detections))):
        side.dataset = {
            "images": [{"id": i} for i in images],
            "categories": [{"id": c} for c in range(n_classes)],
            "annotations": rows,
        }
    with redirect_stdout(io.StringIO()):  # pycocotools prints as it goes
        truth.createIndex()
        result.createIndex()
        judge = COCOeval(truth, result, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    precision = judge.eval["precision"][:, :, :, 0, -1]  # (overlap, recall, class), all sizes, 100 detections
    ap = np.array([p[p > -1].mean() if (p > -1).any() else 0.0 for p in precision.transpose(2, 0, 1)])
    return ap, {name: float(x) for name, x in zip(SUMMARY, judge.stats, strict=True) if x > -1}


def _rows(boxes: Detections | Truth) -> list[dict[str, Any]]:
    xywh = as_xywh(boxes.xyxy)
    rows = [
        # Ids from 1: pycocotools takes a match with number 0 for none.
        {"id": i, "image_id": image, "category_id": label, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for i, (image, label, box) in enumerate(
            zip(boxes.image.tolist(), boxes.label.tolist(), xywh.tolist(), strict=True), start=1
        )
    ]
    name, values = ("iscrowd", boxes.difficult) if isinstance(boxes, Truth) else ("score", boxes.score)
    for row, value in zip(rows, values.tolist(), strict=True):
        row[name] = value
    return rows
