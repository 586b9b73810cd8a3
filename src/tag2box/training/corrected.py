"""Learning with corrections: an SVM on the boxes that a person accepted, near the one learned from tags.

Positives of a class are its accepted boxes, with features of the boxes themselves, and the windows nearest to
them. Negatives are rejected boxes, windows that overlap an accepted one a little, all windows of photos
without the class and, in a photo that was reviewed as a whole, every window that overlaps no accepted box:

    ½‖w - ρ w₀‖² + C Σ loss,    ρ = m / (m + n)

w₀ are the weights learned from tags, which count as much as m accepted boxes; n is how many there are. Boxes
that nobody judged are positives too in a class of which most that were judged are right: elsewhere they would
hold the corrections back (docs/experiments). The detector that comes of it finds the boxes of the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections.record import Corrections
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.calibration import Calibration, calibrate
from tag2box.training.findings import Best, Findings, ScoresByPhoto, best_windows
from tag2box.training.initial import train_svms
from tag2box.training.learned import Learned
from tag2box.training.retraining import RetrainConfig, label_near, label_windows
from tag2box.training.scorer import score_known
from tag2box.training.scoring import Weights
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

__all__ = ["Corrected", "label_judged", "learn_corrected"]

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

# A window that overlaps a rejected box by more is that box, and rejected too.
REJECTED = 0.7
# m: the weights learned from tags count as much as so many accepted boxes.
FROM_TAGS = 5.0
# Boxes that nobody judged are learned from where a greater share of those judged was right.
TRUSTED = 0.6
# The overlap from which a box is right.
RIGHT = 0.5
# A window counts so many times more than in `retrain`: few are given, and they are right.
SURE = 10.0


@dataclass(frozen=True)
class _Stacked:
    """Two arrays of rows as one, without a copy: what training asks of X and no more."""

    first: NDArray[np.floating]
    more: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.first.shape[1]

    def __len__(self) -> int:
        return len(self.first) + len(self.more)

    def __getitem__(self, rows: Any) -> NDArray[np.floating]:
        n = len(self.first)
        if isinstance(rows, slice):
            a, z, _ = rows.indices(len(self))
            return np.concatenate([self.first[a : min(z, n)], self.more[max(a - n, 0) : max(z - n, 0)]])
        out = np.empty((len(rows), self.first.shape[1]), self.first.dtype)
        own = rows < n
        out[own], out[~own] = self.first[rows[own]], self.more[rows[~own] - n]
        return out


@stored
@dataclass(frozen=True)
class Corrected:
    """The weights of every class with what a person said, and what they find."""

    weights: Weights
    findings: Findings


@stage("corrected", version=1)
def learn_corrected(
    judged: NDArray[np.floating],
    corrections: Corrections,
    learned: Learned,
    config: RetrainConfig,
    vote_iou: float,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Corrected:
    """The detector of every class with what a person said, from the one without.

    judged: the vectors of the judged boxes themselves.
    """
    described, start = learned.known.described, learned.scorer.weights
    accepted = np.bincount(corrections.label[corrections.right], minlength=len(start.b))
    boxes = [_trusted(described.windows, corrections, learned.findings, c) for c in range(len(accepted))]
    positives, negatives = label_judged(described.windows, corrections, boxes, config)
    share = FROM_TAGS / (FROM_TAGS + accepted)
    weights = train_svms(
        cast(NDArray[np.floating], _Stacked(described.X, judged)),
        positives,
        negatives,
        replace(config.svm, C=SURE * config.C),
        center=Weights(share[:, None] * start.W, share * start.b),
        workers=workers,
        progress=progress,
        label="learning with corrections",
    )
    best: list[Floats] = []

    def scores() -> Iterator[Floats]:
        for with_tags, _ in score_known(replace(learned.scorer, weights=weights), learned.known):
            best.append(with_tags.max(axis=0, initial=-np.inf))
            yield with_tags

    choice = _choose(described.windows, corrections, _open_tags(corrections), scores(), vote_iou)
    curves = calibrate(np.stack(best), corrections.tags)
    reliability = learned.findings.calibration.reliability
    return Corrected(weights, Findings(*choice, Calibration(curves, reliability)))


def _trusted(windows: Windows, corrections: Corrections, findings: Findings, c: int) -> Rows:
    """The windows found in photos where nobody judged class c; none where too few of those judged were right.

    Without any accepted box there is nothing better, and they stand for the class.
    """
    rows, boxes = findings.rows[c], findings.boxes[c]
    image, of_class = windows.image_of(rows), corrections.label == c
    accepted = of_class & corrections.right
    judged = corrections.reviewed.copy()
    judged[corrections.image[of_class]] = True
    known = [
        iou_matrix(boxes[[n]], corrections.xyxy[accepted & (corrections.image == image[n])]).max(initial=0)
        for n in np.flatnonzero(judged[image])
    ]
    share = (sum(overlap >= RIGHT for overlap in known) + 1) / (len(known) + 2)
    if accepted.any() and share <= TRUSTED:
        return np.empty(0, np.int64)
    return np.asarray(rows[~judged[image] & (corrections.tags[image, c] == 1)])


def _open_tags(corrections: Corrections) -> NDArray[np.int8]:
    """The tags, without those of which a person has shown the object."""
    tags = corrections.tags.copy()
    tags[corrections.image[corrections.right], corrections.label[corrections.right]] = 0
    return tags


def _choose(
    windows: Windows, corrections: Corrections, tags: NDArray[np.int8], scores: ScoresByPhoto, vote_iou: float
) -> Best:
    """The best window of each photo that has the class and no accepted box.

    It is never one that was rejected. Where something was, it stays as it is: windows that vote might move it
    back there.
    """
    best = best_windows(windows, tags, _allowed(windows, corrections, scores), vote_iou)
    judged = np.isin(np.arange(len(windows)), corrections.image[~corrections.right])
    kept = []
    for rows, best_scores, boxes in zip(*best, strict=True):
        finite = np.isfinite(best_scores)
        unmoved = np.where(judged[windows.image_of(rows)][:, None], windows.xyxy[rows], boxes)
        kept.append((rows[finite], best_scores[finite], unmoved[finite]))
    return Best(*zip(*kept, strict=True))


def _allowed(windows: Windows, corrections: Corrections, scores: ScoresByPhoto) -> Iterator[Floats]:
    """The scores of each photo, -inf for windows that were rejected."""
    wrong = np.flatnonzero(~corrections.right)
    judged = set(corrections.image[wrong].tolist())
    for i, of_photo in enumerate(scores):
        allowed = of_photo
        if i in judged:
            allowed = of_photo.copy()
            for k in wrong[corrections.image[wrong] == i]:
                same = iou_matrix(windows[i], corrections.xyxy[k, None])[:, 0] > REJECTED
                allowed[same, corrections.label[k]] = -np.inf
        yield allowed


def label_judged(
    windows: Windows, corrections: Corrections, boxes: Sequence[Rows], config: RetrainConfig
) -> tuple[list[Rows], list[Spans]]:
    """The positives and the negatives of each class: rows of the windows, then of the judged boxes.

    boxes: of each class, the window that is taken for the object in photos without an accepted box.
    """
    positives, negatives = label_windows(windows, corrections.tags, boxes, config)
    for c in range(len(boxes)):
        near_boxes, others = [positives[c]], [np.empty(0, np.int64)]
        judged = corrections.label == c
        for image in np.unique(corrections.image[judged]).tolist():
            here = judged & (corrections.image == image)
            right, wrong = np.flatnonzero(here & corrections.right), np.flatnonzero(here & ~corrections.right)
            if len(right):
                whole = bool(corrections.reviewed[image])
                near, around = label_near(windows, image, corrections.xyxy[right], config, everything=whole)
                near_boxes += [len(windows.xyxy) + right, near]
                others.append(around)
                overlap = iou_matrix(corrections.xyxy[wrong], corrections.xyxy[right]).max(axis=1)
                wrong = wrong[overlap < config.near[1]]
            others.append(len(windows.xyxy) + wrong)
        positives[c] = np.concatenate(near_boxes)
        negatives[c] |= Spans.of_rows(np.concatenate(others))
    return positives, negatives
