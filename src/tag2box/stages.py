"""`Config`, and what each stage depends on: its settings, and the stages before it."""

from dataclasses import dataclass, field, replace

from tag2box.corrections.record import Corrections
from tag2box.cover.config import CoverConfig
from tag2box.detection.config import DetectConfig
from tag2box.features.automatic import cut_of, mode_of, network_of
from tag2box.features.backbone import load_network
from tag2box.features.config import FeaturesConfig
from tag2box.features.networks.content import network_hash
from tag2box.images import ImageSet
from tag2box.maps.context import finer_side
from tag2box.maps.object_maps import MapsConfig
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import stage_key
from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.retraining import RetrainConfig
from tag2box.training.two_stream import TwoStreamConfig
from tag2box.windows.search import WindowsConfig

__all__ = [
    "VERSIONS",
    "Config",
    "detections_key",
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
    "windows": 3,
    "projection": 4,
    "features": 1,
    "maps": 2,
    "context": 3,
    "objectness": 3,
    "competition": 2,
    "degrees": 1,
    "cover": 3,
    "initial": 1,
    "refine": 5,
    "two_stream": 2,
    "retrain": 1,
    "findings": 5,
    "judged": 1,
    "corrected": 3,
    "detector": 2,
    "detections": 1,
}


@dataclass(frozen=True)
class Config(Settings):
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
    maps = config.maps
    engine = [config.features.precision, config.features.runtime, config.features.device]
    stage("maps", [maps.side, *engine, cut_of(config.features)], "photos", "network")
    pools = uses_maps(config) and mode_of(config.features, network_of(config.features)) == "pool"
    stage("projection", described, "windows", "network", *(["maps"] if pools else []))
    around = [maps.context, maps.context_ring, maps.context_length, finer_side(maps, network)]
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
