"""`python -m tag2box.serving.worker DETECTOR`: finds objects in the photos that it is told of, line by line.

It reads the path of a photo as a line of JSON, and writes what it found as one. A photo that takes too long
or crashes a decoder takes this process with it, and nothing else: `pool` starts another.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from tag2box.data.decoding import image_size
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.blas import one_thread


def load(file: Path) -> Detector:
    """The detector, and its network compiled."""
    detector = Detector.load(file)
    detector.detect(np.zeros((64, 64, 3), np.uint8))
    return detector


def answer(detector: Detector, photo: Path) -> dict[str, Any]:
    """Size and boxes of a photo, best first; or what is wrong with it."""
    try:
        width, height = image_size(photo)
        detections = detector.detect(photo)
    except InputError as wrong:
        return {"error": without_path(wrong, photo)}
    except MemoryError:
        return {"error": "too large for the memory of the server"}
    return {"width": width, "height": height, "boxes": boxes_of(detections)}


def boxes_of(detections: Detections) -> list[dict[str, Any]]:
    """Boxes for JSON, best first."""
    detections = detections[np.argsort(-detections.score, kind="stable")]
    classes = detections.classes or ()
    rows = zip(detections.label.tolist(), detections.score.tolist(), detections.xyxy.tolist(), strict=True)
    return [{"class": classes[label], "score": score, "xyxy": xyxy} for label, score, xyxy in rows]


def without_path(wrong: Exception, photo: Path) -> str:
    """What is wrong; where the server keeps the photo is nobody's business."""
    return str(wrong).replace(f"{photo}: ", "").replace(str(photo), "the image")


def main(file: Path, questions: Iterable[str], answers: IO[str]) -> None:
    """Answer until nobody asks."""

    def say(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        detector = load(file)
    except Tag2BoxError as wrong:
        say({"error": str(wrong)})
        return
    say({"classes": detector.classes})
    with one_thread():  # as `tag2box detect`: the last bit of a product depends on the threads
        for line in questions:
            say(answer(detector, Path(json.loads(line))))


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    main(Path(sys.argv[1]), sys.stdin, pipe)
