"""Learning with corrections: an SVM on the boxes that a person accepted, near the one learned from tags.

Positives of a class are its accepted boxes, with features of the boxes themselves, and the windows nearest to
them. Negatives are rejected boxes, windows that overlap an accepted one a little, all windows of photos
without the class and, in a photo that was reviewed as a whole, every window that overlaps no accepted box:

    ½‖w - ρ w₀‖² + C Σ loss,    ρ = m / (m + n)

w₀ are the weights learned from tags, which count as much as m accepted boxes; n is how many there are. Where
there are two streams, they learn first (`corrected_head`), and the boxes that are then found in the other
photos, half of them by an SVM of the other half (`folds`), are positives too. Without two streams, those that
the tags found are, in a class of which most that were judged are right: elsewhere they would hold the
corrections back (docs/experiments).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.corrections.record import Corrections
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.calibration import judged_shift
from tag2box.training.corrected_head import REJECTED, teach_head
from tag2box.training.extents import grow_findings
from tag2box.training.findings import Best, Findings, ScoresByPhoto, best_windows, sure_findings
from tag2box.training.folds import FOLDS, draw_folds, search_folds
from tag2box.training.initial import train_svms
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.retraining import Found, RetrainConfig, label_near, label_windows
from tag2box.training.scorer import Scorer, score_known
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream, TwoStreamConfig
from tag2box.windows.record import Windows
from tag2box.windows.spans import Spans

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


@stage("corrected", version=6)
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
    known, scorer, head = replace(learned.known, tags=corrections.tags), learned.scorer, None
    windows, unseen = known.described.windows, None
    train = partial(_train, known, judged, corrections, scorer.weights, config, workers=workers)
    if scorer.two_stream is None:
        rows = [_trusted(windows, corrections, learned.findings, c) for c in range(len(scorer.weights.b))]
        found = Found.windows(windows, rows)
    else:
        head = teach_head(known, corrections, scorer.two_stream, streams, workers=workers, progress=progress)
        scorer = replace(scorer, two_stream=head)
        found = _find_anew(known, corrections, scorer, config, train, workers)
        unseen = found.unseen if config.rounds else None
    scorer = replace(scorer, weights=train(found, progress=progress))
    greatest: list[Floats] = []

    def scores() -> Iterator[Floats]:
        for with_tags, without in score_known(scorer, learned.known):
            greatest.append(without.max(axis=0, initial=-np.inf))
            yield with_tags

    choice = _choose(windows, corrections, _open_tags(corrections), scores(), vote_iou)
    shift = _shift(windows, corrections, learned.findings)
    findings = sure_findings(choice, known, unseen or np.stack(greatest), shift)
    if learned.findings.growth is not None:
        findings = grow_findings(findings, learned.findings.growth, windows)
    return Corrected(scorer.weights, findings, head)


def _train(
    known: Known,
    judged: NDArray[np.floating],
    corrections: Corrections,
    start: Weights,
    config: RetrainConfig,
    found: Found,
    photos: NDArray[np.bool_] | None = None,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Weights:
    """The SVM of every class, near those that start from tags. photos: those to learn from, if not all."""
    right = corrections.right if photos is None else corrections.right & photos[corrections.image]
    share = FROM_TAGS / (FROM_TAGS + np.bincount(corrections.label[right], minlength=len(start.b)))
    return train_svms(
        cast(NDArray[np.floating], _Stacked(known.described.X, judged)),
        *label_judged(known.described.windows, corrections, found, config, photos),
        replace(config.svm, C=SURE * config.C),
        center=Weights(share[:, None] * start.W, share * start.b),
        workers=workers,
        progress=progress,
        label="learning with corrections",
    )


def _find_anew(
    known: Known,
    corrections: Corrections,
    scorer: Scorer,
    config: RetrainConfig,
    train: Callable[..., Weights],
    workers: int | None,
) -> Found:
    """The boxes in photos where nobody judged the class, found anew as without corrections (`folds`).

    At first by the head that knows the corrections and the SVM that does not, which has seen all photos.
    """
    fold = np.zeros(len(known), np.int64)
    by_fold = [scorer.weights]
    for round_ in range(config.rounds + 1):
        found = search_folds(known, fold, by_fold, scorer, config.vote_iou, workers=workers)
        found = _unjudged(known.described.windows, corrections, found)
        if round_ < config.rounds:
            fold = draw_folds(len(known), config.seed)
            by_fold = [train(found, fold != k) for k in range(FOLDS)]
    return found


def _unjudged(windows: Windows, corrections: Corrections, found: Found) -> Found:
    """What was found in photos where nobody judged the class."""
    kept = [~_judged(corrections, c)[windows.image_of(rows)] for c, rows in enumerate(found.rows)]
    return Found(
        tuple(rows[own] for rows, own in zip(found.rows, kept, strict=True)),
        tuple(boxes[own] for boxes, own in zip(found.boxes, kept, strict=True)),
        found.unseen,
    )


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
    windows: Windows,
    corrections: Corrections,
    found: Found,
    config: RetrainConfig,
    photos: NDArray[np.bool_] | None = None,
) -> tuple[list[Rows], list[Spans]]:
    """The positives and the negatives of each class: rows of the windows, then of the judged boxes.

    found: what is taken for the object in photos without an accepted box; photos: those to learn from.
    """
    positives, negatives = label_windows(windows, corrections.tags, found, config, photos)
    for c in range(len(found.rows)):
        near_boxes, others = [positives[c]], [np.empty(0, np.int64)]
        judged = corrections.label == c
        judged &= True if photos is None else photos[corrections.image]
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
