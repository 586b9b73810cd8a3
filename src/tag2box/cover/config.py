"""Settings of the first windows."""

from dataclasses import dataclass

from tag2box.cover.greedy import G
from tag2box.runtime.checks import check_at_least, check_choice, check_share

__all__ = ["CoverConfig"]


@dataclass(frozen=True)
class CoverConfig:
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

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.CoverConfig(alpha=0.9).initializer
    'cover'
    """

    initializer: str = "cover"
    # More did not help, and cost time.
    dimensions: int = 128
    # VOC 2007's 5011 are still taken as a whole.
    most_images: int = 5100
    # The release's, as are `method` and `seeds`.
    k: float = 0.5
    t: int = 1
    g: str = "identity"
    alpha: float = 0.95
    method: str = "score"
    seeds: float = 0.2

    def __post_init__(self) -> None:
        check_choice("initializer", self.initializer, ("cover", "negative_mining"))
        check_choice("g", self.g, G)
        check_choice("method", self.method, ("marginal", "score"))
        check_share(k=self.k, alpha=self.alpha, seeds=self.seeds)
        check_at_least(1, t=self.t, dimensions=self.dimensions)
        check_at_least(2, most_images=self.most_images)
