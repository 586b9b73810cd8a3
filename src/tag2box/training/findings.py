"""What a detector finds in the photos it learned from: the best window of each positive one, and its box."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix, vote
from tag2box.runtime.executor import map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.stages import stage
from tag2box.training.calibration import Calibration, calibrate
from tag2box.training.known import Known
from tag2box.training.scorer import Scorer, score_known
from tag2box.windows.record import Windows

__all__ = ["Best", "Findings", "ScoresByPhoto", "agreement", "best_windows", "find_best", "join_best"]

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
# The scores of each photo's windows for every class, (n_i, n_classes), one photo after another.
ScoresByPhoto = Iterable[Floats]

# The overlap from which two ways to find a box agree.
AGREE = 0.7


class Best(NamedTuple):
    """The best window of each positive photo, in order, for each class: row of X, score, and voted box."""

    rows: tuple[Rows, ...]
    scores: tuple[NDArray[np.float64], ...]
    boxes: tuple[Floats, ...]


@stored
@dataclass(frozen=True)
class Findings:
    """The box of each positive photo, for each class, and how sure one can be of a score.

    rows: of X, the windows of the best scores; scores: theirs; boxes: (n, 4), where the windows near them say
    that the objects are.
    """

    rows: tuple[Rows, ...]
    scores: tuple[NDArray[np.float64], ...]
    boxes: tuple[Floats, ...]
    calibration: Calibration


@stage("findings", version=1)
def find_best(scorer: Scorer, known: Known, vote_iou: float, *, workers: int | None = 1) -> Findings:
    """What the scorer finds in the photos learned from.

    vote_iou: the windows near the best one that vote on where the object is (`boxes.vote`). One pass over the
    vectors and the maps, part by part on the workers.
    """
    done = list(map_threads(partial(_find_best, scorer, vote_iou), known.parts(), workers=workers))
    best = join_best([part[0] for part in done])
    curves = calibrate(np.concatenate([part[2] for part in done]), known.tags)
    others = [part[1] for part in done if part[1] is not None]
    reliability = agreement(best.boxes, join_best(others).boxes) if others else None
    return Findings(*best, Calibration(curves, reliability))


def _find_best(scorer: Scorer, vote_iou: float, part: tuple[int, Known]) -> tuple[Best, Best | None, Floats]:
    """The best windows by all that is known, those by objectness alone, and the best scores without tags."""
    first, known = part
    windows, unaided = known.described.windows, []

    def scores() -> Iterator[Floats]:
        for with_tags, without in score_known(scorer, known):
            unaided.append(without.max(axis=0, initial=-np.inf))
            yield with_tags

    best = best_windows(windows, known.tags, scores(), vote_iou, first)
    if known.objectness is None:
        return best, None, np.stack(unaided)
    by_map = known.objectness.by_image(known.objectness.values)
    return best, best_windows(windows, known.tags, by_map, vote_iou, first), np.stack(unaided)


def best_windows(
    windows: Windows, tags: NDArray[np.int8], scores: ScoresByPhoto, vote_iou: float = 1.0, first: int = 0
) -> Best:
    """The best-scored window of each positive photo, for each class; first: what is added to its row."""
    rows: list[list[int]] = [[] for _ in tags.T]
    best: list[list[float]] = [[] for _ in tags.T]
    boxes: list[list[Floats]] = [[np.empty((0, 4), np.float32)] for _ in tags.T]
    for i, (present, of_photo) in enumerate(zip(tags == 1, scores, strict=True)):
        for c in np.flatnonzero(present) if len(of_photo) else ():
            at = int(of_photo[:, c].argmax())
            rows[c].append(first + int(windows.offsets[i]) + at)
            best[c].append(float(of_photo[at, c]))
            boxes[c].append(vote(windows[i], of_photo[:, c], [at], vote_iou))
    return Best(
        tuple(np.array(each, np.int64) for each in rows),
        tuple(np.array(each, float) for each in best),
        tuple(np.concatenate(each) for each in boxes),
    )


def join_best(parts: Sequence[Best]) -> Best:
    """The best windows of all photos, from those of parts in their order."""
    fields = zip(*parts, strict=True)
    return Best(*(tuple(map(np.concatenate, zip(*of_parts, strict=True))) for of_parts in fields))


def agreement(boxes: Sequence[Floats], others: Sequence[Floats]) -> NDArray[np.float64]:
    """The share of each class's boxes, (n, 4), that another way to find them puts nearly there, (n_classes,).

    Nobody says which boxes are right. But two ways that err differently agree where both are, mostly: so the
    share estimates that. Boxes are right from an overlap of a half; as both ways err alike in part, only a
    closer one (`AGREE`) counts here. One agreement and one disagreement are added.
    """
    shares = []
    for ours, theirs in zip(boxes, others, strict=True):
        same = [iou_matrix(a[None], b[None])[0, 0] >= AGREE for a, b in zip(ours, theirs, strict=True)]
        shares.append((sum(same) + 1) / (len(same) + 2))
    return np.array(shares)
