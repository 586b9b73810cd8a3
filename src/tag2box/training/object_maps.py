"""Object maps: where in a photo the object of a class is, by the network's last map. Beyond the paper.

The windows whose neighbors are right are mostly parts of the object, and a linear detector trained on them
finds parts. The last map saw the whole object. Two things say which of its cells x show it.

Salience. Over the cells of a class's positive images, the directions u_k of most variance tell object from
ground (deep descriptor transforming, Wei et al. 2019); where they point says the energy of a cell, e = Σ|x|
less the mean of its photo, high on objects of any kind (Wei et al. 2017):

    v = Σ_{k <= m} u_k u_kᵀ cov(x, e) / λ_k            (the regression of e on the first m components)
    salience = max(0, (x - mean)ᵀ v)

Activation: what a cell adds to the tag of its photo, u_cᵀx less the photo's mean (`activations`), where it is
positive. Salience alone takes for a defect what is salient in every photo; activation alone forgets half of
an animal. A map is the sum of both, each divided by its most.

What depends on the place in the photo alone says nothing of an object: the padding of the network's layers,
which makes borders dark. So the mean over all photos at the same place is taken out of both.

Where objects are smaller than the last map can show, other cells say where they are (`details`).

    objectness of a window = sqrt(area) x (mean of the map inside - mean of the map in a ring around)

never below 0, and divided by the best of its photo. No box is seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.description.crops import cell_weights
from tag2box.description.record import Described, Maps
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.training.activations import Activations
from tag2box.windows.record import ByImage

Floats = NDArray[np.float64]


# Places in a photo, per direction: as many as cells in a row of a map of 512 pixels.
PLACES = 16
# What is common to a place is known from many photos; of so many, half is believed.
FEW = 50


@stored
@dataclass(frozen=True)
class CellScores:
    """A linear score of a cell for each class, less what cells at its place have: W x - place.

    W: (n_classes, c); place: (n_classes, PLACES, PLACES).
    """

    W: NDArray[np.float32]
    place: NDArray[np.float32]

    def __call__(self, map_: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores, (n_classes, h, w), of a photo's last map, (h, w, c)."""
        h, w = map_.shape[:2]
        place = self.place[:, _places(h)][:, :, _places(w)]
        return np.asarray((map_ @ self.W.T).transpose(2, 0, 1) - place)


@stored
@dataclass(frozen=True)
class ObjectMaps:
    """One map per class: the sum of salience and activation, each from 0 to 1."""

    salience: CellScores
    activation: CellScores

    def __call__(self, map_: NDArray[np.floating]) -> NDArray[np.float32]:
        """The object maps, (n_classes, h, w), of a photo's last map, (h, w, c)."""
        cells = np.asarray(map_, np.float32)
        active = self.activation(cells)
        active -= active.mean(axis=(1, 2), keepdims=True)
        return np.ascontiguousarray(_to_one(self.salience(cells)) + _to_one(active))


def _places(n: int) -> NDArray[np.intp]:
    """The place of each of n cells in a row."""
    return np.asarray((np.arange(n) + 0.5) / n * PLACES, np.intp)


