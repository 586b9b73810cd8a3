"""Speed and quality against named rivals, measured in the same run. `make bench`, `make bench BENCH=bags`."""

import math
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.describe import raw_photo, raw_widths
from tag2box.description.description import Description, fit_description
from tag2box.description.record import Described
from tag2box.description.resolving import resolve
from tag2box.images import ImageSet
from tag2box.run.folder import RunFolder
from tag2box.runtime.executor import map_ordered
from tag2box.windows.search import WindowsConfig

DATA = Path(os.environ.get("TAG2BOX_DATA", Path(__file__).parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Line:
    """One line of the table: a job, our figure and the rival's (lower is better), and quality beside it.

    `bar` is the ratio to reach. `value` is the quality as a number, higher is better, and `floor` what it may
    not fall below: `make bench` fails then. Times depend on who else is at work, quality does not.
    """

    job: str
    ours: float
    rival: float
    unit: str
    rival_name: str
    quality: str = ""
    bar: float | None = None
    value: float | None = None
    floor: float | None = None

    @property
    def ratio(self) -> float:
        return self.rival / self.ours if self.ours else math.inf

    @property
    def fallen(self) -> bool:
        """Whether the quality is below its floor; one that is not a number is."""
        return self.value is not None and self.floor is not None and not self.value >= self.floor


class Skip(Exception):
    """Raised by a benchmark that cannot run here, with the reason."""


def data(name: str) -> Path:
    """The shared data folder `name`, or `Skip`."""
    if not (DATA / name).is_dir():
        raise Skip(f"no {name} data: set TAG2BOX_DATA to the folder that holds it")
    return DATA / name


def trained() -> RunFolder:
    """The run folder that TAG2BOX_RUN names, or `Skip`."""
    path = os.environ.get("TAG2BOX_RUN", "")
    if not (Path(path) / "detector.npz").is_file():  # the last thing that a run writes
        raise Skip("set TAG2BOX_RUN to the folder of a finished `tag2box run`, of voc6 trainval")
    return RunFolder(path)


def fitted(
    images: ImageSet, windows: WindowsConfig, features: FeaturesConfig, maps: MapsConfig | None = None
) -> Description:
    """How a run over these images would describe photos with these settings."""
    settings = resolve(windows, features, maps)
    drawn = np.sort(np.random.default_rng(0).permutation(len(images))[: features.sample_images])
    see = partial(raw_photo, settings=settings)
    seen = map_ordered(see, [images.paths[i] for i in drawn], workers=None)
    return fit_description(Described.concatenate(list(seen)), raw_widths(settings), settings)


def under_key(described: Described, key: str) -> Described:
    """The same, known to stages by `key`: a hash of what is in it would take its time."""
    kind = type("Described", (Described,), {"key": lambda _: key})
    known: Described = kind(described.windows, described.X, described.maps)
    return known
