"""Features: what each window looks like, by a network that was trained on image labels alone."""

from tag2box.features.extract import Features, FeaturesConfig, find_features, find_projection, window_features

__all__ = ["Features", "FeaturesConfig", "find_features", "find_projection", "window_features"]
