"""What a run begins with: the classes that can be learned, and settings that depend on its folder."""

from dataclasses import replace
from pathlib import Path

from tag2box.cover.config import known_tags
from tag2box.errors import InputError
from tag2box.features.automatic import measure_precision
from tag2box.features.config import FeaturesConfig
from tag2box.images import ImageSet
from tag2box.runtime.config import read_resolved
from tag2box.stages import Config

__all__ = ["learnable", "with_precision"]


def learnable(images: ImageSet, config: Config) -> tuple[ImageSet, tuple[str, ...]]:
    """`images` with the classes that some image has, and the names of the others; refused where none has."""
    positive = (known_tags(images.tags, config.cover.unknown) == 1).any(axis=0)
    kept = [name for name, some in zip(images.classes, positive, strict=True) if some]
    if not kept:
        names = " or ".join(images.classes) or "any class"
        raise InputError(f"no image is tagged with {names}: there is nothing to learn from")
    return images.only(kept), tuple(name for name in images.classes if name not in kept)


def with_precision(config: Config, folder: str | Path) -> tuple[Config, str]:
    """`config` with the precision that "auto" means for this run folder, and in words why that one.

    A run keeps to the precision that it began with, whatever is fastest where it is continued.
    """
    asked = config.features
    if asked.precision != "auto":
        return config, f"{asked.precision}, as set"
    if precision := _began_with(Path(folder), asked):
        reason = f"{precision}, as this run began"
    else:
        speeds = measure_precision(asked)
        precision, reason = speeds.precision, str(speeds)
    return replace(config, features=replace(asked, precision=precision)), reason


def _began_with(folder: Path, asked: FeaturesConfig) -> str | None:
    """The precision of the run in `folder`, where there is one with the same network, runtime and device."""
    try:
        before = read_resolved(Config(), folder / "config.toml").features
    except InputError:  # there is none, or none that can be read
        return None
    same = all(getattr(before, name) == getattr(asked, name) for name in ("network", "runtime", "device"))
    return before.precision if same and before.precision != "auto" else None
