"""Two streams: what is in a window, and which window of its photo it is. Beyond the paper.

    a_jc = softmax over the classes, and "none of them", of w_cᵀx_j + b_c        what
    r_jc = softmax over the windows j of the photo of v_cᵀx_j + γ o_jc           where
    φ_c  = Σ_j a_jc r_jc                                  the photo's probability of class c

trained on tags alone: the mean over photos of -Σ_c log P(tag_c), plus λ/2 ‖(w, v)‖² (Bilen and Vedaldi 2016,
who train their network along; here features are frozen, and the objectness o is the prior of "where"). Latent
SVMs are trained one class against the rest, so that a horse may explain the tag "person"; here classes
compete for a window, and windows for a class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tag2box.errors import InputError
from tag2box.runtime.checks import Choice, Range
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_threads
from tag2box.runtime.halves import as_float32
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.known import Known

Floats = NDArray[np.float32]

# Photos in a block, whose vectors stay in the processor's cache between two products.
BLOCK = 4
# A part is what a thread or a worker of a cluster does at a time: at least SMALL photos, and at most PARTS
# parts in all. Sums over them are added in their order: no bit depends on the number of workers.
SMALL, PARTS = 32, 256
SMALLEST = 1e-7


@dataclass(frozen=True)
class TwoStreamConfig(Settings):
    """Settings of the head of two streams: what is in a window, and which window of its photo it is.

    Parameters
    ----------
    weight : float, default=0.5
        What the logarithm of its score adds to the score of a window.
    prior : float or "auto", default="auto"
        γ: what the best objectness of a photo adds to the logit of "where". "auto" is what the tags speak
        for (`training/prior.py`).
    regularization : float, default=0.003
        λ: the penalty on the weights. With less, it finds parts of what is typical for the photos of a class.
    iterations : int, default=40
        The number of steps of L-BFGS.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.TwoStreamConfig(weight=1).prior
    'auto'
    """

    weight: Annotated[float, Range(0, 1000)] = 0.5
    # On VOC 3.5 is best, on a texture 0 to 1, among playing cards 5, for animals 8.
    prior: Annotated[float, Range(0, 1000)] | Annotated[str, Choice("auto")] = "auto"
    regularization: Annotated[float, Range(1e-9, 1000)] = 3e-3
    # Far from convergence, which these problems need not reach.
    iterations: Annotated[int, Range(1, 10_000)] = 40


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
        X = X if X.dtype == np.float32 else as_float32(X)
        where = X @ self.V.T + np.float32(self.prior) * objectness
        where -= where.max(axis=0)
        where -= np.log(np.exp(where).sum(axis=0))
        return np.asarray(self.log_what(X) + where, np.float32)

    def log_what(self, X: NDArray[np.floating]) -> Floats:
        """log a of some windows, (n, n_classes)."""
        X = X if X.dtype == np.float32 else as_float32(X)
        what = X @ self.W.T + self.b
        most = np.maximum(what.max(axis=1, keepdims=True), 0)
        return np.asarray(
            what - (most + np.log(np.exp(what - most).sum(axis=1, keepdims=True) + np.exp(-most)))
        )


@dataclass(frozen=True)
class Shown:
    """What a person has shown of where the objects are: tags of windows.

    windows: of each such photo, by its number, which of its windows may be the object of each class, (n_i,
    n_classes): only these add to φ. weight: (n_photos, n_classes), how much each tag counts.
    """

    windows: Mapping[int, NDArray[np.bool_]]
    weight: Floats


@stage("two_stream", version=1)
def train_two_stream(
    known: Known,
    config: TwoStreamConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> TwoStream:
    """The head of all classes at once, by L-BFGS, from tags alone."""
    return fit_two_stream(known, config, workers=workers, progress=progress)


def fit_two_stream(
    known: Known,
    config: TwoStreamConfig,
    shown: Shown | None = None,
    start: TwoStream | None = None,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> TwoStream:
    """The same with what a person has shown, from zeros or from another head.

    About `config.iterations` passes over the features, in parts on the workers. Memory: a block of photos and
    some gradients a worker; features and prior may be mapped.
    """
    if isinstance(config.prior, str):
        raise InputError("the prior is still open: choose_prior chooses it")
    prior = config.prior
    parts = _parts(known, shown)
    n_photos = sum(len(part.tags) for part in parts)
    d, n_classes = known.described.X.shape[1], known.tags.shape[1]
    trace: list[float] = []
    progress("two streams", 0, config.iterations)

    def note(intermediate_result: object) -> None:
        trace.append(float(intermediate_result.fun))  # type: ignore[attr-defined]
        progress("two streams", min(len(trace), config.iterations), config.iterations)

    def objective(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        T = theta.reshape(2 * n_classes, d + 1)
        of_part = partial(_loss_of, T.astype(np.float32), np.float32(prior))
        value, gradient = 0.0, np.zeros_like(T)
        for loss, slope in map_threads(of_part, parts, workers=workers):
            value += loss / n_photos
            gradient += slope / n_photos
        weights = T[:, :d]
        gradient[:, :d] += config.regularization * weights
        return value + config.regularization / 2 * float((weights**2).sum()), gradient.ravel()

    solution = minimize(
        objective,
        _start(start, n_classes, d),
        jac=True,
        method="L-BFGS-B",
        callback=note,
        options={"maxiter": config.iterations, "ftol": 1e-6},
    )
    parts.clear()  # older scipys keep the objective, and what it holds, until garbage is collected
    progress("two streams", config.iterations, config.iterations)
    T = solution.x.reshape(2, n_classes, d + 1).astype(np.float32)
    return TwoStream(T[0, :, :d], T[1, :, :d], T[0, :, d], prior, tuple(trace))


def _start(head: TwoStream | None, n_classes: int, d: int) -> NDArray[np.float64]:
    theta = np.zeros((2, n_classes, d + 1))
    if head is not None:
        theta[0, :, :d], theta[0, :, d], theta[1, :, :d] = head.W, head.b, head.V
    return theta.ravel()


class _Part(NamedTuple):
    """Some photos that follow each other, each with windows.

    X: (n, d) and objectness: (n, n_classes) of their windows, mapped; offsets: (n_photos + 1,) from 0; tags,
    weight: (n_photos, n_classes); shown: (n, n_classes), the windows that may be objects, None for all.
    """

    X: NDArray[np.floating]
    objectness: Floats
    offsets: NDArray[np.int64]
    tags: NDArray[np.int8]
    weight: Floats | None = None
    shown: NDArray[np.bool_] | None = None

    def block(self, i: int) -> "_Part":
        """A few photos of it, from photo i on."""
        offsets, photos = self.offsets[i : i + BLOCK + 1], slice(i, i + BLOCK)
        rows = slice(offsets[0], offsets[-1])
        weight = None if self.weight is None else self.weight[photos]
        shown = None if self.shown is None else self.shown[rows]
        here = self.X[rows], self.objectness[rows], offsets - offsets[0], self.tags[photos]
        return _Part(*here, weight, shown)


def _parts(known: Known, shown: Shown | None = None) -> list[_Part]:
    assert known.objectness is not None  # it is the prior of "where"
    X, offsets, objectness = known.described.X, known.described.offsets, known.objectness.values
    photos = np.flatnonzero(np.diff(offsets) > 0)
    size = max(SMALL, -(-len(photos) // PARTS))
    parts = []
    for i in range(0, len(photos), size):
        chosen = photos[i : i + size]
        # Photos between them have no windows.
        bounds = np.append(offsets[chosen], offsets[chosen[-1] + 1])
        rows = slice(int(bounds[0]), int(bounds[-1]))
        person = _shown(shown, chosen, bounds - bounds[0]) if shown is not None else ()
        parts.append(_Part(X[rows], objectness[rows], bounds - bounds[0], known.tags[chosen], *person))
    return parts


def _shown(
    shown: Shown, photos: NDArray[np.intp], offsets: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_] | None]:
    """The weights of some photos' tags, and which of their windows may be objects; None for all."""
    weight = shown.weight[photos]
    if not any(int(i) in shown.windows for i in photos):
        return weight, None
    windows = np.ones((int(offsets[-1]), weight.shape[1]), np.bool_)
    for i, a, z in zip(photos.tolist(), offsets[:-1], offsets[1:], strict=True):
        if i in shown.windows:
            windows[a:z] = shown.windows[i]
    return weight, windows


