"""Features: what each window looks like, by a network that was trained on image labels alone."""

from tag2box.features.config import FeaturesConfig
from tag2box.features.extract import find_features, find_projection
from tag2box.features.one_photo import window_features
from tag2box.features.record import Features

__all__ = ["Features", "FeaturesConfig", "find_features", "find_projection", "window_features"]
