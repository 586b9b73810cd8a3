"""Photos described with settings of a test, and without a projection where none is given."""

from dataclasses import replace

import numpy as np

from tag2box.description.config import MapsConfig
from tag2box.description.describe import describe, photo_map, raw_photo, raw_widths
from tag2box.description.description import Description, fit_description
from tag2box.description.projection import Projection
from tag2box.description.record import Described
from tag2box.description.resolving import resolve
from tag2box.training.object_maps import PLACES, CellScores, ObjectMaps
from tag2box.windows.search import WindowsConfig


def described_by(features, maps=None, projection=None, context=None, windows=None):
    """The description of these settings; without a projection vectors stay as the network makes them."""
    if projection is None:
        features = replace(features, dtype="float32")
    settings = resolve(windows or WindowsConfig(), features, maps)
    return Description(settings, projection or unprojected(sum(raw_widths(settings))), context)


def seen_by(paths, settings):
    """Photos as the network sees them, before a projection."""
    return Described.concatenate([raw_photo(path, settings) for path in paths])


def fitted_on(paths, settings):
    return fit_description(seen_by(paths, settings), raw_widths(settings), settings)


def unprojected(width):
    return Projection(np.zeros(width, np.float32), np.eye(width, dtype=np.float32), "none", 1.0)


def vectors(photo, boxes, features, projection=None, threads=1):
    """The vector of each box of a photo, (n, d)."""
    description = described_by(features, projection=projection)
    return describe(photo, description, boxes=boxes, threads=threads).X


def map_at(photo, side, features):
    """The network's last map of a photo, (h, w, c)."""
    return photo_map(photo, resolve(WindowsConfig(), features, MapsConfig(side=side)))


def random_object_maps(rng, n_classes, c):
    """Object maps that have learned nothing."""
    parts = (
        CellScores(*(rng.normal(size=shape).astype(np.float32) for shape in (of_cells, of_places)))
        for of_cells, of_places in [((n_classes, c), (n_classes, PLACES, PLACES))] * 2
    )
    return ObjectMaps(*parts)
