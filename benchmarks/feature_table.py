"""How well windows are told apart, by setting: the table of docs/features.md.

    python -m benchmarks.feature_table [NAME...]

CorLoc by the neighbors alone (`_localization`) on all of voc6 trainval, the first windows of each photo, the
same for every setting. `make bench BENCH=feature_table` measures `shared` and `warp`: ten minutes.
"""

import sys
import time
from dataclasses import replace
from functools import partial

from benchmarks import Line, data, fitted
from benchmarks._localization import corloc
from tag2box.data.reading import read_images
from tag2box.description.config import FeaturesConfig
from tag2box.description.describe import describe
from tag2box.description.record import Described
from tag2box.runtime.executor import map_ordered
from tag2box.windows.search import WindowsConfig

WINDOWS = WindowsConfig(max_windows=100)  # enough to compare settings, and `warp` is slow
SHARED = FeaturesConfig()
WARP = replace(SHARED, mode="warp")

TABLE = {
    "shared": SHARED,
    "warp": WARP,
    **{f"shared, padding {p}": replace(SHARED, padding=p) for p in (-0.1, -0.05, 0.05, 0.15)},
    **{f"warp, padding {p}": replace(WARP, padding=p) for p in (-0.05, 0.05)},
    "shared, cut at block10": replace(SHARED, cut="block10"),
    "shared, cut at block4, 16 cells": replace(SHARED, cut="block4", crop=16),
    "shared, 6 cells": replace(SHARED, crop=6),
    "shared, 10 cells": replace(SHARED, crop=10),
    "shared, 12 cells": replace(SHARED, crop=12),
    "shared, levels 512 256 128": replace(SHARED, levels=(512, 256, 128)),
    "shared, no level of 1024": replace(SHARED, levels=SHARED.levels[1:]),
    "shared, 1 x 1": replace(SHARED, grid=1),
    "shared, 4 x 4": replace(SHARED, grid=4),
    "shared, whitening 0": replace(SHARED, whitening=0.0),
    "shared, whitening 0.5": replace(SHARED, whitening=0.5),
    "shared, 128 dimensions": replace(SHARED, dimensions=128),
    "shared, f32": replace(SHARED, precision="f32"),
}


def run():
    images = everything()
    (ours, _), (rival, _) = (localize(images, config) for config in (SHARED, WARP))
    quality = f"CorLoc by degree: {100 * ours.mean():.1f}, warp {100 * rival.mean():.1f}"
    yield Line("images missed by degree", 1 - ours.mean(), 1 - rival.mean(), "", "warp 128 px", quality)


def everything():
    """All of voc6 trainval."""
    return read_images(data("voc6") / "VOC2007", split="trainval")


def localize(images, config):
    """CorLoc by degree, (halves,), and the seconds that it took to describe all photos."""
    description = fitted(images, WINDOWS, config)
    started = time.perf_counter()
    job = partial(describe, description=description)
    described = Described.concatenate(list(map_ordered(job, images.paths, workers=None)))
    seconds = time.perf_counter() - started
    return corloc(described.X, images, described.windows), seconds


if __name__ == "__main__":
    names = sys.argv[1:] or list(TABLE)
    if unknown := set(names) - set(TABLE):
        raise SystemExit(f"no setting {', '.join(sorted(unknown))}: there are {', '.join(TABLE)}")
    images = everything()
    print("| setting | CorLoc by degree | three halves | time |\n|---|---|---|---|")
    for name in names:
        degree, seconds = localize(images, TABLE[name])
        halves = ", ".join(f"{100 * share:.1f}" for share in degree)
        print(f"| {name} | {100 * degree.mean():.1f} | {halves} | {seconds:.0f} s |", flush=True)
