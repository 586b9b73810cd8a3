"""`Projection`: PCA with partial whitening, then a common length. Fitted once, kept with the detector.

Without it, a few strong directions (mostly texture and light) decide who is whose neighbor; with full
whitening noise does. In between, each principal axis is divided by its variance to the power `whitening`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored

Floats = NDArray[np.float32]

NORMS = ("l2", "mean", "none")
# Rows per matrix product: every product has one shape, so a row's result does not depend on the others. Nor
# on where it stands: OpenBLAS adds up rows of a larger block in different orders (its kernels for AVX2).
BLOCK = 16
# Numbers of a row per product: so many axes stay in the cache from one block to the next. A pyramid has ten
# thousand, and to read all their axes for a few rows takes longer than the product.
DEPTH = 512
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

    @property
    def width(self) -> int:
        """d."""
        return int(self.A.shape[1])

    def __call__(self, raw: Floats) -> Floats:
        """Project `raw`, (n, D) -> (n, d)."""
        blocks = -(-len(raw) // BLOCK)
        sums = np.zeros((blocks, self.A.shape[1], BLOCK), np.float32)
        rows = np.zeros((blocks * BLOCK, DEPTH), np.float32)
        with one_thread():
            for a in range(0, len(self.mean), DEPTH):
                axes = self.A[a : a + DEPTH].T
                part = rows[:, : axes.shape[1]]
                np.subtract(raw[:, a : a + DEPTH], self.mean[a : a + DEPTH], out=part[: len(raw)])
                for block in range(blocks):
                    sums[block] += axes @ part[block * BLOCK : (block + 1) * BLOCK].T
        out = sums.transpose(0, 2, 1).reshape(-1, self.A.shape[1])[: len(raw)]
        return _of_length(out, self.length) if self.norm == "l2" else np.ascontiguousarray(out)


@stored
@dataclass(frozen=True)
class PartwiseProjection:
    """Each part of a vector scaled to length 1 and projected for itself; the parts' axes take turns.

    So the first dimensions are the first axes of every part, by which neighbors are found.
    """

    parts: tuple[Projection, ...]

    @property
    def width(self) -> int:
        """The numbers of a projected vector."""
        return sum(part.width for part in self.parts)

    def __call__(self, raw: Floats) -> Floats:
        """Project `raw`, (n, D) -> (n, d)."""
        slices = _split(raw, [len(part.mean) for part in self.parts])
        projected = [part(_of_length(each, 1.0)) for part, each in zip(self.parts, slices, strict=True)]
        rank = np.concatenate([np.arange(part.width) for part in self.parts])
        return np.concatenate(projected, axis=1)[:, np.argsort(rank, kind="stable")]


def _split(raw: Floats, widths: Sequence[int]) -> list[Floats]:
    return np.split(raw, np.cumsum(widths)[:-1], axis=1)


def fit_parts(
    sample: Floats,
    widths: Sequence[int],
    dimensions: int | None,
    whitening: float,
    norm: str,
    length: float,
) -> Projection | PartwiseProjection:
    """`fit_projection` of every part of the vectors; widths: theirs. All together have `length`."""
    if len(widths) < 2:
        return fit_projection(sample, dimensions, whitening, norm, length)
    share = length / len(widths) ** 0.5
    parts = [_of_length(each, 1.0) for each in _split(sample, widths)]
    return PartwiseProjection(
        tuple(fit_projection(part, dimensions, whitening, norm, share) for part in parts)
    )


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
    is_narrow = sample.shape[1] <= WIDEST_COVARIANCE
    solver, precision = ("covariance_eigh", np.float64) if is_narrow else ("randomized", np.float32)
    with one_thread():
        pca = PCA(min(dimensions, *sample.shape), svd_solver=solver, copy=False, random_state=0)
        pca.fit(sample.astype(precision))
    variance = pca.explained_variance_
    real = variance > LEAST_VARIANCE * variance[0]
    A = pca.components_[real].T / variance[real] ** whitening
    return pca.mean_.astype(np.float32), np.ascontiguousarray(A, np.float32)


def _of_length(x: Floats, length: float) -> Floats:
    """Each row of `x` scaled to `length`; rows of zeros stay."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * (np.float32(length) / np.where(norms > 0, norms, 1).astype(np.float32))
