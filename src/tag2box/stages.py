"""What each stage depends on, by `Config` and the stages before it; the long ones, shard by shard."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import Degrees, block_count, count_blocks, join_degrees
from tag2box.detection.config import DetectConfig
from tag2box.features.backbone import load_network
from tag2box.features.extract import Features, FeaturesConfig, find_features
from tag2box.features.networks.content import network_hash
from tag2box.features.projection import Projection
from tag2box.images import ImageSet
from tag2box.maps.context import Context, contexts
from tag2box.maps.object_maps import Maps, MapsConfig
from tag2box.maps.photo_maps import find_cells, map_cells
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress
from tag2box.runtime.runner import Part, Runner
from tag2box.runtime.store import stage_key
from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.retraining import RetrainConfig
from tag2box.training.two_stream import TwoStreamConfig
from tag2box.windows.search import Windows, WindowsConfig, find_windows

__all__ = [
    "VERSIONS",
    "Config",
    "Description",
    "count_all_neighbors",
    "detections_key",
    "find_all_features",
    "find_all_windows",
    "find_maps",
    "retrains",
    "scores_by_maps",
    "stage_keys",
    "uses_maps",
]


# Raised when a stage's code changes its result: what older code stored is then computed anew.
VERSIONS = {
    "photos": 1,
    "tags": 1,
    "network": 2,
    "windows": 2,
    "projection": 3,
    "features": 1,
    "maps": 1,
    "context": 2,
    "objectness": 2,
    "competition": 1,
    "degrees": 1,
    "cover": 3,
    "initial": 1,
    "refine": 4,
    "two_stream": 1,
    "retrain": 1,
    "findings": 4,
    "judged": 1,
    "corrected": 2,
    "detector": 2,
    "detections": 1,
}


@dataclass(frozen=True)
class Config:
    """The settings of all stages.

    Parameters
    ----------
    windows : WindowsConfig
        The windows.
    features : FeaturesConfig
        The network and the features.
    maps : MapsConfig
        The object maps.
    cover : CoverConfig
        The neighbors and the cover.
    initial : InitialConfig
        The initial detector.
    refine : RefineConfig
        The refinement.
    two_stream : TwoStreamConfig
        The head of two streams.
    retrain : RetrainConfig
        The SVM on the boxes found.
    detect : DetectConfig
        The detections.

    Examples
    --------
    >>> import tag2box as t2b
    >>> config = t2b.Config(windows=t2b.WindowsConfig(max_windows=200))
    >>> config.windows.max_windows, config.cover.alpha
    (200, 0.95)
    """

    windows: WindowsConfig = field(default_factory=WindowsConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    maps: MapsConfig = field(default_factory=MapsConfig)
    cover: CoverConfig = field(default_factory=CoverConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    two_stream: TwoStreamConfig = field(default_factory=TwoStreamConfig)
    retrain: RetrainConfig = field(default_factory=RetrainConfig)
    detect: DetectConfig = field(default_factory=DetectConfig)


def uses_maps(config: Config) -> bool:
    """Whether any setting asks for the maps of the photos."""
    return config.maps.context > 0 or scores_by_maps(config)


def scores_by_maps(config: Config) -> bool:
    """Whether any setting asks for the objectness of windows."""
    refine = config.refine
    in_training = refine.method != "none" and refine.prior > 0
    by_refinement = config.cover.snaps_by == "objectness" or in_training or refine.objectness_weight > 0
    return by_refinement or retrains(config)


def retrains(config: Config) -> bool:
    """Whether the detector is that of the two streams and the SVM behind them, or that of refinement."""
    return config.retrain.method != "none" and config.two_stream.weight > 0


@dataclass(frozen=True)
class Description:
    """How windows become vectors: projected crops, and the context that the photos' maps give them."""

    projection: Projection
    context: Context | None
    maps: Maps | None

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return int(self.projection.A.shape[1]) + (self.context.width if self.context else 0)


def find_all_windows(images: ImageSet, config: Config, runner: Runner) -> Windows:
    """The windows of every photo, shard by shard."""

    def part(a: int, z: int) -> Part[Windows]:
        return partial(find_windows, images[a:z], config.windows)

    return runner.in_shards("windows", len(images), part, Windows.concatenate)


def find_all_features(
    images: ImageSet, windows: Windows, how: Description, config: Config, runner: Runner
) -> Features:
    """The vectors of every window, shard by shard into one array on disk."""

    def part(a: int, z: int) -> Part[NDArray[np.floating]]:
        mine = replace(how, maps=how.maps.part(a, z) if how.maps and how.context else None)
        return partial(_describe, images[a:z], windows.part(a, z), mine, config.features)

    return runner.in_rows(
        "features",
        windows.offsets,
        how.width,
        config.features.dtype,
        part,
        lambda X: Features(X, windows.offsets),
    )


