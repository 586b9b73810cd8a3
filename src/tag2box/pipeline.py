"""The one page: every stage of the paper, called in order. Tags in, boxes and a detector out.

    detections = Tag2Box().fit(read_images("photos")).predict(["new.jpg"])

Each stage is loaded from the run folder, or computed and saved there: a second run computes nothing, one
that was killed goes on where it stopped, and a changed setting costs only what depends on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.backbone import load_network
from tag2box.features import Features, FeaturesConfig, find_features, find_projection
from tag2box.images import ImageSet
from tag2box.projection import Projection
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress
from tag2box.runtime.run import Run
from tag2box.runtime.store import stage_key
from tag2box.windows import Windows, WindowsConfig, find_windows

__all__ = ["Config", "learn", "stage_keys"]

# Raised when a stage's code changes its result: what older code stored is then computed anew.
VERSIONS = {"windows": 1, "projection": 1, "features": 1}


@dataclass(frozen=True)
class Config:
    """All settings, one group per stage."""

    windows: WindowsConfig = field(default_factory=WindowsConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)


def learn(images: ImageSet, config: Config, run: Run) -> Features:
    """Image tags in, a detector out."""
    images = replace(images, truth=None)  # nobody below can look
    key, n, how = stage_keys(images, config, run), len(images), run.workers

    def search(a: int, z: int, progress: Progress) -> Windows:
        return find_windows(_images(images, a, z), config.windows, how, progress)

    windows = run.in_shards("windows", key["windows"], n, search, _joined)

    def project() -> Projection:
        return find_projection(images, windows, config.features, workers=how, progress=run.progress)

    projection = run.result("projection", key["projection"], project)

    def extract(a: int, z: int, progress: Progress) -> NDArray[np.floating]:
        part = _images(images, a, z), _windows(windows, a, z)
        return find_features(*part, projection, config.features, workers=how, progress=progress).X

    return run.in_rows(
        "features",
        key["features"],
        n,
        windows.offsets,
        projection.A.shape[1],
        config.features.dtype,
        extract,
        lambda X: Features(X, windows.offsets),
    )


def stage_keys(images: ImageSet, config: Config, run: Run) -> dict[str, str]:
    """What each stage depends on: its own settings, and the stages named behind them."""
    key: dict[str, str] = {}

    def stage(name: str, settings: object, *inputs: str) -> None:
        key[name] = stage_key(name, VERSIONS[name], settings, *(key[i] for i in inputs))

    key["photos"] = stage_key("photos", 1, _contents(images, run))
    key["network"] = stage_key("network", 1, _network(config.features))
    stage("windows", config.windows, "photos")
    stage("projection", replace(config.features, network="", dtype="float32"), "windows", "network")
    stage("features", config.features.dtype, "projection")
    return key


def _contents(images: ImageSet, run: Run) -> list[str]:
    """The photos by what is in their files: they may be moved and renamed."""
    return list(map_ordered(content_hash, images.paths, progress=run.progress, label="reading"))


def _network(config: FeaturesConfig) -> list[object]:
    """The network by what is in its file, and how it is fed."""
    network = load_network(config.network)
    feed = network.input, network.output, network.mean, network.std, network.channels, network.cut
    return [content_hash(network.path), *feed]


def _images(images: ImageSet, a: int, z: int) -> ImageSet:
    return ImageSet(images.ids[a:z], images.paths[a:z], images.tags[a:z], images.classes)


def _windows(windows: Windows, a: int, z: int) -> Windows:
    first, last = windows.offsets[a], windows.offsets[z]
    return Windows(windows.xyxy[first:last], windows.offsets[a : z + 1] - first)


def _joined(parts: Sequence[Windows]) -> Windows:
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    xyxy = np.concatenate([part.xyxy for part in parts])
    return Windows(xyxy, np.append(0, np.cumsum(counts)).astype(np.int64))
