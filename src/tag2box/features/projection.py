"""`Projection`: PCA with partial whitening, then a common length. Fitted once, kept with the detector.

Without it, a few strong directions (mostly texture and light) decide who is whose neighbor; with full
whitening noise does. In between, each principal axis is divided by its variance to the power `whitening`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored

__all__ = ["NORMS", "Projection", "fit_projection"]

Floats = NDArray[np.float32]

NORMS = ("l2", "mean", "none")
# Rows per matrix product: every product has one shape, so a row's result does not depend on the others. Nor
# on where it stands: OpenBLAS adds up the rows of a larger block in different orders.
BLOCK = 8
# Above this width the covariance matrix is no longer formed (scikit-learn's randomized solver, seeded).
WIDEST_COVARIANCE = 2048
# Axes with less than this share of the largest variance are noise, which whitening would blow up. On VOC 2007
# the last of all 1280 axes has 1e-4 of it; axes that few or equal windows leave empty have about 1e-16.
LEAST_VARIANCE = 1e-6


@stored
@dataclass(frozen=True)
class Projection:
    """x -> (x - mean) A, (D,) -> (d,), then scaled.

    With `norm="l2"` each vector gets the length `length`; with "mean" all are scaled by one number, so that
    the mean length over the sample is `length` (R-CNN's 20); with "none" nothing is done.
    """

    mean: Floats  # (D,)
    A: Floats  # (D, d)
    norm: str
    length: float

    def __call__(self, raw: Floats) -> Floats:
        """Project `raw`, (n, D) -> (n, d)."""
        out = np.empty((len(raw), self.A.shape[1]), np.float32)
        block = np.zeros((BLOCK, len(self.mean)), np.float32)
        with one_thread():
            for start in range(0, len(raw), BLOCK):
                part = raw[start : start + BLOCK]
                np.subtract(part, self.mean, out=block[: len(part)])
                out[start : start + BLOCK] = (block @ self.A)[: len(part)]
        return _of_length(out, self.length) if self.norm == "l2" else out


def fit_projection(
    sample: Floats, dimensions: int | None, whitening: float, norm: str, length: float
) -> Projection:
    """The projection to the first `dimensions` principal axes of `sample` (n, D); None keeps the raw vectors.

    Few windows, or many equal ones, have fewer axes: then there are as many dimensions as axes.
    `whitening`: each axis is divided by its variance to this power: 0 is plain PCA, 1/2 whitens fully.
    """
    D = sample.shape[1]
    if dimensions is None:
        mean, A = np.zeros(D, np.float32), np.eye(D, dtype=np.float32)
    else:
        mean, A = _axes(sample, dimensions, whitening)
    if norm == "mean":
        lengths = np.linalg.norm(Projection(mean, A, "none", 1.0)(sample), axis=1)
        A = A * np.float32(length / (lengths.mean() or 1))
    return Projection(mean, A, norm, length)


def _axes(sample: Floats, dimensions: int, whitening: float) -> tuple[Floats, Floats]:
    """The mean, and as columns the axes: those of any variance, at least one and `dimensions` at most."""
    from sklearn.decomposition import PCA

    if (sample == sample[0]).all():
        return sample[0], np.eye(sample.shape[1], 1, dtype=np.float32)
    solver = "covariance_eigh" if sample.shape[1] <= WIDEST_COVARIANCE else "randomized"
    with one_thread():
        pca = PCA(min(dimensions, *sample.shape), svd_solver=solver, copy=False, random_state=0)
        pca.fit(sample.astype(np.float64))
    variance = pca.explained_variance_
    real = variance > LEAST_VARIANCE * variance[0]
    A = pca.components_[real].T / variance[real] ** whitening
    return pca.mean_.astype(np.float32), np.ascontiguousarray(A, np.float32)


def _of_length(x: Floats, length: float) -> Floats:
    """Each row of `x` scaled to `length`; rows of zeros stay."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * (np.float32(length) / np.where(norms > 0, norms, 1).astype(np.float32))
