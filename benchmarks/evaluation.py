"""Scoring windows and detections, against OpenCV and pycocotools. Made-up boxes: no data needed."""

import contextlib
import io
import time

import numpy as np

from benchmarks import Line, Skip
from tag2box.detection.detections import Detections
from tag2box.detection.suppression import detect_windows
from tag2box.evaluation.coco_ap import _rows
from tag2box.evaluation.scores import evaluate
from tag2box.images import Truth

ROUNDS = 5
N_CLASSES, N_WINDOWS, N_IMAGES = 20, 2000, 500


def run():
    yield nms_of_one_photo()
    yield average_precision()


def best_of(*jobs):
    """CPU seconds of each job, the best of several rounds, one after the other in each of them."""
    seconds = np.empty((ROUNDS, len(jobs)))
    for round_ in range(ROUNDS):
        for j, job in enumerate(jobs):
            start = time.process_time()
            job()
            seconds[round_, j] = time.process_time() - start
    return seconds.min(axis=0)


def random_boxes(rng, n):
    corner = rng.integers(0, 350, (n, 2))
    return np.hstack([corner, corner + rng.integers(20, 150, (n, 2))]).astype(np.float32)


def nms_of_one_photo():
    try:
        import cv2
    except ImportError as missing:
        raise Skip("no OpenCV here") from missing
    rng = np.random.default_rng(0)
    windows, scores = random_boxes(rng, N_WINDOWS), 1 - rng.random((N_WINDOWS, N_CLASSES))
    xywh = np.hstack([windows[:, :2], windows[:, 2:] - windows[:, :2]]).tolist()
    columns = [column.astype(np.float32).tolist() for column in scores.T]

    def ours():
        return len(detect_windows(scores, windows))

    def rival():
        return sum(len(cv2.dnn.NMSBoxes(xywh, column, 0.0, 0.3)) for column in columns)

    kept, theirs = ours(), rival()
    quality = f"kept {kept} and {theirs}"
    ours_s, rival_s = best_of(ours, rival)
    job = f"NMS, {N_CLASSES} classes x {N_WINDOWS} windows"
    return Line(
        job, 1000 * ours_s, 1000 * rival_s, "ms CPU", "OpenCV NMSBoxes", quality, 10, -abs(kept - theirs), 0
    )


def average_precision():
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as missing:
        raise Skip("no pycocotools here") from missing
    rng = np.random.default_rng(0)
    n_found, n_true = 100 * N_IMAGES, 5 * N_IMAGES
    true_boxes = random_boxes(rng, n_true)
    source = rng.integers(0, n_true, n_found)
    image, label = rng.integers(0, N_IMAGES, n_true), rng.integers(0, N_CLASSES, n_true)
    truth = Truth(image, true_boxes, label, np.zeros(n_true, bool))
    jitter = rng.integers(-9, 10, (n_found, 4))
    found = Detections(image[source], true_boxes[source] + jitter, rng.random(n_found), label[source])
    sides = [COCO(), COCO()]
    for side, rows in zip(sides, (_rows(truth), _rows(found)), strict=True):
        side.dataset = {"images": [{"id": i} for i in range(N_IMAGES)], "annotations": rows}
        side.dataset["categories"] = [{"id": c} for c in range(N_CLASSES)]

    def ours():
        return evaluate(found, truth, "voc10").mean

    def rival():
        """The same job as far as it can do it: one overlap, all sizes; its input is ready and not timed."""
        with contextlib.redirect_stdout(io.StringIO()):
            for side in sides:
                side.createIndex()
            judge = COCOeval(*sides, "bbox")
            judge.params.iouThrs, judge.params.areaRng = np.array([0.5]), [[0, 1e10]]
            judge.params.areaRngLbl = ["all"]
            judge.evaluate()
            judge.accumulate()
        return float(judge.eval["precision"][..., 0, -1].mean())

    ap, theirs = ours(), rival()
    quality = f"AP at 0.5: {ap:.4f} by VOC's rules, {theirs:.4f} by COCO's"
    ours_s, rival_s = best_of(ours, rival)
    job = f"AP of {n_found} detections, {N_IMAGES} images"
    return Line(job, 1000 * ours_s, 1000 * rival_s, "ms CPU", "pycocotools", quality, 1, ap, theirs - 0.01)
