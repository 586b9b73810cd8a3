"""Description: a photo -> its windows, a vector for each, and its map, by a network that saw image labels."""

from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.describe import describe
from tag2box.description.description import Description, fit_description
from tag2box.description.record import Described, Maps

__all__ = [
    "Described",
    "Description",
    "FeaturesConfig",
    "Maps",
    "MapsConfig",
    "describe",
    "fit_description",
]
