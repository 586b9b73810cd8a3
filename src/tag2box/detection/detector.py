"""`Detector`: weights, and all that it takes to find windows in a new photo and to score them.

It is kept in one file of arrays and JSON, safe to open from a stranger. The network is not in it, only its
name and hash: the built-in ones come with the package, your own must lie where its name says.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Source
from tag2box.detection.detections import Detections, detect_windows
from tag2box.errors import InputError
from tag2box.features.extract import FeaturesConfig, resolved, window_features
from tag2box.features.networks.content import network_hash
from tag2box.features.projection import Projection
from tag2box.images import ImageSet
from tag2box.maps.object_maps import MapsConfig, ObjectMaps, objectness
from tag2box.maps.photo_maps import photo_map
from tag2box.runtime.arrays import npz_bytes, read_npz
from tag2box.runtime.blas import one_thread
from tag2box.runtime.config import renamed
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent
from tag2box.training.calibration import confidence
from tag2box.training.scoring import Weights, score_windows
from tag2box.windows.record import Windows
from tag2box.windows.search import WindowsConfig, search_windows

__all__ = ["DetectConfig", "Detector", "detect_images"]

# Raised too when windows, features or maps are computed otherwise: an older detector would see other numbers.
FORMAT = "tag2box detector 4"
# What reading a file that is not one, or is damaged, can raise.
BROKEN = (KeyError, TypeError, ValueError, EOFError, AttributeError, RecursionError)


@dataclass(frozen=True)
class DetectConfig:
    """From window scores to detections."""

    # A window that overlaps a better one of its class by more goes.
    iou_threshold: float = 0.3
    # Detections kept per image and class, best first.
    max_detections: int = 100
    # Scores as confidences in [0, 1], which annotation tools expect; false for the SVM's margins.
    confidence: bool = True
    # The least score of a detection.
    min_score: float = -np.inf

    def __post_init__(self) -> None:
        if not 0 <= self.iou_threshold <= 1:
            raise InputError(f"iou_threshold must lie between 0 and 1, but it is {self.iou_threshold}")
        if self.max_detections < 1:
            raise InputError(f"max_detections must be at least 1, but it is {self.max_detections}")


@dataclass(frozen=True, eq=False)
class Detector:
    """W: (n_classes, d) and b: (n_classes,), with how windows are found and described.

    network: its `network_hash`. calibration: (n_classes, 2), see there. object_maps: how a
    photo's map is read; objectness: what the best of it adds to a score (0: no map is looked at). trace: per
    class the rounds of training.
    """

    classes: tuple[str, ...]
    windows: WindowsConfig
    features: FeaturesConfig
    projection: Projection
    network: str
    W: NDArray[np.float64]
    b: NDArray[np.float64]
    calibration: NDArray[np.float64]
    objectness: float = 0.0
    maps: MapsConfig = field(default_factory=MapsConfig)
    object_maps: ObjectMaps | None = None
    detect_config: DetectConfig = DetectConfig()
    trace: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        n, d = len(self.classes), self.projection.A.shape[1]
        if self.W.shape != (n, d) or self.b.shape != (n,) or self.calibration.shape != (n, 2):
            raise InputError(
                f"W must be (n_classes, d), b (n_classes,), calibration (n_classes, 2): ({n}, {d}), ({n},), "
                f"({n}, 2), but they are {self.W.shape}, {self.b.shape} and {self.calibration.shape}"
            )
        if self.objectness > 0 and (self.object_maps is None or self.object_maps.V.shape[0] != n):
            raise InputError(f"objectness needs the object maps of {n} classes")

    def check_network(self) -> None:
        """Refuse to detect with another network than the one of training."""
        if network_hash(self.features.network) != self.network:
            raise InputError(
                f"the network {self.features.network}, its weights or its TOML are not those that this "
                f"detector was trained with: put them back, or learn again with tag2box run"
            )

    def detect(self, source: Source, *, streams: int = 1) -> Detections:
        """What is in one photo, a file or an array: windows, features, scores, NMS per class."""
        self.check_network()
        windows = search_windows(source, self.windows)
        X = window_features(source, windows.xyxy, self.projection, self.features, streams=streams)
        map_ = photo_map(source, self.maps.side, self.features, streams=streams) if self.objectness else None
        how = self.detect_config
        scores = self.scores(X, windows, map_)
        found = detect_windows(scores, windows.xyxy, iou_threshold=how.iou_threshold, classes=self.classes)
        found = found[_first(found.label, how.max_detections)]
        if how.confidence:
            found = self.confidence(found)
        return found[found.score >= how.min_score]

    def scores(
        self, X: NDArray[np.floating], windows: Windows, map_: NDArray[np.floating] | None
    ) -> NDArray[np.float32]:
        """Scores of the windows of one photo for every class: (n, n_classes).

        map_: the photo's `photo_map`, where `objectness` counts.
        """
        scores = score_windows(X, Weights(self.W, self.b))
        if self.objectness:
            if self.object_maps is None or map_ is None:
                raise InputError("this detector counts objectness: give the photo's map")
            share = objectness(self.object_maps(map_), windows.xyxy, windows.sizes[0], self.maps.ring)
            scores += np.float32(self.objectness) * share
        return scores

    def confidence(self, detections: Detections) -> Detections:
        """The detections with their scores as confidences in [0, 1]."""
        sure = confidence(detections.score, detections.label, self.calibration)
        return replace(detections, score=sure)

    def save(self, path: str | Path) -> None:
        """Write the detector to `path`, an .npz file of arrays and one JSON header."""
        header = {
            "format": FORMAT,
            "classes": self.classes,
            "windows": asdict(self.windows),
            "features": asdict(self.features),
            "norm": self.projection.norm,
            "length": self.projection.length,
            "network": self.network,
            "maps": asdict(self.maps),
            "objectness": self.objectness,
            "detect": {k: v for k, v in asdict(self.detect_config).items() if np.isfinite(v)},
            "trace": self.trace,
        }
        arrays: dict[str, Any] = {
            "W": self.W,
            "b": self.b,
            "calibration": self.calibration,
            "mean": self.projection.mean,
            "A": self.projection.A,
        }
        if self.object_maps is not None:
            arrays |= {"map_V": self.object_maps.V, "map_a": self.object_maps.a}
        packed = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        write_whole(Path(path), npz_bytes(header=packed, **arrays))

    @classmethod
    def load(cls, path: str | Path) -> "Detector":
        """Read what `save` wrote. Nothing in the file is executed: arrays and JSON only, no pickle."""
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path} is not a file: expected a detector that tag2box saved")
        try:
            arrays = read_npz(path)
            header = json.loads(arrays.pop("header").tobytes())
            known = header["format"] == FORMAT
        except BROKEN as wrong:
            raise InputError(f"{path} is not a detector that tag2box saved: {wrong}") from wrong
        if not known:
            raise InputError(f"{path} is from another version of tag2box: learn it again with tag2box run")
        try:
            projection = Projection(arrays["mean"], arrays["A"], header["norm"], header["length"])
            return cls(
                classes=tuple(header["classes"]),
                windows=_settings(WindowsConfig, header["windows"]),
                features=_settings(FeaturesConfig, header["features"]),
                projection=projection,
                network=header["network"],
                W=arrays["W"],
                b=arrays["b"],
                detect_config=_settings(DetectConfig, renamed("detect", header["detect"])),
                calibration=arrays["calibration"],
                objectness=header["objectness"],
                maps=_settings(MapsConfig, header["maps"]),
                object_maps=ObjectMaps(arrays["map_V"], arrays["map_a"]) if "map_V" in arrays else None,
                trace=tuple(header["trace"]),
            )
        except BROKEN as wrong:
            raise InputError(f"{path} is not a detector that tag2box saved: {wrong}") from wrong


def detect_images(
    detector: Detector, images: ImageSet, *, workers: int | None = 1, progress: Progress = silent
) -> Detections:
    """What the detector finds in many photos; `image` is their place in `images`."""
    detector = replace(detector, features=resolved(detector.features))
    with one_thread():  # as in a worker: the last bit of a product depends on the threads
        parts = map_ordered(
            detector.detect, images.paths, workers=workers, progress=progress, label="detections"
        )
        return Detections.concatenate(replace(part, image=part.image + i) for i, part in enumerate(parts))


def _settings(kind: Any, values: dict[str, Any]) -> Any:
    """A settings record from JSON, whose lists were tuples."""
    known = {each.name for each in fields(kind)}
    if unknown := set(values) - known:
        raise InputError(f"unknown settings: {', '.join(sorted(unknown))}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _first(label: NDArray[np.intp], most: int) -> NDArray[np.bool_]:
    """The first `most` of each label, where equal labels stand together."""
    start = np.searchsorted(label, label)
    return np.asarray(np.arange(len(label)) - start < most)
