"""How much the object maps are to be trusted, chosen by the tags alone. Beyond the paper.

Where objects are what a photo is taken of, the object maps know best how far they reach; where the class is a
texture that is all over the photo, the maps mislead. Nobody says which, but tags do. Two streams are trained
on some of the photos, with a prior between, and find a box in each of the others. What do they see beside it?

    beside = mean over classes, their photos, and the windows j beside the box, of a_jc

On photos of animals the windows beside the box are hardly ever taken for an animal; on steel the kind of
defect is read off the plate anywhere, so that what a map shows of it is no object. The prior is the smaller,
the more of the class there is beside its boxes:

    γ = (SHARE / beside)^POWER,    from LEAST to MOST

Details, which the tags themselves have taught cell by cell, are trusted as far as any map: MOST.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import area
from tag2box.description.record import Described
from tag2box.images import draw_images
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.two_stream import TwoStream, TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

__all__ = ["BETWEEN", "LEAST", "MOST", "PriorChoice", "choose_prior"]

Floats = NDArray[np.float64]

# Near the best priors of four sets (animals 8 and more, cards 4 to 5, VOC 3 and a third of it 2 to 3, steel
# 0.5 to 1), whose windows beside the boxes say 0.08, 0.14, 0.18, 0.16 and 0.62: docs/experiments, folds.
SHARE, POWER = 0.42, 1.3
# With less than 1, boxes of fruit and of steel were right less often (docs/experiments, 19 November).
LEAST, BETWEEN, MOST = 1.0, 5.0, 8.0
# A window is beside a box when they share less of either than this.
SHARED = 0.1
# What bounds the cost: photos, or photos of each class where that is more, and folds.
MOST_PHOTOS, PER_CLASS, FOLDS = 300, 30, 2


@stored
@dataclass(frozen=True)
class PriorChoice:
    """beside: (n_classes,), how sure windows beside the boxes are of a class, or NaN; prior: what follows.

    small: objects are small, and their details were trusted without asking.
    """

    beside: Floats
    prior: float
    small: bool = False

    @property
    def evidence(self) -> str:
        """What it was chosen by, in words."""
        if self.small:
            return "the objects are small: details that the tags have taught say where they are"
        known = self.beside[np.isfinite(self.beside)]
        if len(known) == 0:
            return "nothing: no photo shows anything beside its boxes"
        return f"how sure windows beside the boxes are of the tag ({known.mean():.2f} of 1 on average)"


@stage("prior", version=8)
def choose_prior(
    known: Known, config: TwoStreamConfig, *, workers: int | None = 1, progress: Progress = silent
) -> PriorChoice:
    """The prior of two streams that the tags speak for.

    The cost of training once on `MOST_PHOTOS` photos, or on `PER_CLASS` of each class.
    """
    if known.described.details is not None:
        return PriorChoice(np.full(known.tags.shape[1], np.nan), MOST, small=True)
    most = max(MOST_PHOTOS, PER_CLASS * known.tags.shape[1])
    few = _take(known, np.flatnonzero(draw_images(known.tags, most)))
    fold_of = np.random.default_rng(0).permutation(len(few)) % FOLDS
    sure = np.full(few.tags.shape, np.nan)
    progress("choosing the prior", 0, FOLDS)
    for fold in range(FOLDS if len(few) >= FOLDS else 0):
        learned = _take(few, np.flatnonzero(fold_of != fold))
        head = train_two_stream(learned, replace(config, prior=BETWEEN), workers=workers)
        for i in np.flatnonzero(fold_of == fold).tolist():
            sure[i] = _beside(head, few, i)
        progress("choosing the prior", fold + 1, FOLDS)
    told = np.isfinite(sure)
    beside = np.full(known.tags.shape[1], np.nan)
    np.divide(np.where(told, sure, 0).sum(axis=0), told.sum(axis=0), out=beside, where=told.any(axis=0))
    return PriorChoice(beside, _prior(beside))


def _prior(beside: Floats) -> float:
    """γ; the one between where no class can tell."""
    told = beside[np.isfinite(beside)]
    if len(told) == 0:
        return BETWEEN
    return round(float(np.clip((SHARE / max(told.mean(), 1e-6)) ** POWER, LEAST, MOST)), 1)


def _beside(head: TwoStream, few: Known, i: int) -> Floats:
    """How sure the windows beside the box of each tag of a photo are of it, on average; NaN without any."""
    described, objectness = few.described, few.objectness
    assert objectness is not None
    windows, X = described.windows[i], described.X[described.offsets[i] : described.offsets[i + 1]]
    out = np.full(few.tags.shape[1], np.nan)
    if len(windows) == 0:
        return out
    what, scores = np.exp(head.log_what(X)), head.log_scores(X, objectness[i])
    for c in np.flatnonzero(few.tags[i] == 1):
        box = windows[scores[:, c].argmax()]
        beside = _shared(windows, box) < SHARED
        if beside.any():
            out[c] = what[beside, c].mean()
    return out


def _shared(windows: NDArray[np.float32], box: NDArray[np.float32]) -> NDArray[np.float32]:
    """The intersection of each window and the box, as a share of the smaller of them."""
    sides = np.minimum(windows[:, 2:], box[2:]) - np.maximum(windows[:, :2], box[:2])
    return np.asarray(np.prod(np.maximum(sides, 0), axis=1) / np.minimum(area(windows), area(box[None])))


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
