"""The one page: every stage of the paper, called in order. Tags in, boxes and a detector out.

Each stage is loaded from the run folder, or computed and saved there: a second run computes nothing, one
that was killed goes on where it stopped, and a changed setting costs only what depends on it.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.cover.config import CoverConfig, known_tags
from tag2box.cover.degrees import Degrees, block_count, count_blocks, join_degrees
from tag2box.cover.stage import find_covers
from tag2box.detection.detections import Detections
from tag2box.detection.detector import DetectConfig, Detector, detect_images
from tag2box.features.backbone import load_network
from tag2box.features.extract import Features, FeaturesConfig, find_features, find_projection
from tag2box.features.networks.content import network_hash
from tag2box.features.projection import Projection
from tag2box.images import ImageSet
from tag2box.maps.object_maps import Maps, MapsConfig, find_objectness
from tag2box.maps.photo_maps import check_maps, find_cells, map_cells
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress
from tag2box.runtime.run import Run
from tag2box.runtime.store import stage_key
from tag2box.training.corrected import judged_features, learn_corrected
from tag2box.training.initial import InitialConfig, train_initial
from tag2box.training.refinement import RefineConfig, refine
from tag2box.training.scoring import Weights, score_windows
from tag2box.windows.search import Windows, WindowsConfig, find_windows

__all__ = [
    "Config",
    "detect",
    "detections_key",
    "find_all_features",
    "find_all_windows",
    "find_maps",
    "learn",
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
    "objectness": 1,
    "degrees": 1,
    "cover": 3,
    "initial": 1,
    "refine": 2,
    "judged": 1,
    "corrected": 1,
    "detector": 2,
    "detections": 1,
}


@dataclass(frozen=True)
class Config:
    """All settings, one group per stage."""

    windows: WindowsConfig = field(default_factory=WindowsConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    maps: MapsConfig = field(default_factory=MapsConfig)
    cover: CoverConfig = field(default_factory=CoverConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    detect: DetectConfig = field(default_factory=DetectConfig)


def learn(images: ImageSet, config: Config, run: Run, corrections: Corrections | None = None) -> Detector:
    """Image tags in, a detector out; with `corrections`, what a person has said of it counts too."""
    images = replace(images, truth=None)  # nobody below can look
    tags = known_tags(images.tags, config.cover.unknown)
    workers, progress = run.workers, run.progress
    if uses_maps(config):
        check_maps(config.features)

    # 1. Windows: where an object might be.
    windows = find_all_windows(images, config, run)

    # 2. Features: what each window looks like.
    projection = run.result(
        "projection",
        lambda: find_projection(images, windows, config.features, workers=workers, progress=progress),
    )
    features = find_all_features(images, windows, projection, config, run)

    # 3. Objectness: how well each window frames what its photo's map shows of the class.
    objectness = None
    if uses_maps(config):
        maps = find_maps(images, windows, config, run)
        objectness = run.result("objectness", lambda: find_objectness(maps, windows, tags, config.maps))
    share = objectness.share if objectness else None

    # 4. Neighbors: how many of the images nearest to each window are positive.
    degrees = count_all_neighbors(features, tags, config, run)

    # 5. Cover: few windows whose neighbors reach nearly every positive image.
    covers = run.result(
        "cover",
        lambda: find_covers(
            windows,
            features,
            tags,
            degrees,
            config.cover,
            objectness=share,
            workers=workers,
            progress=progress,
        ),
    )

    # 6. Initial detector: a linear SVM on the covered windows, with hard negatives.
    initial = run.result(
        "initial",
        lambda: train_initial(windows, features, tags, covers, config.initial, progress=progress),
    )

    # 7. Refinement: a latent SVM with a smoothed maximum, from there.
    refined = run.result(
        "refine",
        lambda: refine(windows, features, tags, initial, config.refine, objectness=share, progress=progress),
    )

    # Corrections: what a person said of these boxes, where anybody did.
    if corrections is not None:
        said = replace(corrections, tags=known_tags(corrections.tags, config.cover.unknown))
        judged = run.result(
            "judged",
            lambda: judged_features(
                images, corrections, projection, config.features, workers=workers, progress=progress
            ),
        )

        def score(weights: Weights) -> NDArray[np.float32]:
            scores = score_windows(features.X, weights)
            return scores if share is None else scores + np.float32(config.refine.objectness) * share

        start = refined
        refined = run.result(
            "corrected",
            lambda: learn_corrected(
                windows, features, judged, said, start, score, config.initial, progress=progress
            ),
        )

    return Detector(
        classes=images.classes,
        windows=config.windows,
        features=config.features,
        projection=projection,
        network=network_hash(config.features.network),
        W=refined.W,
        b=refined.b,
        calibration=refined.calibration,
        objectness=config.refine.objectness,
        maps=config.maps,
        object_maps=objectness.maps if objectness else None,
        detect_config=config.detect,
        trace=refined.trace,
    )


def uses_maps(config: Config) -> bool:
    """Whether any setting asks for the objectness of windows."""
    refine = config.refine
    in_training = refine.method != "none" and refine.prior > 0
    return config.cover.snaps_by == "objectness" or in_training or refine.objectness > 0


def find_all_windows(images: ImageSet, config: Config, run: Run) -> Windows:
    """The windows of every photo, shard by shard."""

    def search(a: int, z: int, progress: Progress) -> Windows:
        return find_windows(images[a:z], config.windows, run.workers, progress)

    return run.in_shards("windows", len(images), search, Windows.concatenate)


def find_all_features(
    images: ImageSet, windows: Windows, projection: Projection, config: Config, run: Run
) -> Features:
    """The features of every window, shard by shard into one array on disk."""

    def extract(a: int, z: int, progress: Progress) -> NDArray[np.floating]:
        part = find_features(
            images[a:z],
            windows.part(a, z),
            projection,
            config.features,
            workers=run.workers,
            progress=progress,
        )
        return part.X

    width, dtype = projection.A.shape[1], config.features.dtype
    return run.in_rows(
        "features", windows.offsets, width, dtype, extract, lambda X: Features(X, windows.offsets)
    )


def find_maps(images: ImageSet, windows: Windows, config: Config, run: Run) -> Maps:
    """The last map of every photo, shard by shard into one array on disk."""
    side = config.maps.side
    shape, offsets, channels = map_cells(windows, side, config.features)

    def extract(a: int, z: int, progress: Progress) -> NDArray[np.floating]:
        return find_cells(images[a:z], side, config.features, workers=run.workers, progress=progress)

    return run.in_rows("maps", offsets, channels, "float16", extract, lambda X: Maps(X, offsets, shape))


def count_all_neighbors(features: Features, tags: NDArray[np.int8], config: Config, run: Run) -> Degrees:
    """The degrees of every window, block by block."""
    cover = config.cover

    def count(skip: Container[int], progress: Progress) -> Iterator[Degrees]:
        return count_blocks(features, tags, cover, skip, progress, workers=run.workers)

    def joined(parts: Sequence[Degrees]) -> Degrees:
        return join_degrees(features, tags, cover, parts)

    return run.in_blocks("degrees", block_count(features, tags, cover), count, joined)


def detect(detector: Detector, images: ImageSet, run: Run) -> Detections:
    """8. Detections: what the detector finds in `images`."""

    def look_at(a: int, z: int, progress: Progress) -> Detections:
        found = detect_images(detector, images[a:z], workers=run.workers, progress=progress)
        return replace(found, image=found.image + a)

    def joined(parts: Sequence[Detections]) -> Detections:
        return Detections.concatenate(parts, ids=images.ids)

    return run.in_shards("detections", len(images), look_at, joined)


def stage_keys(
    images: ImageSet, config: Config, run: Run, corrections: Corrections | None = None
) -> dict[str, str]:
    """What each stage depends on: its own settings, and the stages named behind them."""
    key: dict[str, str] = {}

    def stage(name: str, settings: object, *inputs: str) -> None:
        key[name] = stage_key(name, VERSIONS[name], settings, *(key[i] for i in inputs))

    stage("photos", _contents(images, run))
    stage("tags", [images.tags.tolist(), images.classes])
    network = load_network(config.features.network)
    stage("network", network_hash(replace(network, cut=None)))
    stage("windows", config.windows, "photos")
    described = replace(config.features, network="", dtype="float32", cut=config.features.cut or network.cut)
    stage("projection", described, "windows", "network")
    stage("features", config.features.dtype, "projection")
    stage("maps", [config.maps.side, config.features.precision, config.features.device], "photos", "network")
    stage("objectness", [config.maps, config.cover.unknown], "maps", "windows", "tags")
    stage("degrees", [config.cover.k, config.cover.unknown, config.cover.dimensions], "features", "tags")
    stage("cover", config.cover, "degrees", "objectness")
    stage("initial", config.initial, "cover")
    stage("refine", config.refine, "initial", "objectness")
    if corrections is not None:
        boxes = [corrections.image.tolist(), corrections.xyxy.tolist()]
        stage("judged", [boxes, config.features.dtype], "projection")
        stage("corrected", corrections.key(), "judged", "initial", "refine")
    stage("detector", config.detect, "refine" if corrections is None else "corrected")
    return key


def detections_key(detector: str, images: ImageSet, run: Run) -> dict[str, str]:
    """The same for detections: the detector by what is in its file, and the photos."""
    content = [detector, images.ids, _contents(images, run)]
    return {"detections": stage_key("detections", VERSIONS["detections"], content)}


def _contents(images: ImageSet, run: Run) -> list[str]:
    """The photos by what is in their files: they may be moved and renamed."""
    return list(map_ordered(content_hash, images.paths, progress=run.progress, label="reading"))
