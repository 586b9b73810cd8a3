"""Settings of the detector."""

from dataclasses import dataclass
from typing import Annotated

from tag2box.runtime.checks import Range, Seed
from tag2box.runtime.config import Settings
from tag2box.runtime.packing import stored


@stored
@dataclass(frozen=True)
class DetectorConfig(Settings):
    """Settings of the detector: a convolutional network that learns from the boxes of a run.

    Parameters
    ----------
    side : int, default=512
        The long side at which it sees a photo, in pixels; it sees it at half of that, too.
    epochs : int, default=6
        How often it sees every photo, mirrored half of the time.
    steps : int, default=800
        The least number of steps, of four photos each: where photos are few, it sees them more often.
    photos : int, default=30
        The least number of photos to learn from: where there are fewer, the windows' linear scores stay.
    seed : int, default=0
        The seed of its first weights and of the order of the photos.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.DetectorConfig(side=768).epochs
    6
    """

    side: Annotated[int, Range(128, 2048)] = 512
    epochs: Annotated[int, Range(0, 1000)] = 6
    steps: Annotated[int, Range(0, 1_000_000)] = 800
    photos: Annotated[int, Range(1, 1_000_000)] = 30
    seed: Seed = 0