def _loss_of(T: Floats, prior: np.float32, part: _Part) -> tuple[float, NDArray[np.float64]]:
    """The loss of some photos, and its gradient by T = W | b over V | 0, (2 n_classes, d + 1)."""
    loss, gradient = 0.0, np.zeros(T.shape)
    for i in range(0, len(part.tags), BLOCK):
        loss += _add_block(T, prior, part.block(i), gradient)
    return loss, gradient


def _add_block(T: Floats, prior: np.float32, block: _Part, gradient: NDArray[np.float64]) -> float:
    """The loss of a few photos; its gradient is added."""
    X, start, sizes = as_float32(block.X), block.offsets[:-1], np.diff(block.offsets)
    present, known = block.tags == 1, block.tags != 0
    n_classes = len(T) // 2
    logits = X @ T[:, :-1].T
    what = _softmax_with_none(logits[:, :n_classes] + T[:n_classes, -1])
    where = logits[:, n_classes:] + prior * block.objectness
    for a, z in pairwise(block.offsets):
        where[a:z] = np.exp(where[a:z] - where[a:z].max(axis=0))
        where[a:z] /= where[a:z].sum(axis=0)
    both = what * where if block.shown is None else what * where * block.shown
    phi = np.clip(np.add.reduceat(both, start, axis=0).astype(np.float64), SMALLEST, 1 - SMALLEST)
    right = np.where(present, phi, 1 - phi)
    weight = known if block.weight is None else known * block.weight
    slope = weight * np.where(present, -1, 1) / right  # of the loss by phi
    by_window = both * np.repeat(slope, sizes, axis=0).astype(np.float32)
    by_what = by_window - what * by_window.sum(axis=1, keepdims=True)
    by_where = by_window - where * np.repeat(slope * phi, sizes, axis=0).astype(np.float32)
    gradient[:, :-1] += np.concatenate([by_what, by_where], axis=1).T @ X
    gradient[:n_classes, -1] += by_what.sum(axis=0)
    return -float((np.log(right) * weight)[known].sum())


def _softmax_with_none(logits: Floats) -> Floats:
    """Softmax over the classes and one more, "none of them", of logit 0; the classes' part."""
    most = np.maximum(logits.max(axis=1, keepdims=True), 0)
    power = np.exp(logits - most)
    return np.asarray(power / (power.sum(axis=1, keepdims=True) + np.exp(-most)))
