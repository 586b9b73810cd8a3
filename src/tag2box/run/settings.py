"""What a run begins with: the classes that can be learned, and settings with nothing left open."""

from dataclasses import dataclass, replace
from pathlib import Path

from tag2box.config import Config
from tag2box.description.config import FeaturesConfig
from tag2box.description.describe import check_maps
from tag2box.description.resolving import DescriptionConfig, measure_precision, resolve
from tag2box.errors import InputError, Tag2BoxError
from tag2box.images import ImageSet
from tag2box.networks.trust import trust_network
from tag2box.pipeline import with_positives
from tag2box.runtime.config import read_resolved
from tag2box.runtime.index import Index


@dataclass(frozen=True)
class Start:
    """images: with the classes that some image has; left_out: the names of the others.

    config: with nothing left open; description: those of its settings that say how photos are described;
    precision: in words, and why that one.
    """

    images: ImageSet
    left_out: tuple[str, ...]
    config: Config
    description: DescriptionConfig
    precision: str


def prepare(images: ImageSet, config: Config, folder: str | Path) -> Start:
    """Decide, once, what a run in `folder` leaves open; refused where nothing can be learned."""
    kept = with_positives(images, config)
    features, precision = _with_precision(config.features, Path(folder))
    trust_network(features.network)
    description = resolve(config.windows, features, config.maps if config.keeps_maps else None)
    try:
        check_maps(description)
    except InputError as error:
        raise InputError(f'{error}; or do without maps: method = "song2014"') from error
    config = replace(config, features=description.features, maps=description.maps or config.maps)
    left_out = tuple(name for name in images.classes if name not in kept.classes)
    return Start(kept, left_out, config, description, precision)


def _with_precision(asked: FeaturesConfig, folder: Path) -> tuple[FeaturesConfig, str]:
    """`asked` with the precision that "auto" means for this run folder, and in words why that one.

    A run keeps to the precision that it began with, whatever is fastest where it is continued.
    """
    if asked.precision != "auto":
        return asked, f"{asked.precision}, as set"
    if precision := _began_with(folder, asked):
        return replace(asked, precision=precision), f"{precision}, as this run began"
    speeds = measure_precision(asked)
    return replace(asked, precision=speeds.precision), str(speeds)


def _began_with(folder: Path, asked: FeaturesConfig) -> str | None:
    """The precision of the run in `folder`, where there is one with the same network, runtime and device."""
    try:
        noted = Index(folder).note("run")
        before = read_resolved(Config(), noted["config"]).features
    except (TypeError, Tag2BoxError):  # there is none, or none that can be read
        return None
    same = all(getattr(before, name) == getattr(asked, name) for name in ("network", "runtime", "device"))
    return before.precision if same and before.precision != "auto" else None
