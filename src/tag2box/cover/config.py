"""Settings of the first windows."""

from dataclasses import dataclass
from typing import Annotated

from tag2box.cover.greedy import G
from tag2box.runtime.checks import Choice, Range, Share
from tag2box.runtime.config import Settings


@dataclass(frozen=True)
class CoverConfig(Settings):
    """Settings of the first windows: neighbors and cover.

    Parameters
    ----------
    initializer : {"cover", "negative_mining"}, default="cover"
        How the first windows are found: by the paper's cover, or by negative mining (Siva et al. 2012).
    dimensions : int, default=128
        The number of leading dimensions of the features by which neighbors are found.
    seed_dimensions : int, default=128
        The number of those by which all windows are compared, to find seeds; seeds are compared by all.
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

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.CoverConfig(alpha=0.9).initializer
    'cover'
    """

    initializer: Annotated[str, Choice("cover", "negative_mining")] = "cover"
    # More did not help, and cost time.
    dimensions: Annotated[int, Range(1, 100_000)] = 128
    # The windows of all positive images are five times as many as seeds, and are only counted.
    seed_dimensions: Annotated[int, Range(1, 100_000)] = 128
    # VOC 2007's 5011 are still taken as a whole.
    most_images: Annotated[int, Range(2, 1_000_000)] = 5100
    # The release's, as are `method` and `seeds`.
    k: Share = 0.5
    t: Annotated[int, Range(1, 10_000)] = 1
    g: Annotated[str, Choice(*G)] = "identity"
    alpha: Share = 0.95
    method: Annotated[str, Choice("marginal", "score")] = "score"
    seeds: Share = 0.2
