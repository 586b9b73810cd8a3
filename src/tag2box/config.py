"""`Config`: the settings of all stages."""

from dataclasses import dataclass, field
from typing import Annotated

from tag2box.cover.config import CoverConfig
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.detection.config import DetectConfig
from tag2box.detector.config import DetectorConfig
from tag2box.images import UNKNOWN
from tag2box.runtime.checks import Choice
from tag2box.runtime.config import Settings
from tag2box.training.initial import InitialConfig
from tag2box.training.refinement import RefineConfig
from tag2box.training.retraining import RetrainConfig
from tag2box.training.two_stream import TwoStreamConfig
from tag2box.windows.search import WindowsConfig

METHODS = ("two_stream", "song2014")


@dataclass(frozen=True)
class Config(Settings):
    """The settings of all stages.

    Parameters
    ----------
    method : {"two_stream", "song2014"}, default="two_stream"
        How windows are scored: by object maps, a head of two streams and an SVM, or as Song et al. 2014 do
        it, whose settings `Config.song2014()` has.
    unknown : {"ignore", "positive", "negative"}, default="ignore"
        What a tag of 0 means.
    windows : WindowsConfig
        The windows.
    features : FeaturesConfig
        The network and the features.
    maps : MapsConfig
        The object maps.
    cover : CoverConfig
        The neighbors and the cover.
    initial : InitialConfig
        The initial detector.
    refine : RefineConfig
        The refinement.
    two_stream : TwoStreamConfig
        The head of two streams.
    retrain : RetrainConfig
        The SVM on the boxes found.
    detect : DetectConfig
        The detections.
    detector : DetectorConfig
        The network that learns from the boxes.

    Examples
    --------
    >>> import tag2box as t2b
    >>> config = t2b.Config(windows=t2b.WindowsConfig(max_windows=200))
    >>> config.windows.max_windows, config.method
    (200, 'two_stream')
    """

    method: Annotated[str, Choice(*METHODS)] = "two_stream"
    # The paper's release takes unknown tags for positive.
    unknown: Annotated[str, Choice(*UNKNOWN)] = "ignore"
    windows: WindowsConfig = field(default_factory=WindowsConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    maps: MapsConfig = field(default_factory=MapsConfig)
    cover: CoverConfig = field(default_factory=CoverConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    two_stream: TwoStreamConfig = field(default_factory=TwoStreamConfig)
    retrain: RetrainConfig = field(default_factory=RetrainConfig)
    detect: DetectConfig = field(default_factory=DetectConfig)
    detector: DetectorConfig = field(default_factory=DetectorConfig)

    @classmethod
    def song2014(cls) -> "Config":
        """Take the settings of Song et al. 2014.

        Nothing of ours is on: no maps, no context, no voting, no whitening.

        Returns
        -------
        Config
            The settings.
        """
        return cls(
            method="song2014",
            unknown="positive",
            # What stands for R-CNN's warped windows: a network of our own kind, the layout of a window kept.
            features=FeaturesConfig(
                mode="pyramid",
                levels=(1920, 1344, 896, 608, 416),
                grid=6,
                dimensions=1024,
                whitening=0.0,
                # Few windows of many photos: with 57 photos, another draw moved AP by 2 to 4 points.
                sample_windows=32,
            ),
            # The order of the authors' release, and the first 256 axes of either map; seeds by 64 of each are
            # as good, for a quarter of the time.
            cover=CoverConfig(method="score", dimensions=512, seed_dimensions=128),
            # C is the release's, as folds of half the photos say little of it (docs/experiments).
            initial=InitialConfig(loss="smooth_hinge"),
            refine=RefineConfig(mu=0.01, loss="smooth_hinge", rounds=10, tol=1e-3),
            retrain=RetrainConfig(vote_iou=1.0),
            # Twice the windows, and nearer to each other, cost no network here. The paper has 2000: parts of
            # objects are among those, and from 1000 on AP fell.
            detect=DetectConfig(vote_iou=1.0, max_windows=600, full_windows=0),
        )

    @property
    def keeps_maps(self) -> bool:
        """Whether the maps of the photos are needed."""
        return self.method == "two_stream"
