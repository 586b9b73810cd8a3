"""How much the object maps are to be trusted, chosen by the tags alone. Beyond the paper.

Where objects are what a photo is taken of, the object maps know best where they are; where the class is a
texture or one card among many, they mislead. Nobody says which. But a prior that looks at the wrong place
makes it harder to tell the tags of photos that were not learned from: two streams are trained on some of the
photos with each of a few priors, and judged by the log-loss of the tags of the others,

    loss = mean over classes of ½ (mean over positive photos of -log φ_c + mean over others of -log(1 - φ_c))

The largest prior that loses hardly more than the best one is taken: the tags cannot tell one that is needed
for the extent of objects from one that is not, and a smaller one finds parts.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.compared import draw_images
from tag2box.description.record import Described
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.two_stream import SMALLEST, TwoStream, TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

__all__ = ["PRIORS", "PriorChoice", "choose_prior", "largest_good"]

Floats = NDArray[np.float64]

PRIORS = (0.0, 1.0, 2.0, 5.0)
# A prior that loses up to this share more than the best one is as good, or so many nats.
TOLERANCE, NATS = 0.1, 0.005
# What bounds the cost: photos, or photos of each class where that is more, and folds.
MOST_PHOTOS, PER_CLASS, FOLDS = 300, 30, 2


@stored
@dataclass(frozen=True)
class PriorChoice:
    """priors: those tried; losses: (n_priors, n_classes), NaN where a class cannot tell; prior: chosen."""

    priors: tuple[float, ...]
    losses: Floats
    prior: float

    @property
    def curve(self) -> Floats:
        """The loss of each prior, (n_priors,); NaN where no class can tell."""
        tells = np.isfinite(self.losses).all(axis=0)
        return np.asarray(self.losses[:, tells].mean(axis=1) if tells.any() else self.losses[:, 0])

    @property
    def evidence(self) -> str:
        """The losses, in words."""
        pairs = zip(self.priors, self.curve, strict=True)
        return f"the loss of left-out tags ({', '.join(f'{prior:g}: {loss:.3f}' for prior, loss in pairs)})"


@stage("prior", version=1)
def choose_prior(
    known: Known,
    alone: Objectness,
    config: TwoStreamConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> PriorChoice:
    """The prior of two streams that the tags speak for.

    alone: the objectness by maps that the tags of a photo do not share: that of photos whose tags are to be
    told. For each prior the cost of training on `MOST_PHOTOS` photos, or `PER_CLASS` of each class.
    """
    most = max(MOST_PHOTOS, PER_CLASS * known.tags.shape[1])
    drawn = np.flatnonzero(draw_images(known.tags, most))
    few = _take(known, drawn)
    apart = Objectness(alone.values[known.described.rows_of(drawn)], few.described.offsets)
    fold_of = np.random.default_rng(0).permutation(len(few)) % FOLDS
    losses = np.full((len(PRIORS), known.tags.shape[1]), np.nan)
    if len(few) < FOLDS:
        return PriorChoice(PRIORS, losses, PRIORS[-1])
    progress("choosing the prior", 0, len(PRIORS) * FOLDS)
    for p, prior in enumerate(PRIORS):
        settings = replace(config, prior=prior)
        phi = np.empty(few.tags.shape)
        for fold in range(FOLDS):
            head = train_two_stream(_take(few, np.flatnonzero(fold_of != fold)), settings, workers=workers)
            for i in np.flatnonzero(fold_of == fold):
                phi[i] = _tag_probabilities(head, few.described, apart, int(i))
            progress("choosing the prior", p * FOLDS + fold + 1, len(PRIORS) * FOLDS)
        losses[p] = _balanced_loss(phi, few.tags)
    return PriorChoice(PRIORS, losses, largest_good(PRIORS, losses))


def largest_good(priors: tuple[float, ...], losses: Floats) -> float:
    """The largest prior whose loss is within the tolerance of the least; the last where nobody can tell."""
    tells = np.isfinite(losses).all(axis=0)
    if not tells.any():
        return priors[-1]
    curve = losses[:, tells].mean(axis=1)
    limit = max((1 + TOLERANCE) * curve.min(), curve.min() + NATS)
    return max(prior for prior, loss in zip(priors, curve, strict=True) if loss <= limit)


def _take(known: Known, photos: NDArray[np.int64]) -> Known:
    """Some photos, in memory."""
    described, objectness = known.described, known.objectness
    assert objectness is not None
    rows = described.rows_of(photos)
    offsets = np.append(0, np.cumsum(described.counts[photos]))
    windows = Windows(described.windows.xyxy[rows], offsets, described.windows.sizes[photos])
    return Known(
        Described(windows, described.X[rows]),
        known.tags[photos],
        Objectness(objectness.values[rows], offsets),
    )


def _tag_probabilities(head: TwoStream, described: Described, alone: Objectness, i: int) -> Floats:
    """φ: the probability of each tag of a photo."""
    a, z = described.offsets[i], described.offsets[i + 1]
    if a == z:
        return np.full(len(head.b), np.nan)
    return np.asarray(np.exp(head.log_scores(described.X[a:z], alone[i])).sum(axis=0), np.float64)


def _balanced_loss(phi: Floats, tags: NDArray[np.int8]) -> Floats:
    """The mean of the loss of photos with a tag and of those without, (n_classes,); NaN where one lacks."""
    phi = np.clip(phi, SMALLEST, 1 - SMALLEST)
    out = np.full(tags.shape[1], np.nan)
    for c, column in enumerate(tags.T):
        known = np.isfinite(phi[:, c])
        positive, negative = phi[known & (column == 1), c], phi[known & (column == -1), c]
        if len(positive) and len(negative):
            out[c] = (-np.log(positive).mean() - np.log(1 - negative).mean()) / 2
    return out
