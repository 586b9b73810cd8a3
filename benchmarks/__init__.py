"""Speed and quality against named rivals, measured in the same run. `make bench`, `make bench BENCH=bags`."""

import os
from dataclasses import dataclass
from pathlib import Path

from tag2box.images import ImageSet
from tag2box.run_folder import RunFolder
from tag2box.windows.search import Windows, find_windows

DATA = Path(os.environ.get("TAG2BOX_DATA", Path(__file__).parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Line:
    """One line of the table: a job, our figure and the rival's (lower is better), and quality beside it."""

    job: str
    ours: float
    rival: float
    unit: str
    rival_name: str
    quality: str = ""

    @property
    def ratio(self) -> float:
        return self.rival / self.ours


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


def top_windows(images: ImageSet, most: int) -> Windows:
    """At most `most` windows of each image, the likeliest objects first."""
    windows = find_windows(images, workers=None)
    return Windows.concatenate(
        [Windows.of_image(windows[i][:most], windows.sizes[i]) for i in range(len(windows))]
    )
