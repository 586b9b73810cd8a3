"""The initial detector: a linear SVM of the covered windows against all windows of the negative images.

    ½‖w‖² + C (p Σ_{covered} c ℓ(wᵀx) + Σ_{negative windows} ℓ(-wᵀx)),    x with a bias feature β

where a covered window may share its weight with those near it (c sums to 1 over them).

Negatives are millions, of which few matter. Rounds of hard-negative mining find them: train on those held,
score every window (one pass over the features, one product per block for all classes), take in the hardest
that have a loss, drop those far from having one. When no window outside has a loss the answer is that of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tag2box.affine import Affine
from tag2box.boxes import iou_matrix
from tag2box.cover import Cover
from tag2box.errors import InputError
from tag2box.features import Features
from tag2box.losses import LOSSES
from tag2box.objective import BagObjective, BagProblem, lbfgs
from tag2box.runtime.progress import Progress, silent
from tag2box.windows import Windows

__all__ = ["InitialConfig", "Weights", "first_positives", "score_windows", "train_initial", "train_svm"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Rows of X in one product: 8192 x 1280 floats are 40 MB.
BLOCK = 8192
# A window held as a negative goes when its score falls below this: the release's -1.2.
EVICT = -1.2
MAX_ITER, TOL = 300, 1e-3


@dataclass(frozen=True)
class InitialConfig:
    """The SVM on the first windows."""

    # Weight of the loss; it assumes features of length 20 (R-CNN's). The release's is 1e-3.
    C: float = 2.5e-3
    # A constant feature, and what a positive counts for: the release's.
    bias: float = 10.0
    positive_weight: float = 2.0
    loss: str = "squared_hinge"
    # Windows that overlap a positive one by so much join it, and share its weight; 1 is the paper's. With 0.6
    # the AP on 354 held-out VOC images rose by 1.6 points, CorLoc by 4.
    near: float = 0.6
    # Passes over all windows at most, and negatives taken in at a pass and class.
    rounds: int = 4
    hardest: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss not in ("squared_hinge", "logistic", "smooth_hinge"):
            raise InputError(f"loss must be squared_hinge, logistic or smooth_hinge, but it is {self.loss!r}")
        for name in ("C", "bias", "positive_weight", "rounds", "hardest"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0, but it is {getattr(self, name)}")
        if not 0 < self.near <= 1:
            raise InputError(f"near must lie above 0 and up to 1, but it is {self.near}")


@dataclass(frozen=True)
class Weights:
    """One linear detector per class: scores X Wᵀ + b. W: (n_classes, d); b: (n_classes,); float64.

    trace: per class its rounds, each with the objective and its parts, and how many windows were held.
    """

    W: Floats
    b: Floats
    trace: tuple[tuple[dict[str, float], ...], ...] = ()


def score_windows(X: NDArray[np.floating], weights: Weights) -> NDArray[np.float32]:
    """Scores of every window for every class, (n, n_classes): one product per block of rows."""
    W, b = weights.W.T.astype(np.float32), weights.b.astype(np.float32)
    out = np.empty((len(X), len(b)), np.float32)
    for a in range(0, len(X), BLOCK):
        np.add(X[a : a + BLOCK].astype(np.float32) @ W, b, out=out[a : a + BLOCK])
    return out


def first_positives(cover: Cover, windows: Windows, iou: float = 0.3) -> Rows:
    """Covered windows in the order of selection; one that overlaps another before it in its image is out."""
    kept: dict[int, list[int]] = {}
    out = []
    for image, row in zip(cover.image.tolist(), cover.covered.tolist(), strict=True):
        mine = kept.setdefault(image, [])
        if row not in mine and (not mine or iou_matrix(windows.xyxy[[row]], windows.xyxy[mine]).max() <= iou):
            mine.append(row)
            out.append(row)
    return np.array(out, dtype=np.int64)


def train_initial(
    windows: Windows,
    features: Features,
    tags: NDArray[np.int8],
    covers: Sequence[Cover],
    config: InitialConfig,
    *,
    progress: Progress = silent,
) -> Weights:
    """The SVM of every class on its covered windows."""
    positives = [first_positives(cover, windows) for cover in covers]
    return train_svm(windows, features, tags == -1, positives, config, progress=progress)


def train_svm(
    windows: Windows,
    features: Features,
    negative: NDArray[np.bool_],
    positives: Sequence[Rows],
    config: InitialConfig,
    *,
    progress: Progress = silent,
) -> Weights:
    """One SVM per class: its `positives`, rows of X, against all windows of its `negative` images.

    negative: (n_images, n_classes). Passes over X: `config.rounds` less one. Memory: 4 d bytes a window held.
    """
    machines = [
        _Machine(features, *_with_near(windows, rows, config.near), _rows(features, negative[:, c]), config)
        for c, rows in enumerate(positives)
    ]
    progress("initial detector", 0, config.rounds)
    for round_ in range(config.rounds):
        for machine in machines:
            machine.train()
        progress("initial detector", round_ + 1, config.rounds)
        if round_ + 1 < config.rounds:
            scores = score_windows(features.X, _weights(machines))
            if not sum([machine.mine(scores[:, c]) for c, machine in enumerate(machines)]):
                break
    progress("initial detector", config.rounds, config.rounds)
    return _weights(machines)


def _with_near(windows: Windows, rows: Rows, near: float) -> tuple[Rows, Floats]:
    """`rows` with the windows near to each, and the weight of every one: 1 in all for each of `rows`."""
    weight: dict[int, float] = {}
    images = np.searchsorted(windows.offsets, rows, side="right") - 1
    for row, image in zip(rows.tolist(), images.tolist(), strict=True):
        overlap = iou_matrix(windows.xyxy[[row]], windows[image])[0]
        group = windows.offsets[image] + np.flatnonzero(overlap >= near) if near < 1 else np.array([row])
        for member in group.tolist():
            weight[member] = weight.get(member, 0.0) + 1 / len(group)
    members = sorted(weight)
    return np.array(members, dtype=np.int64), np.array([weight[row] for row in members])


class _Machine:
    """One class: its positives, the negatives it holds, and θ = (w, v) with the intercept βv."""

    def __init__(
        self, features: Features, positives: Rows, weight: Floats, negatives: Rows, config: InitialConfig
    ) -> None:
        self.X, self.config = features.X, config
        self.positives, self.weight, self.negatives = positives, weight, negatives
        rng = np.random.default_rng(config.seed)
        self.held = np.sort(rng.permutation(negatives)[: config.hardest])
        self.theta = np.zeros(features.X.shape[1] + 1)
        self.trace: list[dict[str, float]] = []

    def train(self) -> None:
        """Solve the SVM of what is held, from where it stood."""
        c, rows = self.config, np.concatenate([self.positives, self.held])
        if len(rows) == 0:
            return
        A = Affine(self.X[rows].astype(np.float32), c.bias)
        y = np.repeat([1.0, -1.0], [len(self.positives), len(self.held)])
        cost = np.concatenate([c.C * c.positive_weight * self.weight, np.full(len(self.held), c.C)])
        problem = BagProblem(A, np.arange(len(rows) + 1), y, cost)
        with A.few_threads():
            objective = BagObjective(problem, LOSSES[c.loss], _alone)
            self.theta, value, _ = lbfgs(objective, self.theta, MAX_ITER, TOL)
            scores = A.scores(self.theta)
        loss = cost * LOSSES[c.loss](y * scores)[0]
        self.trace.append(
            {
                "objective": value,
                "positive": float(loss[y > 0].sum()),
                "negative": float(loss[y < 0].sum()),
                "regularisation": float(self.theta @ self.theta / 2),
                "held": len(self.held),
            }
        )
        self.held = self.held[scores[y < 0] > EVICT]

    def mine(self, scores: NDArray[np.float32]) -> int:
        """Take in the hardest negatives that have a loss; how many are new."""
        hard = self.negatives[scores[self.negatives] > -1]
        new = np.setdiff1d(hard, self.held)
        new = new[np.argsort(-scores[new], kind="stable")[: self.config.hardest]]
        self.held = np.union1d(self.held, new)
        return len(new)


def _alone(scores: Floats, _offsets: Rows) -> tuple[Floats, Floats]:
    """The maximum over bags of one window each."""
    return scores, np.ones_like(scores)


def _rows(features: Features, images: NDArray[np.bool_]) -> Rows:
    """The windows of these images."""
    parts = [np.arange(a, z) for (a, z), yes in zip(pairwise(features.offsets), images, strict=True) if yes]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _weights(machines: Sequence[_Machine]) -> Weights:
    theta = np.stack([machine.theta for machine in machines])
    bias = machines[0].config.bias
    return Weights(theta[:, :-1], bias * theta[:, -1], tuple(tuple(m.trace) for m in machines))
