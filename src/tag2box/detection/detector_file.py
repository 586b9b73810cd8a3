"""The file of a detector: arrays and one JSON header, safe to open from a stranger."""

from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tag2box.detection.config import DetectConfig
from tag2box.errors import InputError
from tag2box.features.config import FeaturesConfig
from tag2box.features.projection import Projection
from tag2box.maps.object_maps import MapsConfig
from tag2box.runtime.arrays import read_with_header, with_header
from tag2box.runtime.packing import pack, unpack
from tag2box.runtime.parts import BROKEN
from tag2box.windows.search import WindowsConfig

if TYPE_CHECKING:
    from tag2box.detection.detector import Detector

__all__ = ["detector_bytes", "read_detector"]

T = TypeVar("T")

# Raised too when windows, features or maps are computed otherwise: an older detector would see other numbers.
FORMAT = "tag2box detector 8"
# A detector of this format does not say where it cuts its network: there, and not by today's defaults.
FORMER = "tag2box detector 7"
CUTS = {"efficientnet-lite0": "block7", "efficientnet-lite1": "block10", "efficientnet-lite2": "block10"}
# The fields of `Detector` that may be left out: weights, by their names in the file, and records.
WEIGHTS = {"objectness": "objectness_weight", "streams": "streams_weight", "tag": "tag_weight"}
PARTS = ("context", "object_maps", "two_stream", "activations", "reliability")


def detector_bytes(detector: "Detector") -> bytes:
    """The content of the file."""
    parts, arrays = pack({name: getattr(detector, name) for name in PARTS})
    header = {
        "format": FORMAT,
        "classes": detector.classes,
        "windows": asdict(detector.windows),
        "features": asdict(detector.features),
        "norm": detector.projection.norm,
        "length": detector.projection.length,
        "network": detector.network,
        "maps": asdict(detector.maps),
        **{name: getattr(detector, field) for name, field in WEIGHTS.items()},
        "parts": parts,
        "detect": {k: v for k, v in asdict(detector.detect_config).items() if np.isfinite(v)},
        "trace": detector.trace,
    }
    arrays |= {
        "W": detector.W,
        "b": detector.b,
        "calibration": detector.calibration,
        "mean": detector.projection.mean,
        "A": detector.projection.A,
    }
    return with_header(header, arrays)


def read_detector(path: Path, make: Callable[..., T]) -> T:
    """`make` of what is in the file: the fields of a detector, by their names."""
    if not path.is_file():
        raise InputError(f"{path} is not a file: expected a detector that tag2box saved")
    try:
        header, arrays = read_with_header(path)
        known = header["format"] in (FORMAT, FORMER)
    except BROKEN as wrong:
        raise InputError(f"{path} is not a detector that tag2box saved: {wrong}") from wrong
    if not known:
        raise InputError(f"{path} is from another version of tag2box: learn it again with tag2box run")
    try:
        optional: dict[str, Any] = {field: float(header[name]) for name, field in WEIGHTS.items()}
        optional |= unpack(header["parts"], arrays)
        projection = Projection(arrays["mean"], arrays["A"], header["norm"], header["length"])
        return make(
            classes=tuple(header["classes"]),
            windows=_settings(WindowsConfig, header["windows"]),
            features=_cut_as_before(_settings(FeaturesConfig, header["features"]), header["format"]),
            projection=projection,
            network=header["network"],
            W=arrays["W"],
            b=arrays["b"],
            detect_config=_settings(DetectConfig, header["detect"]),
            calibration=arrays["calibration"],
            maps=_settings(MapsConfig, header["maps"]),
            **optional,
            trace=tuple(header["trace"]),
        )
    except BROKEN as wrong:
        raise InputError(f"{path} is not a detector that tag2box saved: {wrong}") from wrong


def _cut_as_before(config: FeaturesConfig, version: str) -> FeaturesConfig:
    """With the cut that was the default when a detector of that version was learned."""
    if version == FORMAT or config.cut is not None:
        return config
    return replace(config, cut=CUTS.get(config.network))


def _settings(kind: Any, values: dict[str, Any]) -> Any:
    """A settings record from JSON, whose lists were tuples."""
    known = {each.name for each in fields(kind)}
    if unknown := set(values) - known:
        raise InputError(f"unknown settings: {', '.join(sorted(unknown))}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
