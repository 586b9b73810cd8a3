"""How well windows are told apart, by setting: the table of docs/features.md.

    python -m benchmarks.feature_table [NAME...]

CorLoc by the neighbors alone (`_localization`) on all of voc6 trainval, the first windows of each photo, the
same for every setting. `make bench BENCH=feature_table` measures `shared` and `warp`: ten minutes.
"""

import sys
import time
from dataclasses import replace

from tag2box.features.extract import find_features, find_projection

from benchmarks import Line, data, top_windows
from benchmarks._localization import corloc
from tag2box.data.reading import read_images
from tag2box.description.config import FeaturesConfig

WINDOWS = 100  # of each photo: enough to compare settings, and `warp` is slow
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
    "shared, no level of 724": replace(SHARED, levels=SHARED.levels[1:]),
    "shared, 1 x 1": replace(SHARED, grid=1),
    "shared, 4 x 4": replace(SHARED, grid=4),
    "shared, whitening 0": replace(SHARED, whitening=0.0),
    "shared, whitening 0.5": replace(SHARED, whitening=0.5),
    "shared, 128 dimensions": replace(SHARED, dimensions=128),
    "shared, f32": replace(SHARED, precision="f32"),
}


def run():
    images, windows = everything()
    (ours, _), (rival, _) = (localize(images, windows, config)[0] for config in (SHARED, WARP))
    quality = f"CorLoc by degree: {100 * ours.mean():.1f}, warp {100 * rival.mean():.1f}"
    yield Line("images missed by degree", 1 - ours.mean(), 1 - rival.mean(), "", "warp 128 px", quality)


def everything():
    """All of voc6 trainval, and the first windows of each photo."""
    images = read_images(data("voc6") / "VOC2007", split="trainval")
    return images, top_windows(images, WINDOWS)


def localize(images, windows, config):
    """CorLoc by degree and by contrast, (2, halves), and the seconds that the features took."""
    projection = find_projection(images, windows, config, workers=None)
    started = time.perf_counter()
    features = find_features(images, windows, projection, config, workers=None)
    seconds = time.perf_counter() - started
    return corloc(features.X, images, windows), seconds


if __name__ == "__main__":
    names = sys.argv[1:] or list(TABLE)
    if unknown := set(names) - set(TABLE):
        raise SystemExit(f"no setting {', '.join(sorted(unknown))}: there are {', '.join(TABLE)}")
    images, windows = everything()
    print("| setting | CorLoc by degree | three halves | by contrast | time |\n|---|---|---|---|---|")
    for name in names:
        (degree, contrast), seconds = localize(images, windows, TABLE[name])
        halves = ", ".join(f"{100 * share:.1f}" for share in degree)
        figures = f"{100 * degree.mean():.1f} | {halves} | {100 * contrast.mean():.1f} | {seconds:.0f} s"
        print(f"| {name} | {figures} |", flush=True)
