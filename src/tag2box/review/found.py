"""`FoundBoxes`: the boxes that a run found in its photos, and in which order to look at them.

A box is in doubt where a window elsewhere in the photo scores nearly as much. What teaches most is in doubt
and unlike what was looked at before: the next photo is the one with the greatest product of both (a weighted
farthest-first traversal; Gonzalez 1985). It is a heuristic; benchmarks/review.py measures it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.run_folder import RunFolder, mined_windows
from tag2box.runtime.packing import stored
from tag2box.runtime.parts import DamagedError
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.store import stage_key

__all__ = ["FoundBoxes", "find_boxes", "load_boxes", "review_key", "teaching_order"]

VERSION = 3
# Photos that variety counts for; those behind them come by doubt alone. By then it is time to learn again.
VARIED = 500
# Another place: a window that overlaps the found one by less.
ELSEWHERE = 0.5


@stored
@dataclass(frozen=True)
class FoundBoxes:
    """image, label: (n,); xyxy: (n, 4); confidence, doubt: (n,), 0 to 1; order: photos, by what they teach.

    The boxes of a photo stand together, in the order of photos.
    """

    image: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    label: NDArray[np.intp]
    confidence: NDArray[np.float64]
    doubt: NDArray[np.float64]
    order: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.image)


def load_boxes(run: RunFolder, progress: Progress = silent) -> FoundBoxes:
    """The boxes of a finished run, kept in its folder."""
    key = review_key(run)
    if run.store.has("review", key):
        try:
            found: FoundBoxes = run.store.load("review", key)
            return found
        except DamagedError:
            run.store.reopen("review", key)
    boxes = find_boxes(run, progress)
    run.store.save("review", key, boxes)
    return boxes


def review_key(run: RunFolder) -> str:
    """Under which they are kept."""
    return stage_key("review", VERSION, [], run.keys[run.last_stage], run.keys["detector"])


def find_boxes(run: RunFolder, progress: Progress = silent) -> FoundBoxes:
    """One pass over the features of the photos that have a box."""
    mined = mined_windows(run)
    mined = mined[np.lexsort((mined.label, mined.image))]
    windows, features, detector = run.result("windows"), run.result("features"), run.detector
    scorer = detector.scorer
    maps = run.result("maps") if scorer.needs_map else None
    margin = np.zeros(len(mined))
    looks = np.zeros((len(mined), features.X.shape[1]), np.float32)
    ends = np.searchsorted(mined.image, np.arange(len(run.images) + 1))
    for i in np.unique(mined.image).tolist():
        X = features.X[windows.rows_of(i)]
        scores = scorer(X, windows[i], windows.sizes[i], maps[i] if maps else None)
        for n in range(ends[i], ends[i + 1]):
            overlap = iou_matrix(windows[i], mined.xyxy[n][None])[:, 0]
            mine = scores[:, mined.label[n]]
            away = mine[overlap < ELSEWHERE].max(initial=-np.inf)
            margin[n] = max(float(mine[overlap.argmax()] - away), 0.0)
            looks[n] = X[overlap.argmax()]
        progress("what to look at first", i + 1, len(run.images))
    progress("what to look at first", len(run.images), len(run.images))
    doubt = _doubt(margin, mined.label, len(run.images.classes))
    return FoundBoxes(
        image=mined.image,
        xyxy=mined.xyxy,
        label=mined.label,
        confidence=detector.confidence(mined).score,
        doubt=doubt,
        order=teaching_order(mined.image, doubt, looks),
    )


def _doubt(margin: NDArray[np.float64], label: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """exp(-margin / the median of its class): 1 where another place scores as much."""
    out = np.zeros(len(margin))
    for c in range(n_classes):
        mine = label == c
        finite = margin[mine & np.isfinite(margin)]
        scale = max(float(np.median(finite)) if len(finite) else 1.0, 1e-9)
        out[mine] = np.exp(-margin[mine] / scale)
    return out


def teaching_order(
    image: NDArray[np.intp], doubt: NDArray[np.float64], looks: NDArray[np.float32]
) -> NDArray[np.intp]:
    """The photos that have boxes, what teaches most first. looks: (n, d), what is in each box."""
    best = np.lexsort((-doubt, image))
    photos, first = np.unique(image[best], return_index=True)
    box = best[first]  # of each photo, the one most in doubt
    doubt, looks = doubt[box] + 1e-6, looks[box]
    looks = looks / np.maximum(np.linalg.norm(looks, axis=1, keepdims=True), 1e-12)
    far, picked = np.ones(len(photos)), []
    left = np.ones(len(photos), np.bool_)
    for _ in range(min(VARIED, len(photos))):
        n = int(np.where(left, doubt * far, -1).argmax())
        picked.append(n)
        left[n] = False
        far = np.minimum(far, 1 - np.minimum(looks @ looks[n], 1))
    rest = np.flatnonzero(left)
    order = np.concatenate([np.array(picked, np.intp), rest[np.argsort(-doubt[rest], kind="stable")]])
    return np.asarray(photos[order])
