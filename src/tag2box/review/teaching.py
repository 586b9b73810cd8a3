"""`TeachingOrder`: in which order to look at the photos of a run, and how much in doubt each box is.

A box is in doubt where a window elsewhere in the photo scores nearly as much. What teaches most is in doubt,
and of classes of which little was seen: the next photo is the one whose boxes are worth most, each by its
doubt and by how many of its class came before. Where one class is in most photos, a random order shows
hardly any of the others. It is a heuristic; benchmarks/review.py measures it.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.errors import Tag2BoxError
from tag2box.run.annotations import sorted_boxes
from tag2box.run.folder import RunFolder
from tag2box.runtime.files import locked
from tag2box.runtime.keys import call_key
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import DamagedError

VERSION = 7
# Seconds to wait for another page that keeps the same.
PATIENCE = 30.0
# Photos that are chosen one after the other; those behind them come by what they are worth then.
CHOSEN = 2000
# Another place: a window that overlaps the chosen one by less.
ELSEWHERE = 0.5


@stored
@dataclass(frozen=True)
class TeachingOrder:
    """doubt: (n,), 0 to 1, of each box of the run; order: the photos that have boxes, by what they teach."""

    doubt: NDArray[np.float64]
    order: NDArray[np.intp]


def load_order(run: RunFolder, progress: Progress = silent) -> TeachingOrder:
    """That of a finished run, kept in its folder."""
    key = review_key(run)
    with suppress(DamagedError):  # it is made again
        if run.store.has("review", key):
            kept: TeachingOrder = run.store.load("review", key)
            return kept
    order = make_order(run, progress)
    # Pages of several processes may be opened at once. Where there is no room to keep it, it is made anew.
    with suppress(Tag2BoxError), locked(run.folder / ".review.lock", "being written", wait=PATIENCE):
        run.store.save("review", key, order)
    return order


def review_key(run: RunFolder) -> str:
    """Under which it is kept."""
    return call_key("review", VERSION, [run.keys[run.last_stage], run.keys["detector"]])


def make_order(run: RunFolder, progress: Progress = silent) -> TeachingOrder:
    """One pass over the features of the photos that have a box."""
    boxes, described, scorer = sorted_boxes(run), run.result("described"), run.detector.scorer
    windows = described.windows
    margin = np.zeros(len(boxes))
    ends = np.searchsorted(boxes.image, np.arange(len(run.images) + 1))
    for i in np.unique(boxes.image).tolist():
        scores = scorer(described.part(i, i + 1))
        for n in range(ends[i], ends[i + 1]):
            overlap = iou_matrix(windows[i], boxes.xyxy[n][None])[:, 0]
            scores_of_class = scores[:, boxes.label[n]]
            away = scores_of_class[overlap < ELSEWHERE].max(initial=-np.inf)
            margin[n] = max(float(scores_of_class[overlap.argmax()] - away), 0.0)
        progress("what to look at first", i + 1, len(run.images))
    progress("what to look at first", len(run.images), len(run.images))
    doubt = _doubt(margin, boxes.label, len(run.images.classes))
    return TeachingOrder(doubt, teaching_order(boxes.image, boxes.label, doubt))


def _doubt(margin: NDArray[np.float64], label: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """exp(-margin / the median of its class): 1 where another place scores as much."""
    out = np.zeros(len(margin))
    for c in range(n_classes):
        of_class = label == c
        finite = margin[of_class & np.isfinite(margin)]
        scale = max(float(np.median(finite)) if len(finite) else 1.0, 1e-9)
        out[of_class] = np.exp(-margin[of_class] / scale)
    return out


def teaching_order(
    image: NDArray[np.intp], label: NDArray[np.intp], doubt: NDArray[np.float64]
) -> NDArray[np.intp]:
    """The photos that have boxes, what teaches most first: the greatest sum over their boxes of

    (1 + doubt) / (1 + boxes of the class that came before)
    """
    photos, place = np.unique(image, return_inverse=True)
    seen = np.zeros(label.max(initial=0) + 1)
    left = np.ones(len(photos), np.bool_)
    boxes = np.argsort(place, kind="stable")  # those of a photo stand together
    ends = np.searchsorted(place[boxes], np.arange(len(photos) + 1))

    def worth() -> NDArray[np.float64]:
        return np.bincount(place, (1 + doubt) / (1 + seen[label]), len(photos)).astype(np.float64)

    picked = []
    for _ in range(min(CHOSEN, len(photos))):
        n = int(np.where(left, worth(), -1).argmax())
        picked.append(n)
        left[n] = False
        np.add.at(seen, label[boxes[ends[n] : ends[n + 1]]], 1)
    rest = np.flatnonzero(left)
    order = np.concatenate([np.array(picked, np.intp), rest[np.argsort(-worth()[rest], kind="stable")]])
    return np.asarray(photos[order])
