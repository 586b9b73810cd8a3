"""Two streams: what is in a window, and which window of its photo it is. Beyond the paper.

    a_jc = softmax over the classes, and "none of them", of w_cᵀx_j + b_c        what
    r_jc = softmax over the windows j of the photo of v_cᵀx_j + γ o_jc           where
    φ_c  = Σ_j a_jc r_jc                                  the photo's probability of class c

trained on tags alone: the mean over photos of -Σ_c log P(tag_c), plus λ/2 ‖(w, v)‖² (Bilen and Vedaldi 2016,
who train their network along; here features are frozen, and the objectness o is the prior of "where"). Latent
SVMs are trained one class against the rest, so that a horse may explain the tag "person"; here classes
compete for a window, and windows for a class.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tag2box.features.record import Features
from tag2box.runtime.blas import one_thread
from tag2box.runtime.checks import check_above, check_at_least
from tag2box.runtime.executor import n_workers
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent

__all__ = ["TwoStream", "TwoStreamConfig", "train_two_stream"]

Floats = NDArray[np.float32]

# Photos in a block: the unit of work of a thread, and of memory. Sums over blocks are added in their order:
# no bit depends on the number of threads.
BLOCK = 32
# Blocks whose gradients may wait to be added.
WAITING = 64
SMALLEST = 1e-7


@dataclass(frozen=True)
class TwoStreamConfig:
    """Settings of the head of two streams: what is in a window, and which window of its photo it is.

    Parameters
    ----------
    weight : float, default=0.5
        What the logarithm of its score adds to the score of a window. 0 leaves the stage out, as in the
        paper.
    prior : float, default=5.0
        γ: what the best objectness of a photo adds to the logit of "where".
    regularization : float, default=0.003
        λ: the penalty on the weights. With less, it finds parts of what is typical for the photos of a class.
    iterations : int, default=40
        The number of steps of L-BFGS.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.TwoStreamConfig(weight=0).prior
    5.0
    """

    weight: float = 0.5
    prior: float = 5.0
    regularization: float = 3e-3
    # Far from convergence, which these problems need not reach.
    iterations: int = 40

    def __post_init__(self) -> None:
        check_at_least(0, weight=self.weight, prior=self.prior)
        check_above(0, regularization=self.regularization)
        check_at_least(1, iterations=self.iterations)


@stored
@dataclass(frozen=True)
class TwoStream:
    """W, V: (n_classes, d) of "what" and "where"; b: (n_classes,); prior: γ; trace: the objectives."""

    W: Floats
    V: Floats
    b: Floats
    prior: float
    trace: tuple[float, ...] = ()

    def log_scores(self, X: NDArray[np.floating], objectness: Floats) -> Floats:
        """log a + log r of the windows of one photo, (n, n_classes), given their objectness."""
        if len(X) == 0:
            return np.empty((0, len(self.b)), np.float32)
        X = np.asarray(X, np.float32)
        what = X @ self.W.T + self.b
        where = X @ self.V.T + np.float32(self.prior) * objectness
        most = np.maximum(what.max(axis=1, keepdims=True), 0)
        what -= most + np.log(np.exp(what - most).sum(axis=1, keepdims=True) + np.exp(-most))
        where -= where.max(axis=0)
        where -= np.log(np.exp(where).sum(axis=0))
        return np.asarray(what + where, np.float32)


def train_two_stream(
    features: Features,
    tags: NDArray[np.int8],
    objectness: Floats,
    config: TwoStreamConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> TwoStream:
    """The head of all classes at once, by L-BFGS; objectness: (n_windows, n_classes).

    About `config.iterations` passes over the features. Memory: a block of photos per worker, 8 d bytes a
    window; features and prior may be mapped.
    """
    photos = np.flatnonzero(np.diff(features.offsets) > 0)
    blocks = [
        _Block(features, tags, objectness, photos[i : i + BLOCK], config.prior)
        for i in range(0, len(photos), BLOCK)
    ]
    d, n_classes = features.X.shape[1], tags.shape[1]
    trace: list[float] = []
    progress("two streams", 0, config.iterations)

    def note(intermediate_result: object) -> None:
        trace.append(float(intermediate_result.fun))  # type: ignore[attr-defined]
        progress("two streams", min(len(trace), config.iterations), config.iterations)

    with one_thread(), ThreadPoolExecutor(n_workers(workers)) as threads:

        def objective(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            T = theta.reshape(2 * n_classes, d + 1)
            value, gradient = 0.0, np.zeros_like(T)
            some = (blocks[i : i + WAITING] for i in range(0, len(blocks), WAITING))
            parts = (threads.map(lambda block: block(T.astype(np.float32)), each) for each in some)
            for loss, slope in chain.from_iterable(parts):
                value += loss / len(photos)
                gradient += slope / len(photos)
            weights = T[:, :d]
            gradient[:, :d] += config.regularization * weights
            return value + config.regularization / 2 * float((weights**2).sum()), gradient.ravel()

        start = np.zeros(2 * n_classes * (d + 1))
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=note,
            options={"maxiter": config.iterations, "ftol": 1e-6},
        )
    progress("two streams", config.iterations, config.iterations)
    T = found.x.reshape(2, n_classes, d + 1).astype(np.float32)
    return TwoStream(T[0, :, :d], T[1, :, :d], T[0, :, d], config.prior, tuple(trace))


class _Block:
    """Some photos: their part of the loss, and of its gradient by W | b over V | 0, (2 n_classes, d + 1)."""

    def __init__(
        self,
        features: Features,
        tags: NDArray[np.int8],
        objectness: Floats,
        photos: Sequence[int] | NDArray[np.intp],
        prior: float,
    ) -> None:
        spans = [(int(features.offsets[i]), int(features.offsets[i + 1])) for i in photos]
        self.X, self.objectness, self.factor, self.spans = features.X, objectness, np.float32(prior), spans
        self.start = np.cumsum([0, *(z - a for a, z in spans)])
        self.present, self.known = tags[photos] == 1, tags[photos] != 0

    def __call__(self, T: Floats) -> tuple[float, NDArray[np.float64]]:
        X = np.concatenate([self.X[a:z] for a, z in self.spans]).astype(np.float32)
        n_classes = len(T) // 2
        logits = X @ T[:, :-1].T
        what = _softmax_with_none(logits[:, :n_classes] + T[:n_classes, -1])
        where = logits[:, n_classes:] + np.concatenate(
            [self.factor * self.objectness[a:z] for a, z in self.spans]
        )
        for a, z in pairwise(self.start):
            where[a:z] = np.exp(where[a:z] - where[a:z].max(axis=0))
            where[a:z] /= where[a:z].sum(axis=0)
        both = what * where
        phi = np.clip(
            np.add.reduceat(both, self.start[:-1], axis=0).astype(np.float64), SMALLEST, 1 - SMALLEST
        )
        right = np.where(self.present, phi, 1 - phi)
        loss = -float(np.log(right)[self.known].sum())
        slope = np.where(self.known, np.where(self.present, -1, 1) / right, 0)  # of the loss by phi
        sizes = np.diff(self.start)
        by_window = both * np.repeat(slope, sizes, axis=0).astype(np.float32)
        by_what = by_window - what * by_window.sum(axis=1, keepdims=True)
        by_where = by_window - where * np.repeat(slope * phi, sizes, axis=0).astype(np.float32)
        by_logit = np.concatenate([by_what, by_where], axis=1)
        gradient = np.zeros(T.shape)
        gradient[:, :-1] = by_logit.T @ X
        gradient[:n_classes, -1] = by_what.sum(axis=0)
        return loss, gradient


def _softmax_with_none(logits: Floats) -> Floats:
    """Softmax over the classes and one more, "none of them", of logit 0; the classes' part."""
    most = np.maximum(logits.max(axis=1, keepdims=True), 0)
    power = np.exp(logits - most)
    return np.asarray(power / (power.sum(axis=1, keepdims=True) + np.exp(-most)))
