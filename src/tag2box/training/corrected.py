"""Learning with corrections: an SVM on the boxes that a person accepted, near the one learned from tags.

Positives of a class are its accepted boxes, with features of the boxes themselves, and the windows nearest to
them. Negatives are rejected boxes, windows that overlap an accepted one a little, all windows of photos
without the class and, in a photo that was reviewed as a whole, every window that overlaps no accepted box:

    ½‖w - ρ w₀‖² + C Σ loss,    ρ = m / (m + n)

w₀ are the weights learned from tags, which count as much as m accepted boxes; n is how many there are. Where
there are two streams, they learn first (`corrected_head`), and the boxes that they then find in the other
photos are positives too. Without them, those that the tags found are, in a class of which most that were
judged are right: elsewhere they would hold the corrections back (docs/experiments).
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
from tag2box.training.calibration import calibrate, judged_shift
from tag2box.training.corrected_head import REJECTED, teach_head
from tag2box.training.findings import Best, Findings, ScoresByPhoto, best_windows, sure_findings
from tag2box.training.initial import train_svms
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.retraining import Found, RetrainConfig, find_boxes, label_near, label_windows
from tag2box.training.scorer import score_known
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream, TwoStreamConfig
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

__all__ = ["Corrected", "label_judged", "learn_corrected"]

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

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
    """The weights of every class with what a person said, those of the two streams, and what they find."""

    weights: Weights
    findings: Findings
    two_stream: TwoStream | None = None


@stage("corrected", version=3)
def learn_corrected(
    judged: NDArray[np.floating],
    corrections: Corrections,
    learned: Learned,
    config: RetrainConfig,
    streams: TwoStreamConfig,
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
    scorer, head = learned.scorer, learned.scorer.two_stream
    if head is None:
        boxes = [_trusted(described.windows, corrections, learned.findings, c) for c in range(len(accepted))]
    else:
        head = teach_head(learned.known, corrections, head, streams, workers=workers, progress=progress)
        scorer = replace(scorer, two_stream=head)
        boxes = _found(replace(learned.known, tags=corrections.tags), head, corrections, workers)
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
        for with_tags, _ in score_known(replace(scorer, weights=weights), learned.known):
            best.append(with_tags.max(axis=0, initial=-np.inf))
            yield with_tags

    choice = _choose(described.windows, corrections, _open_tags(corrections), scores(), vote_iou)
    curves = calibrate(np.stack(best), corrections.tags)
    shift = _shift(described.windows, corrections, learned.findings)
    return Corrected(weights, sure_findings(choice, curves, learned.known, shift), head)


def _found(known: Known, head: TwoStream, corrections: Corrections, workers: int | None) -> list[Rows]:
    """The windows that the head finds in photos where nobody judged the class."""
    windows = known.described.windows
    rows = find_boxes(known, head, workers=workers).rows
    return [of_class[~_judged(corrections, c)[windows.image_of(of_class)]] for c, of_class in enumerate(rows)]


def _judged(corrections: Corrections, c: int) -> NDArray[np.bool_]:
    """The photos in which a box of class c was judged, or that were reviewed as a whole."""
    judged = corrections.reviewed.copy()
    judged[corrections.image[corrections.label == c]] = True
    return judged


def _trusted(windows: Windows, corrections: Corrections, findings: Findings, c: int) -> Rows:
    """The windows found in photos where nobody judged class c; none where too few of those judged were right.

    Without any accepted box there is nothing better, and they stand for the class.
    """
    judged, right = _verdicts(windows, corrections, findings, c)
    share = (right.sum() + 1) / (len(right) + 2)
    if (corrections.right & (corrections.label == c)).any() and share <= TRUSTED:
        return np.empty(0, np.int64)
    rows = findings.rows[c]
    return np.asarray(rows[~judged & (corrections.tags[windows.image_of(rows), c] == 1)])


def _verdicts(
    windows: Windows, corrections: Corrections, findings: Findings, c: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which boxes found of class c are in photos where it was judged, (n,), and which of those are right."""
    image = windows.image_of(findings.rows[c])
    judged = _judged(corrections, c)[image]
    accepted = (corrections.label == c) & corrections.right
    overlap = [
        iou_matrix(findings.boxes[c][[n]], corrections.xyxy[accepted & (corrections.image == image[n])])
        for n in np.flatnonzero(judged)
    ]
    return judged, np.array([each.max(initial=0) >= RIGHT for each in overlap], np.bool_)


def _shift(windows: Windows, corrections: Corrections, findings: Findings) -> NDArray[np.float64]:
    """What is added to the logits of each class's confidences, by which of its boxes were right."""
    shifts = []
    for c, confidence in enumerate(findings.confidence):
        judged, right = _verdicts(windows, corrections, findings, c)
        shifts.append(judged_shift(confidence[judged], right))
    return np.array(shifts)


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
    for rows, best_scores, boxes, shares in zip(*best, strict=True):
        finite = np.isfinite(best_scores)
        unmoved = np.where(judged[windows.image_of(rows)][:, None], windows.xyxy[rows], boxes)
        kept.append((rows[finite], best_scores[finite], unmoved[finite], shares[finite]))
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
    found = Found.windows(windows, boxes)
    positives, negatives = label_windows(windows, corrections.tags, found, config)
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
