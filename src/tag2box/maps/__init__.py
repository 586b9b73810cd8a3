"""Maps: where in a photo the object is, by the network's last map. Beyond the paper."""

from tag2box.maps.object_maps import (
    Maps,
    MapsConfig,
    ObjectMaps,
    Objectness,
    find_objectness,
    fit_object_maps,
    objectness,
)

__all__ = [
    "Maps",
    "MapsConfig",
    "ObjectMaps",
    "Objectness",
    "find_objectness",
    "fit_object_maps",
    "objectness",
]