def _describe(
    images: ImageSet,
    windows: Windows,
    how: Description,
    config: FeaturesConfig,
    workers: int | None,
    progress: Progress,
) -> NDArray[np.floating]:
    """The vectors of some photos' windows."""
    X = find_features(images, windows, how.projection, config, workers=workers, progress=progress).X
    if how.context is None or how.maps is None:
        return X
    around = contexts(images, windows, how.maps, how.context, config, workers=workers, progress=progress)
    return np.concatenate([X, np.concatenate(list(around)).astype(X.dtype)], axis=1)


def find_maps(images: ImageSet, windows: Windows, config: Config, runner: Runner) -> Maps:
    """The last map of every photo, shard by shard into one array on disk."""
    side = config.maps.side
    shape, offsets, channels = map_cells(windows, side, config.features)

    def part(a: int, z: int) -> Part[NDArray[np.floating]]:
        return partial(find_cells, images[a:z], side, config.features)

    return runner.in_rows("maps", offsets, channels, "float16", part, lambda X: Maps(X, offsets, shape))


def count_all_neighbors(
    features: Features, tags: NDArray[np.int8], config: Config, runner: Runner
) -> Degrees:
    """The degrees of every window, block by block."""
    cover = config.cover

    def count(skip: Container[int], progress: Progress) -> Iterator[Degrees]:
        return count_blocks(features, tags, cover, skip, progress, workers=runner.workers)

    def joined(parts: Sequence[Degrees]) -> Degrees:
        return join_degrees(features, tags, cover, parts)

    return runner.in_blocks("degrees", block_count(features, tags, cover), count, joined)


def stage_keys(
    images: ImageSet, config: Config, runner: Runner, corrections: Corrections | None = None
) -> dict[str, str]:
    """What each stage depends on: its own settings, and the stages named behind them."""
    key: dict[str, str] = {}

    def stage(name: str, settings: object, *inputs: str) -> None:
        key[name] = stage_key(name, VERSIONS[name], settings, *(key[i] for i in inputs))

    stage("photos", _contents(images, runner))
    stage("tags", [images.tags.tolist(), images.classes])
    network = load_network(config.features.network)
    stage("network", network_hash(replace(network, cut=None)))
    stage("windows", config.windows, "photos")
    described = replace(config.features, network="", dtype="float32", cut=config.features.cut or network.cut)
    stage("projection", described, "windows", "network")
    maps = config.maps
    engine = [config.features.precision, config.features.runtime, config.features.device]
    stage("maps", [maps.side, *engine], "photos", "network")
    around = [maps.context, maps.context_ring, maps.context_length, maps.fine_side]
    stage("context", around, "maps")
    stage("features", config.features.dtype, "projection", *(["context"] if maps.context else []))
    stage("objectness", [maps.components, maps.ring, config.cover.unknown], "maps", "windows", "tags")
    stage("competition", maps.ring, "objectness")
    cover = config.cover
    sampled = [cover.most_images] if len(images) > cover.most_images else []
    stage("degrees", [cover.k, cover.unknown, cover.dimensions, *sampled], "features", "tags")
    stage("cover", cover, "degrees", "objectness")
    stage("initial", config.initial, "cover")
    vote = config.detect.vote_iou
    stage("refine", [config.refine, vote], "initial", "objectness")
    stage("two_stream", config.two_stream, "features", "competition")
    stage("retrain", config.retrain, "two_stream")
    stage("findings", vote, "retrain")
    last = "findings" if retrains(config) else "refine"
    if corrections is not None:
        boxes = [corrections.image.tolist(), corrections.xyxy.tolist()]
        stage("judged", boxes, "features")
        stage("corrected", [corrections.key(), config.retrain, vote], "judged", last)
        last = "corrected"
    stage("detector", config.detect, last)
    return key


def detections_key(detector: str, images: ImageSet, runner: Runner) -> dict[str, str]:
    """The same for detections: the detector by what is in its file, and the photos."""
    content = [detector, images.ids, _contents(images, runner)]
    return {"detections": stage_key("detections", VERSIONS["detections"], content)}


def _contents(images: ImageSet, runner: Runner) -> list[str]:
    """The photos by what is in their files: they may be moved and renamed."""
    return list(map_ordered(content_hash, images.paths, progress=runner.progress, label="reading"))
