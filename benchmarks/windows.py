"""Selective search against OpenCV contrib's *fast* mode on VOC photos: CPU time, recall and overlap.

Every photo is searched by both in turn, in one process on one thread. Quality is that of the objects that are
not marked difficult; "overlap" is the mean over objects of the best IoU. TAG2BOX_PHOTOS sets the number of
photos (100), TAG2BOX_SPLIT the list (trainval).
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

import numpy as np

from benchmarks import Line, Skip, data
from tag2box import read_images, selective_search
from tag2box.boxes import iou_matrix, thin
from tag2box.data.decoding import read_image

FIRST_IMAGE = """
import time; start = time.monotonic()
import numpy as np; from tag2box import selective_search
selective_search(np.zeros((300, 400, 3), np.uint8)); print(time.monotonic() - start)
"""
SECONDS_FOR_THE_FIRST_IMAGE = 30
MARGIN = 0.01  # of overlap; recall would move by as much with every object


def photos():
    images = read_images(data("voc6") / "VOC2007", split=os.environ.get("TAG2BOX_SPLIT", "trainval"))
    easy = ~images.truth.difficult
    shown = np.unique(images.truth.image[easy])
    n = int(os.environ.get("TAG2BOX_PHOTOS", "100"))
    for i in shown[np.linspace(0, len(shown) - 1, min(n, len(shown))).astype(int)]:
        yield read_image(images.paths[i]), images.truth.xyxy[easy & (images.truth.image == i)]


def opencv(rgb):
    import cv2

    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(np.ascontiguousarray(rgb[:, :, ::-1]))
    search.switchToSelectiveSearchFast()
    xywh = search.process().astype(np.float32)
    return np.hstack([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]])


def everything(rgb):
    return selective_search(rgb, max_windows=1_000_000)


def timed(function, image):
    start = time.process_time()
    boxes = function(image)
    return boxes, time.process_time() - start


def cuts(ours, theirs):
    """The sets of windows that are compared, by name."""
    yield "OpenCV", theirs
    yield "all of ours", ours
    yield "as many as OpenCV", ours[: len(theirs)]
    yield "2000", ours[:2000]
    for n in (500, 300, 200):
        for iou in (0.7, 0.8, 0.9):
            yield f"{n} thinned at {iou}", ours[:2000][thin(ours[:2000], iou)][:n]


def summary(best, count):
    photo = np.mean([b.max() >= 0.5 for b in best])
    best = np.concatenate(best)
    return (
        f"recall {np.mean(best >= 0.5):.3f}, overlap {best.mean():.3f}, "
        f"photos with an object found {photo:.3f}, {np.mean(count):.0f} windows"
    )


def first_image():
    """Seconds that the first image takes with nothing compiled."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-c", FIRST_IMAGE]
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty}
        return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def run():
    try:
        import cv2
    except ImportError as error:
        raise Skip("needs opencv-contrib-python-headless") from error
    cv2.setNumThreads(1)
    selective_search(np.zeros((8, 8, 3), np.uint8))
    seconds, overlap, count = defaultdict(list), defaultdict(list), defaultdict(list)
    for rgb, truth in photos():
        theirs, spent = timed(opencv, rgb)
        seconds["theirs"].append(spent)
        ours, spent = timed(everything, rgb)
        seconds["ours"].append(spent)
        for name, boxes in cuts(ours, theirs):
            overlap[name].append(iou_matrix(boxes, truth).max(axis=0))
            count[name].append(len(boxes))
    print(f"{len(count['2000'])} photos, {sum(map(len, overlap['2000']))} objects", file=sys.stderr)
    for name, best in overlap.items():
        print(f"  {name:>20}: {summary(best, count[name])}", file=sys.stderr)
    ours, theirs = (1000 * float(np.mean(seconds[who])) for who in ("ours", "theirs"))
    shown = ("OpenCV", "as many as OpenCV")
    quality = "; ".join(f"{name}: {summary(overlap[name], count[name])}" for name in shown)
    value, rival = (float(np.mean(np.concatenate(overlap[name]))) for name in reversed(shown))
    yield Line(
        "selective search, a photo", ours, theirs, "CPU ms", "OpenCV fast", quality, 12, value, rival - MARGIN
    )
    limit = SECONDS_FOR_THE_FIRST_IMAGE
    yield Line("first image, nothing compiled", first_image(), limit, "s", "the limit", bar=1)
