"""Boxes found anew, each photo by an SVM that has not seen it. Beyond the paper.

In the photos that it learned from an SVM finds the very windows that it was given, right or wrong. One that
learned from other photos does not know them: it finds what all have in common (multi-fold training, Cinbis et
al. 2017). And what is learned from then is not the best window but the mean of those near it (`boxes.vote`):
where they are parts of an object on all sides, it is more of the object than any of them, round by round.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.executor import map_threads
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.findings import Best, best_windows, join_best
from tag2box.training.known import Known
from tag2box.training.retraining import Found, RetrainConfig, retrain
from tag2box.training.scorer import Scorer, known_terms
from tag2box.training.scoring import Weights, score_photos
from tag2box.training.unseen import Margins, Unseen

Floats = NDArray[np.float32]

# With four folds boxes are right as often as with two (docs/experiments), for three times the cost.
FOLDS = 2


@stage("folds", version=2)
def find_anew(
    known: Known,
    found: Found,
    scorer: Scorer,
    config: RetrainConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Found:
    """Half of the photos are searched by an SVM on the boxes of the other half; `config.rounds` times.

    scorer: what adds to the score of an SVM. A round costs as much as to retrain and to find the best.
    """
    fold = draw_folds(len(known), config.seed)
    for round_ in range(config.rounds):
        progress("finding boxes anew", round_, config.rounds)
        weights = [retrain(known, found, config, fold != k, workers=workers) for k in range(FOLDS)]
        found = search_folds(known, fold, weights, scorer, config.vote_iou, workers=workers)
    progress("finding boxes anew", config.rounds, config.rounds)
    return found


def search_folds(
    known: Known,
    fold: NDArray[np.int64],
    weights: Sequence[Weights],
    scorer: Scorer,
    vote_iou: float,
    *,
    workers: int | None = 1,
) -> Found:
    """The boxes of all photos; those of fold k by the SVMs `weights[k]`, to whose scores `scorer` adds."""
    search = partial(_search, scorer, weights, vote_iou)
    done = list(map_threads(search, _parts(known, fold), workers=workers))
    best = join_best([best for best, _, _ in done])
    greatest = np.concatenate([of_part for _, of_part, _ in done])
    return Found(best.rows, best.boxes, Unseen(greatest, Margins.ahead([margins for *_, margins in done])))


def draw_folds(n_photos: int, seed: int) -> NDArray[np.int64]:
    """The fold of each photo."""
    return np.random.default_rng(seed).permutation(n_photos) % FOLDS


def _parts(known: Known, fold: NDArray[np.int64]) -> Iterator[tuple[int, Known, NDArray[np.int64]]]:
    """Parts of the photos, each with the row of its first window and the folds of its photos."""
    done = 0
    for first, part in known.parts():
        yield first, part, fold[done : done + len(part)]
        done += len(part)


def _search(
    scorer: Scorer,
    weights: Sequence[Weights],
    vote_iou: float,
    part: tuple[int, Known, NDArray[np.int64]],
) -> tuple[Best, Floats, Margins]:
    """The best windows of some photos, the greatest scores without tags, and how far ahead the boxes are."""
    first, known, fold = part
    described, greatest, margins = known.described, [], Margins(known.tags.shape[1])

    def scores() -> Iterator[Floats]:
        by_fold = (score_photos(described.X, described.offsets, each) for each in weights)
        each_photo = zip(fold.tolist(), zip(*by_fold, strict=True), known_terms(scorer, known), strict=True)
        for i, (k, linear, (with_tags, without)) in enumerate(each_photo):
            greatest.append((linear[k] + without).max(axis=0, initial=-np.inf))
            total = linear[k] + with_tags
            for c in np.flatnonzero(known.tags[i] == 1).tolist() if len(total) else ():
                at = int(total[:, c].argmax())
                margins.add(c, at, k, described.windows[i], described.windows.sizes[i], linear)
            yield total

    best = best_windows(described.windows, known.tags, scores(), vote_iou, first)
    return best, np.stack(greatest), margins
