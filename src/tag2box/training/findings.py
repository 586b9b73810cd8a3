"""What a detector finds in the photos it learned from: the best window of each positive one, and its box."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import nms, vote
from tag2box.runtime.executor import map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.training.calibration import Calibration, score_curves
from tag2box.training.confidence import SMALLEST, Traits, overlaps
from tag2box.training.known import Known
from tag2box.training.scorer import Scorer, score_known
from tag2box.training.unseen import Unseen
from tag2box.windows.record import Windows

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
# The scores of each photo's windows for every class, (n_i, n_classes), one photo after another.
ScoresByPhoto = Iterable[Floats]

# A window that overlaps a better one by more is not another place, as in detection.
ANOTHER = 0.3


class Best(NamedTuple):
    """The best window of each positive photo, in order, for each class: row of X, score, and voted box.

    shares: log softmax of the score among those of the photo's other places.
    """

    rows: tuple[Rows, ...]
    scores: tuple[NDArray[np.float64], ...]
    boxes: tuple[Floats, ...]
    shares: tuple[NDArray[np.float64], ...]


@stored
@dataclass(frozen=True)
class Findings:
    """The box of each positive photo, for each class, and how sure one can be of a score.

    rows: of X, the windows of the best scores; scores: theirs; boxes: (n, 4), where the windows near them say
    that the objects are; confidence: how likely each is right; features: (n, n_features), what tells that.
    growth: (n_classes,), the share of its width or height by which each side was moved out (`extents`).
    """

    rows: tuple[Rows, ...]
    scores: tuple[NDArray[np.float64], ...]
    boxes: tuple[Floats, ...]
    confidence: tuple[NDArray[np.float64], ...]
    features: tuple[NDArray[np.float64], ...]
    calibration: Calibration
    growth: NDArray[np.float64] | None = None


@stage("findings", version=11)
def find_best(
    scorer: Scorer,
    known: Known,
    vote_iou: float,
    unseen: Unseen | None = None,
    *,
    workers: int | None = 1,
) -> Findings:
    """What the scorer finds in the photos learned from.

    vote_iou: the windows near the best one that vote on where the object is (`boxes.vote`). unseen: what SVMs
    say that have not seen the photo, whose scores are like those of new photos; None takes the scores of this
    one. One pass over the vectors and the maps, part by part.
    """
    done = list(map_threads(partial(_find_best, scorer, vote_iou), known.parts(), workers=workers))
    greatest = np.concatenate([own for _, own in done])
    return sure_findings(join_best([best for best, _ in done]), known, unseen or greatest)


def _find_best(scorer: Scorer, vote_iou: float, part: tuple[int, Known]) -> tuple[Best, Floats]:
    """The best windows by all that is known, and the best scores without tags."""
    first, known = part
    windows, unaided = known.described.windows, []

    def scores() -> Iterator[Floats]:
        for with_tags, without in score_known(scorer, known):
            unaided.append(without.max(axis=0, initial=-np.inf))
            yield with_tags

    return best_windows(windows, known.tags, scores(), vote_iou, first), np.stack(unaided)


def sure_findings(
    best: Best, known: Known, unseen: Unseen | Floats, shift: NDArray[np.float64] | None = None
) -> Findings:
    """The findings, with how likely each box is right.

    known: its objectness says where the object maps alone would look; unseen: what SVMs say that have not
    seen the photo, or else the greatest scores of each photo, (n_photos, n_classes); shift: of `Calibration`.
    """
    windows = known.described.windows
    if not isinstance(unseen, Unseen):
        unseen = Unseen(unseen, np.full(known.tags.shape[1], np.nan))
    curves, by_map = score_curves(unseen.greatest, known.tags), _by_map(known)
    areas, overlap, traits = [], [], []
    for c, (rows, boxes) in enumerate(zip(best.rows, best.boxes, strict=True)):
        photos = windows.image_of(rows)
        areas.append(log_areas(boxes, windows.sizes[photos]))
        near = np.full(len(rows), np.nan)
        overlap.append(near if by_map is None else overlaps(boxes, windows.xyxy[by_map[photos, c]]))
        traits.append(Traits.of(areas[c], unseen.ahead[c]))
    calibration = Calibration(curves, np.array(traits, np.float64), shift)
    label = [np.full(len(scores), c) for c, scores in enumerate(best.scores)]
    known_of_boxes = zip(best.scores, label, best.shares, overlap, areas, strict=True)
    features = tuple(calibration.features(*each) for each in known_of_boxes)
    confidence = tuple(calibration(*each, tagged=True) for each in zip(features, label, strict=True))
    return Findings(best.rows, best.scores, best.boxes, confidence, features, calibration)


def _by_map(known: Known) -> NDArray[np.int64] | None:
    """The window of most objectness of each photo for each class: rows, (n_photos, n_classes)."""
    if known.objectness is None:
        return None
    rows = np.zeros(known.tags.shape, np.int64)
    for i, values in enumerate(known.objectness.by_image(known.objectness.values)):
        if len(values):
            rows[i] = known.objectness.offsets[i] + values.argmax(axis=0)
    return rows


def log_areas(boxes: Floats, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithm of the share of its photo that each box takes; sizes: (n, 2), or (2,) of one photo."""
    sides = (boxes[:, 2:] - boxes[:, :2]).astype(np.float64) / sizes
    return np.asarray(np.log(np.maximum(np.prod(sides, axis=1), SMALLEST)))


def best_windows(
    windows: Windows, tags: NDArray[np.int8], scores: ScoresByPhoto, vote_iou: float = 1.0, first: int = 0
) -> Best:
    """The best-scored window of each positive photo, for each class; first: what is added to its row."""
    rows: list[list[int]] = [[] for _ in tags.T]
    best: list[list[float]] = [[] for _ in tags.T]
    boxes: list[list[Floats]] = [[np.empty((0, 4), np.float32)] for _ in tags.T]
    shares: list[list[float]] = [[] for _ in tags.T]
    for i, (present, of_photo) in enumerate(zip(tags == 1, scores, strict=True)):
        for c in np.flatnonzero(present) if len(of_photo) else ():
            at = int(of_photo[:, c].argmax())
            rows[c].append(first + int(windows.offsets[i]) + at)
            best[c].append(float(of_photo[at, c]))
            boxes[c].append(vote(windows[i], of_photo[:, c], [at], vote_iou))
            shares[c].append(_share(windows[i], of_photo[:, c]))
    return Best(
        tuple(np.array(each, np.int64) for each in rows),
        tuple(np.array(each, float) for each in best),
        tuple(np.concatenate(each) for each in boxes),
        tuple(np.array(each, float) for each in shares),
    )


def _share(boxes: Floats, scores: Floats) -> float:
    """The log softmax of the best score among those of the photo's places; windows of -inf are none."""
    places = scores[nms(boxes, np.maximum(scores, np.finfo(np.float32).min), ANOTHER)].astype(np.float64)
    return -float(np.log(np.exp(places - places[0]).sum())) if np.isfinite(places[0]) else 0.0


def join_best(parts: Sequence[Best]) -> Best:
    """The best windows of all photos, from those of parts in their order."""
    fields = zip(*parts, strict=True)
    return Best(*(tuple(map(np.concatenate, zip(*of_parts, strict=True))) for of_parts in fields))
