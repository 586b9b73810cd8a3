"""Object maps: where in a photo the object of a class is, by the network's last map. Beyond the paper.

The windows whose neighbors are right are mostly parts of the object, and a linear detector trained on them
finds parts. The last map saw the whole object. Over the cells x of a class's positive images, the directions
u_k of most variance tell object from ground (deep descriptor transforming, Wei et al. 2019); where they point
says the energy of a cell, e = Σ|x| less the mean of its photo, high on objects of any kind (Wei et al. 2017):

    v = Σ_{k <= m} u_k u_kᵀ cov(x, e) / λ_k            (the regression of e on the first m components)
    map = max(0, (x - mean)ᵀ v)
    objectness of a window = sqrt(area) x (mean of the map inside - mean of the map in a ring around)

never below 0, and divided by the best of its photo. Nothing of it is trained, and no box is seen.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.features.crops import cell_weights
from tag2box.runtime.checks import Choice, Pixels, Range
from tag2box.runtime.config import Settings
from tag2box.runtime.packing import stored
from tag2box.windows.record import ByImage, Windows

__all__ = [
    "Maps",
    "MapsConfig",
    "ObjectMaps",
    "WindowObjectness",
    "find_objectness",
    "fit_object_maps",
    "measure_objectness",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MapsConfig(Settings):
    """Settings of the maps: where in a photo the class is, and the context of a window.

    Parameters
    ----------
    side : int, default=512
        The long side of the photo in pixels, rounded to whole cells of the map.
    components : int, default=2
        The number of principal components of which the object map of a class is made.
    ring : float, default=0.25
        How far the surroundings of a window reach beyond each of its sides, as a share of its size.
    context : int, default=192
        The number of principal components of the map that join the vector of a window. 0 leaves them out.
    context_ring : float, default=0.4
        How far the surroundings of a window reach in its context.
    context_length : float, default=14.0
        The length of the context; the rest of the vector has `FeaturesConfig.length`.
    fine_side : int, default=None
        The long side of the photo, in pixels, for a second and finer map that joins the context. 0 leaves it
        out. None is twice `side`, and 0 for a network whose cells are small already: one with patches of up
        to 16 pixels, or of one size alone.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.MapsConfig(components=3).side
    512
    """

    # Cells of stride 32 are a sixteenth of it.
    side: Pixels = 512
    # 1 takes water for a boat, 5 and more find less of everything.
    components: Annotated[int, Range(1, 1000)] = 2
    ring: Annotated[float, Range(1e-3, 10)] = 0.25
    context: Annotated[int, Range(0, 100_000)] = 192
    context_ring: Annotated[float, Range(1e-3, 10)] = 0.4
    context_length: Annotated[float, Range(1e-3, 1000)] = 14.0
    # The photo's long side for the finer map of the context; 0 leaves it out. None is twice the side. A map
    # of small patches is as fine without, and attention to all of them is quadratic in their number.
    fine_side: Annotated[int, Choice(0)] | Pixels | None = None


@stored
@dataclass(frozen=True)
class Maps(ByImage):
    """X: (n_cells, c), cells of all photos, row by row; offsets: (n_images + 1,); shape: (n_images, 2)."""

    X: NDArray[np.floating]
    offsets: NDArray[np.int64]
    shape: NDArray[np.int64]

    def __getitem__(self, i: int) -> NDArray[np.floating]:
        """The map of image i, (h, w, c)."""
        return self.X[self.offsets[i] : self.offsets[i + 1]].reshape(*self.shape[i], self.X.shape[1])

    def part(self, a: int, z: int) -> "Maps":
        """The maps of images a to z."""
        first, last = self.offsets[a], self.offsets[z]
        return Maps(self.X[first:last], self.offsets[a : z + 1] - first, self.shape[a:z])


@stored
@dataclass(frozen=True)
class ObjectMaps:
    """One map per class: max(0, V x - a). V: (n_classes, c); a: (n_classes,)."""

    V: NDArray[np.float32]
    a: NDArray[np.float32]

    def __call__(self, map_: NDArray[np.floating]) -> NDArray[np.float32]:
        """The object maps, (n_classes, h, w), of a photo's last map, (h, w, c)."""
        above = np.asarray(map_, np.float32) @ self.V.T - self.a
        return np.ascontiguousarray(np.maximum(above, 0).transpose(2, 0, 1))

    def of_all(self, maps: Maps, windows: Windows, ring: float) -> NDArray[np.float32]:
        """The objectness of all windows, (n_windows, n_classes)."""
        objectness = np.empty((len(windows.xyxy), len(self.a)), np.float32)
        for i, (a, z) in enumerate(windows.spans()):
            objectness[a:z] = measure_objectness(self(maps[i]), windows[i], windows.sizes[i], ring)
        return objectness


