"""Settings of the first windows, and what they make of unknown tags."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.greedy import G
from tag2box.runtime.checks import Choice, Range, Share
from tag2box.runtime.config import Settings

__all__ = ["CoverConfig", "known_tags"]

UNKNOWN = {"ignore": 0, "positive": 1, "negative": -1}


@dataclass(frozen=True)
class CoverConfig(Settings):
    """Settings of the first windows: neighbors and cover.

    Parameters
    ----------
    initializer : {"cover", "negative_mining"}, default="cover"
        How the first windows are found: by the paper's cover, or by negative mining (Siva et al. 2012).
    dimensions : int, default=128
        The number of leading dimensions of the features by which neighbors are found.
    most_images : int, default=5100
        The greatest number of images to compare. Of more, a sample is drawn, with as many positive images of
        each class; within it the result is exact.
    k : float, default=0.5
        The number of nearest images to use, as a share of the positive ones.
    t : int, default=1
        The number of windows that count in an image.
    g : {"identity", "sqrt", "log1p"}, default="identity"
        What they count for.
    alpha : float, default=0.95
        The share of all that must be covered.
    method : {"marginal", "score"}, default="score"
        "marginal" is the paper's greedy, "score" the order of the authors' release.
    seeds : float, default=0.2
        The share of an image's windows that may be selected: those with the most positive neighbors.
    snap : {"objectness", "contrast", "none"}, default="objectness"
        By which score a covered window is replaced by the best window that overlaps it; "none" keeps it, as
        in the paper.
    unknown : {"ignore", "positive", "negative"}, default="ignore"
        What a tag of 0 means, in training too.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.CoverConfig(snap="none").initializer
    'cover'
    """

    initializer: Annotated[str, Choice("cover", "negative_mining")] = "cover"
    # More did not help, and cost time.
    dimensions: Annotated[int, Range(1, 100_000)] = 128
    # VOC 2007's 5011 are still taken as a whole.
    most_images: Annotated[int, Range(2, 1_000_000)] = 5100
    # The release's, as are `method` and `seeds`.
    k: Share = 0.5
    t: Annotated[int, Range(1, 10_000)] = 1
    g: Annotated[str, Choice(*G)] = "identity"
    alpha: Share = 0.95
    method: Annotated[str, Choice("marginal", "score")] = "score"
    seeds: Share = 0.2
    snap: Annotated[str, Choice("objectness", "contrast", "none")] = "objectness"
    # The release takes unknown tags for positive.
    unknown: Annotated[str, Choice(*UNKNOWN)] = "ignore"

    @property
    def snaps_by(self) -> str:
        """`snap`, for a cover; the windows of negative mining stay as they are."""
        return self.snap if self.initializer == "cover" else "none"


def known_tags(tags: NDArray[np.int8], unknown: str) -> NDArray[np.int8]:
    """`tags` with every 0 read as `unknown` says; "ignore" leaves them."""
    return np.where(tags == 0, np.int8(UNKNOWN[unknown]), tags)