def _to_one(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Positive scores of a photo, (n_classes, h, w), divided by the greatest of each class."""
    above = np.maximum(scores, 0)
    most = above.max(axis=(1, 2), keepdims=True)
    return np.asarray(np.divide(above, most, out=np.zeros_like(above), where=most > 0))


@stored
@dataclass(frozen=True)
class Objectness(ByImage):
    """values: (n_windows, n_classes), 1 for the best window of a photo; offsets: (n_photos + 1,)."""

    values: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def __getitem__(self, i: int) -> NDArray[np.float32]:
        """Of the windows of photo i."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def part(self, a: int, z: int) -> "Objectness":
        """Of the photos a to z."""
        first, last = self.offsets[a], self.offsets[z]
        return Objectness(self.values[first:last], self.offsets[a : z + 1] - first)

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """The arrays to store."""
        return {"values": self.values, "counts": self.counts}

    @classmethod
    def of_rows(cls, rows: Mapping[str, Any]) -> "Objectness":
        """What `to_rows` gave of each of some photos."""
        return cls(rows["values"], np.append(0, np.cumsum(rows["counts"])))


@stage("object_maps", version=2)
def fit_object_maps(
    described: Described, tags: NDArray[np.int8], activations: Activations, components: int
) -> ObjectMaps:
    """The object map of each class, from the cells of its positive images; two passes over them.

    Memory: 8 c^2 bytes for the covariance of a class, and 2 KB a number of a cell for the places.
    """
    maps = described.maps
    assert maps is not None  # methods that ask for them keep them
    common = _common(maps)
    V, means = np.zeros_like(activations.U), np.zeros(len(activations.U))
    for k, column in enumerate(tags.T):
        images = np.flatnonzero(column == 1)
        if len(images):
            with one_thread():  # products of one photo are small
                V[k], means[k] = _direction(maps, images, components, common)
    U = activations.U
    salience = CellScores(V, (np.einsum("kc,yxc->kyx", V, common) + means[:, None, None]).astype(np.float32))
    return ObjectMaps(salience, CellScores(U, np.einsum("kc,yxc->kyx", U, common).astype(np.float32)))


def _common(maps: Maps) -> Floats:
    """What the cells at a place have beside the mean of all places, over all photos: (PLACES, PLACES, c)."""
    n, total = len(maps.shape), np.zeros((PLACES, PLACES, maps.X.shape[1]))
    for i, (h, w) in enumerate(maps.shape.tolist()):
        rows, columns = (((np.arange(PLACES) + 0.5) / PLACES * side).astype(np.intp) for side in (h, w))
        total += maps[i][np.ix_(rows, columns)]
    return np.asarray((total - total.mean(axis=(0, 1))) / (n + FEW))


def _direction(maps: Maps, images: NDArray[np.intp], components: int, common: Floats) -> tuple[Floats, float]:
    """v of one class, and the mean of vᵀx."""
    c = maps.X.shape[1]
    n, total, squares, with_energy = 0, np.zeros(c), np.zeros((c, c)), np.zeros(c)
    for i in images:
        h, w = maps.shape[i]
        x = (np.asarray(maps[i], np.float64) - common[np.ix_(_places(h), _places(w))]).reshape(-1, c)
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


@stage("objectness", version=3)
def measure_all(described: Described, object_maps: ObjectMaps, ring: float) -> Objectness:
    """The objectness of every window, by the maps of every class."""
    values = np.empty((len(described.X), len(object_maps.salience.W)), np.float32)
    with one_thread():
        for i, (a, z) in enumerate(described.spans()):
            values[a:z] = photo_objectness(object_maps, described.part(i, i + 1), ring)
    return Objectness(values, described.offsets)


def photo_objectness(object_maps: ObjectMaps, photo: Described, ring: float) -> NDArray[np.float32]:
    """The objectness of one photo's windows, (n, n_classes): by details for classes that have any."""
    map_, details = photo.map_of(0), photo.details_of(0)
    boxes, size = photo.windows.xyxy, photo.windows.sizes[0]
    assert map_ is not None
    values = measure_objectness(object_maps(map_), boxes, size, ring)
    if details is not None:
        small = by_details(details)
        values[:, small] = measure_objectness(standing_out(details[..., small]), boxes, size, ring)
    return values


def by_details(details: NDArray[np.floating]) -> NDArray[np.bool_]:
    """The classes, (n_classes,), of which the fine cells of a photo, (h, w, n_classes), say anything."""
    return np.asarray(details.any(axis=(0, 1)))


def standing_out(scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Maps of fine cells, (n, h, w), from scores (h, w, n): what is a deviation above the photo's mean."""
    cells = np.asarray(scores, np.float32).transpose(2, 0, 1)
    least = cells.mean(axis=(1, 2), keepdims=True) + cells.std(axis=(1, 2), keepdims=True)
    return np.ascontiguousarray(np.maximum(cells - least, 0))


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
