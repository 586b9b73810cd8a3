"""Settings of the student."""

from dataclasses import dataclass
from typing import Annotated

from tag2box.runtime.checks import Range, Seed
from tag2box.runtime.config import Settings
from tag2box.runtime.packing import stored


@stored
@dataclass(frozen=True)
class StudentConfig(Settings):
    """Settings of the student: the network of `tag2box export --format onnx` and `detect --student`.

    Parameters
    ----------
    side : int, default=512
        The long side at which it sees a photo, in pixels.
    hidden : int, default=256
        The numbers in each of its hidden layers.
    epochs : int, default=4
        How often each of its two looks sees every photo.
    steps : int, default=400
        The least number of steps of each look: where photos are few, it sees them more often.
    photos : int, default=2000
        The number of photos to learn from, where there are more.
    seed : int, default=0
        The seed of its first weights and of the order of the photos.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.StudentConfig(side=384).hidden
    256
    """

    side: Annotated[int, Range(128, 2048)] = 512
    hidden: Annotated[int, Range(8, 2048)] = 256
    epochs: Annotated[int, Range(1, 1000)] = 4
    # Below some hundred, its weights are hardly other than the first ones.
    steps: Annotated[int, Range(1, 1_000_000)] = 400
    # Each takes about 1 MB of memory, and as much of the disk until it has learned.
    photos: Annotated[int, Range(1, 1_000_000)] = 2000
    seed: Seed = 0
