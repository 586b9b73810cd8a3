"""Multi-fold relabelling (Cinbis, Verbeek and Schmid 2017): where the object is, says who has not seen it.

A detector that was trained on a window finds that same window again. So images are dealt into folds; those of
one are relabelled by detectors that were trained on the others. Some rounds of it; then no image's window
is there because it was there before. By cross-validation on VOC 2007 trainval (six classes) three rounds are
worth a point of AP and two of CorLoc: docs/voc.md.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tag2box.features import Features
from tag2box.initial import InitialConfig, score_windows, train_svm
from tag2box.runtime.progress import Progress, silent
from tag2box.windows import Windows

__all__ = ["best_windows", "relabel"]

Rows = NDArray[np.int64]

# Hard-negative rounds of a fold's detector: the second was worth having, a third was not.
ROUNDS = 2


def relabel(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    positives: Sequence[Rows],
    prior: NDArray[np.float32],
    config: InitialConfig,
    *,
    folds: int,
    rounds: int,
    progress: Progress = silent,
) -> tuple[Rows, ...]:
    """The window of each positive image: rows of X per class, from `positives` (any number per image).

    prior: (n,), added to the scores. Passes over the features: two per fold and round.
    """
    fold = np.random.default_rng(config.seed).permutation(len(tags)) % folds
    fold_of_window = np.repeat(fold, np.diff(windows.offsets))
    brief = replace(config, rounds=ROUNDS)
    found = tuple(positives)
    progress("relabelling", 0, rounds * folds)
    for round_ in range(rounds):
        scores = np.empty((len(features.X), tags.shape[1]), np.float32)
        for j in range(folds):
            others = [_unless_none(rows[fold_of_window[rows] != j], rows) for rows in found]
            negative = (tags == -1) & (fold != j)[:, None]
            weights = train_svm(windows, features, negative, others, brief)
            for i in np.flatnonzero(fold == j):
                part = slice(windows.offsets[i], windows.offsets[i + 1])
                scores[part] = score_windows(features.X[part], weights)
            progress("relabelling", round_ * folds + j + 1, rounds * folds)
        found = best_windows(windows.offsets, tags, scores + prior[:, None])
    return found


def best_windows(
    offsets: NDArray[np.int64], tags: NDArray[np.int8], scores: NDArray[np.float32]
) -> tuple[Rows, ...]:
    """The best-scored window of each positive image, in their order: rows of X, one array per class."""
    out = []
    for c in range(tags.shape[1]):
        images = np.flatnonzero((tags[:, c] == 1) & (np.diff(offsets) > 0))
        spans = zip(offsets[images], offsets[images + 1], strict=True)
        out.append(np.array([a + scores[a:z, c].argmax() for a, z in spans], dtype=np.int64))
    return tuple(out)


def _unless_none(some: Rows, all_: Rows) -> Rows:
    """A class whose positives all lie in one fold has nobody else to be trained on."""
    return some if len(some) else all_