@stored
@dataclass(frozen=True)
class WindowObjectness:
    """maps: of each class. objectness: (n_windows, n_classes), 1 for the best window of a photo."""

    maps: ObjectMaps
    objectness: NDArray[np.float32]


def fit_object_maps(maps: Maps, tags: NDArray[np.int8], components: int) -> ObjectMaps:
    """The object map of each class, from the cells of its positive images; one pass over them."""
    c = maps.X.shape[1]
    V, a = np.zeros((tags.shape[1], c), np.float32), np.zeros(tags.shape[1], np.float32)
    for k, column in enumerate(tags.T):
        images = np.flatnonzero(column == 1)
        if len(images):
            V[k], a[k] = _direction(maps, images, components)
    return ObjectMaps(V, a)


def _direction(maps: Maps, images: NDArray[np.intp], components: int) -> tuple[Floats, float]:
    c = maps.X.shape[1]
    n, total, squares, with_energy = 0, np.zeros(c), np.zeros((c, c)), np.zeros(c)
    for i in images:
        x = np.asarray(maps[i], np.float64).reshape(-1, c)
        energy = np.abs(x).sum(axis=1)
        n += len(x)
        total += x.sum(axis=0)
        squares += x.T @ x
        with_energy += x.T @ (energy - energy.mean())
    mean = total / n
    values, U = np.linalg.eigh(squares / n - np.outer(mean, mean))
    first = slice(-1, -1 - min(components, len(values)), -1)
    values, U = values[first], U[:, first]
    v = U @ np.divide(
        U.T @ with_energy / n, values, out=np.zeros_like(values), where=values > 1e-9 * np.trace(squares) / n
    )
    return v, float(mean @ v)


def find_objectness(
    maps: Maps, windows: Windows, tags: NDArray[np.int8], config: MapsConfig
) -> WindowObjectness:
    """The object maps of all classes, and by them the objectness of every window.

    Memory: 4 bytes a window and class, and 8 c^2 for the covariance of a class.
    """
    of = fit_object_maps(maps, tags, config.components)
    return WindowObjectness(of, of.of_all(maps, windows, config.ring))


def measure_objectness(
    map_: NDArray[np.float32], boxes: NDArray[np.float32], size: NDArray[np.int64], ring: float
) -> NDArray[np.float32]:
    """The objectness of the windows of one photo, (n, n_classes), by its object maps (n_classes, h, w).

    size: the width and height of the photo.
    """
    if len(boxes) == 0:
        return np.empty((0, len(map_)), np.float32)
    margin = ring * np.tile(boxes[:, 2:] - boxes[:, :2], 2) * np.array([-1, -1, 1, 1])
    photo = np.tile(size, 2).astype(np.float64)
    inside = _integral(map_, boxes / photo)
    around = _integral(map_, (boxes + margin) / photo) - inside  # what lies outside of the photo counts as 0
    area = np.prod((boxes[:, 2:] - boxes[:, :2]) / size.astype(np.float32), axis=1)[:, None]
    stands_out = np.maximum(np.sqrt(area) * (inside - around / ((1 + 2 * ring) ** 2 - 1)) / area, 0)
    best = stands_out.max(axis=0)
    return np.asarray(np.divide(stands_out, best, out=np.zeros_like(stands_out), where=best > 0), np.float32)


def _integral(map_: NDArray[np.float32], boxes: Floats) -> Floats:
    """The integral of each map over each box, (n, n_classes); boxes in shares of the photo."""
    h, w = map_.shape[1:]
    rows, columns = cell_weights(boxes[:, [1, 3]], h), cell_weights(boxes[:, [0, 2]], w)
    return np.asarray(np.einsum("nh,khw,nw->nk", rows, map_, columns, optimize=True))
