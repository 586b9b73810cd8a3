"""Maps: where in a photo the object is, by the network's last map. Beyond the paper."""

from tag2box.maps.object_maps import (
    Maps,
    MapsConfig,
    ObjectMaps,
    WindowObjectness,
    find_objectness,
    fit_object_maps,
    measure_objectness,
)

__all__ = [
    "Maps",
    "MapsConfig",
    "ObjectMaps",
    "WindowObjectness",
    "find_objectness",
    "fit_object_maps",
    "measure_objectness",
]
