"""Features: windows per second, one photo, precision, first feature, memory. Quality: `feature_table`."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
from PIL import Image

from benchmarks import Line, Skip, data, fitted
from tag2box.data.decoding import read_image
from tag2box.data.reading import read_images
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.describe import describe, raw_photo
from tag2box.description.modes import padded
from tag2box.description.resolving import measure_precision, resolve
from tag2box.networks.network import load_network
from tag2box.windows.search import WindowsConfig, find_windows, selective_search

DEFAULT = FeaturesConfig()
PHOTOS, ROUNDS = 40, 3


def run():
    everything = read_images(data("voc6") / "VOC2007", split="trainval")
    images = everything.take(np.random.default_rng(0).permutation(len(everything))[:PHOTOS])
    config = WindowsConfig(max_windows=200)
    windows = find_windows(images, config, workers=None)
    description = fitted(images, config, DEFAULT)
    yield speed(images, windows, description)
    few = images.take(np.arange(12))
    yield against_before(few, find_windows(few))
    yield one_photo(images, description)
    yield precision(images)
    yield first_feature()
    yield memory()


def speed(images, windows, description):
    """CPU and wall time per window of `shared`, and of warp at 224 px in onnxruntime, round by round."""
    session = rival_session()
    few = [windows[i][:32] for i in range(3)]  # the rival is slow: three photos are enough for it
    ours, rivals = [], []
    for _ in range(ROUNDS):
        ours.append(timed(lambda: describe_all(images, windows, description, 2), len(windows.xyxy)))
        rivals.append(
            timed(
                lambda: [warp_rival(session, images.paths[i], boxes) for i, boxes in enumerate(few)],
                sum(map(len, few)),
            )
        )
    (wall, cpu), (rival_wall, rival_cpu) = np.min(ours[1:], axis=0), np.min(rivals[1:], axis=0)
    quality = f"{1 / wall:.0f} windows/s against {1 / rival_wall:.0f}; {rival_cpu / cpu:.1f} x in CPU time"
    return Line("one window", 1e3 * wall, 1e3 * rival_wall, "ms", "warp 224 px, fp32 onnxruntime", quality)


def describe_all(images, windows, description, threads=1):
    """The photos one after the other, with windows that are known already."""
    for i, path in enumerate(images.paths):
        describe(path, description, boxes=windows[i], threads=threads)


def rival_session():
    try:
        import onnxruntime
    except ImportError:
        raise Skip("onnxruntime is not installed") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # or its CPU time says nothing
    return onnxruntime.InferenceSession(load_network("efficientnet-lite0").path, options)


def warp_rival(session, path, boxes):
    """R-CNN's way, written plainly: crop, resize, forward 16 at a time, pool."""
    photo = Image.fromarray(read_image(path))
    crops = [
        np.asarray(photo.transform((224, 224), Image.Transform.EXTENT, tuple(box), Image.Resampling.BILINEAR))
        for box in padded(boxes, DEFAULT.padding).tolist()
    ]
    x = (np.stack(crops).astype(np.float32).transpose(0, 3, 1, 2) - 127) / 128
    for start in range(0, len(x), 16):
        session.run(["map"], {"image": x[start : start + 16]})[0].mean(axis=(2, 3))


def timed(function, n):
    """Wall and CPU seconds per window."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return (time.perf_counter() - wall) / n, (time.process_time() - cpu) / n


def against_before(images, windows):
    """Whole vectors, with their context, against the settings of before.

    Those had two sizes a doubling, an earlier cut, and no 8 bits.
    """
    speeds = measure_precision(DEFAULT)
    exact = {name: ms for name, ms in speeds.ms.items() if name != "int8"} or {"f32": 0.0}
    before = replace(
        DEFAULT, levels=(724, 512, 362, 256, 181), cut="block7", precision=min(exact, key=exact.get)
    )
    described = {
        config: fitted(images, WindowsConfig(), config, MapsConfig()) for config in (DEFAULT, before)
    }
    figures = {config: [] for config in described}
    for config in (DEFAULT, before) * ROUNDS:  # in turns
        job = timed(lambda c=config: describe_all(images, windows, described[c]), 1)
        figures[config].append(job[1])
    ours, rival = (len(windows.xyxy) / min(figures[config][1:]) for config in (DEFAULT, before))
    quality = f"{ours:.0f} windows/s against {rival:.0f} by CPU time; {speeds.precision}"
    return Line(
        "windows with context", 1e3 / ours, 1e3 / rival, "ms", f"before, {before.precision}", quality, bar=2.0
    )


def one_photo(images, description):
    """A 500 px photo with 500 windows, from the file to the vectors."""
    photo = read_image(images.paths[0])
    boxes = selective_search(photo)[:500]
    seconds = min(
        timed(lambda: describe(images.paths[0], description, boxes=boxes, threads=2), 1)[0]
        for _ in range(ROUNDS)
    )
    quality = f"{len(boxes)} windows, {photo.shape[1]} x {photo.shape[0]} px"
    return Line("one photo", seconds, 1.0, "s", "the limit", quality)


def precision(images):
    """Mean cosine of the raw vectors in reduced precision to those in fp32."""
    unit = []
    for name in ("bf16", "f32"):
        settings = resolve(WindowsConfig(max_windows=200), replace(DEFAULT, precision=name), None)
        raw = np.concatenate([raw_photo(path, settings).X for path in images.paths[:6]])
        unit.append(raw / np.linalg.norm(raw, axis=1, keepdims=True))
    cosine = (unit[0] * unit[1]).sum(axis=1)
    quality = f"mean cosine {cosine.mean():.4f}, worst window {cosine.min():.4f}"
    return Line("1 - cosine to fp32", 1 - cosine.mean(), 0.01, "", "the limit", quality)


FIRST = """
import numpy as np, sys, time
started = time.perf_counter()
from tag2box.description.config import FeaturesConfig
from tag2box.description.describe import describe
from tag2box.description.description import Description
from tag2box.description.projection import Projection
from tag2box.description.resolving import resolve
from tag2box.windows.search import WindowsConfig
settings = resolve(WindowsConfig(), FeaturesConfig(), None)
h, w = map(int, sys.argv[1:])
photo = np.random.default_rng(0).integers(0, 256, (h, w, 3), np.uint8)
corner = np.random.default_rng(1).uniform(0, 0.7, (2000, 2))
boxes = (np.hstack([corner, corner + 0.25]) * [w, h, w, h]).astype(np.float32)
width = 320 * settings.features.grid**2
projection = Projection(np.zeros(width, np.float32), np.eye(width, 128, dtype=np.float32), "l2", 20.0)
describe(photo, Description(settings, projection), boxes=boxes, threads=2)
peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]  # getrusage's counts its parent's too
print(time.perf_counter() - started, int(peak) / 1024)
"""


def fresh(h, w):
    """Seconds and peak MB of a new process with empty caches, for 2000 windows of a photo of that size."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "TAG2BOX_CACHE": f"{empty}/cache", "NUMBA_CACHE_DIR": f"{empty}/numba"}
        command = [sys.executable, "-c", FIRST, str(h), str(w)]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return [float(x) for x in out.split()]


def first_feature():
    return Line("first features, empty caches", fresh(375, 500)[0], 30.0, "s", "the limit", "2000 windows")


def memory():
    return Line(
        "peak memory, 80 megapixels", fresh(8000, 10000)[1], 2048.0, "MB", "the limit", "2000 windows"
    )
