"""A process that finds objects in the photos whose paths it receives, until nobody sends any.

A photo that takes too long or crashes a decoder takes this process with it, and nothing else: `pool` starts
another. What is heavy is imported by the process, after it has set how many threads it may use.
"""

import json
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.processes import ONE_THREAD

if TYPE_CHECKING:
    from tag2box.detection.detector import Detector


def work(pipe: "Connection[bytes, bytes]", file: str) -> None:
    """Load the detector, and answer: first with its classes, then with the boxes of each photo."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then ends this process
    os.environ.update(ONE_THREAD)
    import numpy as np

    from tag2box.detection.detector import Detector
    from tag2box.runtime.blas import one_thread

    try:
        detector = Detector.load(Path(file))
        detector.detect(np.zeros((64, 64, 3), np.uint8))  # compiles its network
    except Tag2BoxError as wrong:
        pipe.send_bytes(json.dumps({"error": str(wrong)}).encode())
        return
    pipe.send_bytes(json.dumps({"classes": detector.classes}).encode())
    with one_thread():  # as `tag2box detect`: the last bit of a product depends on the threads
        while True:
            try:
                photo = Path(json.loads(pipe.recv_bytes()))
            except EOFError:  # the server has ended
                return
            pipe.send_bytes(json.dumps(answer(detector, photo)).encode())


def answer(detector: "Detector", photo: Path) -> dict[str, Any]:
    """Size and boxes of a photo, best first; or what is wrong with it."""
    import numpy as np

    from tag2box.data.decoding import image_size

    try:
        width, height = image_size(photo)
        boxes = detector.detect(photo)
    except InputError as wrong:
        return {"error": without_path(wrong, photo)}
    except MemoryError:
        return {"error": "too large for the memory of the server"}
    boxes = boxes[np.argsort(-boxes.score, kind="stable")]
    rows = zip(boxes.label.tolist(), boxes.score.tolist(), boxes.xyxy.tolist(), strict=True)
    found = [{"class": detector.classes[c], "score": score, "xyxy": xyxy} for c, score, xyxy in rows]
    return {"width": width, "height": height, "boxes": found}


def without_path(wrong: Exception, photo: Path) -> str:
    """What is wrong; where the server keeps the photo is nobody's business."""
    return str(wrong).replace(f"{photo}: ", "").replace(str(photo), "the image")
