"""Context: what the network's last map says inside a window, and how that differs from around it.

Crops are cut out of an early map and do not see the photo; the last map does. Its cells are projected on the
first principal components, averaged inside the window, and in a ring around it:

    context = (mean inside, mean inside - mean in the ring), scaled to `length`

and the same again from a map of the photo at twice the size, where small objects have cells of their own.
With it, a linear SVM on true boxes gains twelve points of AP on VOC 2007 (docs/experiments). The finer map is
not kept: it is four times as large, and nothing else needs it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.description.config import MapsConfig
from tag2box.description.crops import cell_weights
from tag2box.description.record import Maps
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored

__all__ = ["Context", "fit_context"]

Floats = NDArray[np.float32]

# Cells that the components are found from.
SAMPLE = 60_000


@stored
@dataclass(frozen=True)
class Context:
    """mean: (c,) and U: (c, k), the cells' mean and components; ring: its width, a share of the window's.

    fine_side: the long side of the photo for the finer map; 0 where there is none.
    """

    mean: Floats
    U: Floats
    ring: float
    length: float
    fine_side: int = 0

    @property
    def width(self) -> int:
        """The numbers that are added to a window's vector."""
        return 2 * int(self.U.shape[1]) * (2 if self.fine_side else 1)

    def __call__(
        self, map_: NDArray[np.floating], boxes: Floats, size: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """(n, 2k) of the `boxes` of one photo of `size` (width, height), from its last map (h, w, c)."""
        cells = (np.asarray(map_, np.float32) - self.mean) @ self.U
        h, w, k = cells.shape
        shares = boxes / np.tile(size, 2).astype(np.float64)
        margin = self.ring * np.tile(shares[:, 2:] - shares[:, :2], 2) * np.array([-1, -1, 1, 1])
        inside, outside = (_overlaps(edges, h, w) for edges in (shares, shares + margin))
        flat = np.asarray(cells.reshape(-1, k), np.float32)
        inner, around = (_mean(weights, flat) for weights in (inside, outside - inside))
        vectors = np.concatenate([inner, inner - around], axis=1)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors * (self.length / np.where(norms > 0, norms, 1)), np.float32)


def _overlaps(edges: NDArray[np.float64], h: int, w: int) -> NDArray[np.float64]:
    """How much of each of h x w cells lies in each box, (n, h w); boxes in shares of the photo."""
    rows, columns = cell_weights(edges[:, [1, 3]], h), cell_weights(edges[:, [0, 2]], w)
    return (rows[:, :, None] * columns[:, None]).reshape(-1, h * w)


def _mean(weights: NDArray[np.floating], cells: Floats) -> Floats:
    """Weighted means of the cells, (n, k); zeros where nothing has a weight, as around the whole photo."""
    total = weights.sum(axis=1, keepdims=True)
    covered = total > 1e-6
    return np.asarray(np.where(covered, weights / np.where(covered, total, 1), 0), np.float32) @ cells


def fit_context(maps: Maps, config: MapsConfig) -> Context:
    """The mean and the components of a sample of the cells of the photos. `fine_side` is no longer open."""
    n = len(maps.X)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLE])
    sample = np.asarray(maps.X[rows], np.float64)
    mean = sample.mean(axis=0)
    sample -= mean
    with one_thread():
        values, U = np.linalg.eigh(sample.T @ sample)
    first = np.argsort(-values, kind="stable")[: config.context]
    components = np.ascontiguousarray(U[:, first], np.float32)
    fine_side = config.fine_side or 0
    return Context(mean.astype(np.float32), components, config.context_ring, config.context_length, fine_side)
