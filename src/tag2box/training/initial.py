"""The initial detector: a linear SVM of the covered windows against all windows of the negative images.

    ½‖w‖² + C (p Σ_{covered} ℓ(wᵀx) + Σ_{negative windows} ℓ(-wᵀx)),    x with a bias feature β

Negatives are millions, of which few matter. Rounds of hard-negative mining find them: train on those held,
score every window (one pass over the features, one product per block for all classes), take in the hardest
that have a loss, drop those far from having one. When no window outside has a loss the answer is that of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.cover.greedy import Cover
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import Affine, BagProblem, minimize
from tag2box.runtime.checks import Choice, Range, Seed
from tag2box.runtime.config import Settings
from tag2box.runtime.executor import map_threads, n_workers
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.hard_negatives import Hardest, Sought, look_for
from tag2box.training.known import Known
from tag2box.training.scoring import BLOCK, Weights, take_rows
from tag2box.windows.search import Windows
from tag2box.windows.spans import Spans

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# A window held as a negative goes when its score falls below this: the release's -1.2.
EVICT = -1.2
MAX_ITER, TOL = 300, 1e-3
# Parts of a pass over X, at most; and bytes of the classes that are trained at the same time.
PARTS, AT_ONCE = 256, 1 << 30


@dataclass(frozen=True)
class InitialConfig(Settings):
    """Settings of the initial detector: a linear SVM of the covered windows.

    Parameters
    ----------
    C : float, default=0.001
        The weight of the loss, for features of length 20.
    bias : float, default=10.0
        The value of the constant feature.
    positive_weight : float, default=2.0
        The weight of a positive window.
    loss : {"squared_hinge", "logistic", "smooth_hinge"}, default="squared_hinge"
        The loss.
    rounds : int, default=4
        The greatest number of passes over all windows for hard negatives.
    hardest : int, default=4000
        The number of negatives taken in per pass and class.
    seed : int, default=0
        The seed of the first negatives.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.InitialConfig(rounds=2).loss
    'squared_hinge'
    """

    # These three are the release's; 20 is the length of R-CNN's features.
    C: Annotated[float, Range(1e-9, 1_000_000)] = 1e-3
    bias: Annotated[float, Range(1e-3, 1000)] = 10.0
    positive_weight: Annotated[float, Range(1e-3, 1000)] = 2.0
    loss: Annotated[str, Choice(*SMOOTH)] = "squared_hinge"
    rounds: Annotated[int, Range(1, 1000)] = 4
    hardest: Annotated[int, Range(1, 1_000_000)] = 4000
    seed: Seed = 0


def first_positives(cover: Cover, windows: Windows, positive: NDArray[np.bool_], iou: float = 0.3) -> Rows:
    """Covered windows of positive images in the order of selection, but those that overlap an earlier one.

    positive: a mask over the images.
    """
    kept: dict[int, list[int]] = {}
    out = []
    for image, row in zip(cover.image.tolist(), cover.covered.tolist(), strict=True):
        before = kept.setdefault(image, [])
        if not positive[image]:
            continue
        if row not in before and iou_matrix(windows.xyxy[[row]], windows.xyxy[before]).max(initial=0) <= iou:
            before.append(row)
            out.append(row)
    return np.array(out, dtype=np.int64)


@stage("initial", version=2)
def train_initial(
    known: Known,
    covers: Sequence[Cover],
    config: InitialConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Weights:
    """The SVM of every class: its covered windows against all windows of its negative images.

    Passes over X: `config.rounds` less one. Memory: 4 d bytes a window held, of the classes
    that are trained at the same time: `AT_ONCE`, or the largest class.
    """
    described = known.described
    return train_svms(
        described.X,
        [
            first_positives(cover, described.windows, tags == 1)
            for cover, tags in zip(covers, known.tags.T, strict=True)
        ],
        [Spans.of_images(described, column == -1) for column in known.tags.T],
        config,
        workers=workers,
        progress=progress,
        label="initial detector",
    )


def train_svms(
    X: NDArray[np.floating],
    positives: Sequence[Rows],
    negatives: Sequence[Spans],
    config: InitialConfig,
    *,
    center: Weights | None = None,
    workers: int | None = 1,
    progress: Progress = silent,
    label: str = "SVM",
) -> Weights:
    """The SVM of every class, of its `positives` against its `negatives`: rows of X, for each class.

    center: the weights w₀ that it stays near to, with ½‖w - w₀‖² in place of ½‖w‖². A class is a task of the
    workers, and so are many rows of a pass.
    """
    machines = [_Machine(X, *rows, config) for rows in zip(positives, negatives, strict=True)]
    if center is not None:
        for machine, w, b in zip(machines, center.W, center.b, strict=True):
            machine.stay_near(w, float(b))
    progress(label, 0, config.rounds)
    for round_ in range(config.rounds):
        _train(machines, workers)
        progress(label, round_ + 1, config.rounds)
        if round_ + 1 < config.rounds and not _mine(X, machines, workers):
            break
    progress(label, config.rounds, config.rounds)
    return _weights(machines)


def _train(machines: "Sequence[_Machine]", workers: int | None) -> None:
    """Every machine solves the SVM of what it holds; as many at once as fit into `AT_ONCE`."""
    largest = max(machine.size for machine in machines)
    at_once = max(min(n_workers(workers), AT_ONCE // max(largest, 1)), 1)
    problems = [machine.problem() for machine in machines]
    for machine, solved in zip(machines, map_threads(_solve, problems, workers=at_once), strict=True):
        if solved is not None:
            machine.take(solved)


def _mine(X: NDArray[np.floating], machines: "Sequence[_Machine]", workers: int | None) -> int:
    """One pass over X: every machine takes in its hardest negatives; how many are new."""
    n = len(X)
    size = BLOCK * max(-(-n // (BLOCK * PARTS)), 1)
    of_classes = [Hardest(machine.config.hardest) for machine in machines]

    def parts() -> Iterator[tuple[int, int, list[Sought]]]:
        for a in range(0, n, size):
            z = min(a + size, n)
            each = zip(machines, of_classes, strict=True)
            yield a, z, [machine.sought(a, z, hardest.least) for machine, hardest in each]

    look = partial(look_for, X, _weights(machines), machines[0].config.hardest)
    for part in map_threads(look, parts(), workers=workers):
        for hardest, more in zip(of_classes, part, strict=True):
            hardest.add(*more)
    return sum(
        [machine.take_in(hardest.rows()) for machine, hardest in zip(machines, of_classes, strict=True)]
    )


class _Problem(NamedTuple):
    """The SVM of what a machine holds, to be solved from θ; center: what it stays near to, 0 where None."""

    X: NDArray[np.floating]
    positives: Rows
    held: Rows
    theta: Floats
    center: Floats | None
    config: InitialConfig


class _Solved(NamedTuple):
    """θ; what goes to the trace; and what is still to be held."""

    theta: Floats
    trace: dict[str, float]
    held: Rows


def _solve(problem: _Problem) -> _Solved | None:
    X, positives, held, theta, center, c = problem
    rows = np.concatenate([positives, held])
    if len(rows) == 0:
        return None
    A = Affine(take_rows(X, rows), c.bias)
    y = np.repeat([1.0, -1.0], [len(positives), len(held)])
    cost = np.where(y > 0, c.C * c.positive_weight, c.C)
    bags = BagProblem(A, np.arange(len(rows) + 1), y, cost)
    loss_of = LOSSES[c.loss]
    theta, values, _ = minimize(bags, loss_of, _alone, theta, max_iter=MAX_ITER, tol=TOL, center=center)
    scores = A.scores(theta)
    loss = cost * loss_of(y * scores)[0]
    offset = theta if center is None else theta - center
    trace = {
        "objective": values[-1],
        "positive": float(loss[y > 0].sum()),
        "negative": float(loss[y < 0].sum()),
        "regularization": float(offset @ offset / 2),
        "held": len(held),
    }
    return _Solved(theta, trace, held[scores[y < 0] > EVICT])


class _Machine:
    """One class: its positives, the negatives it holds, and θ = (w, v) with the intercept βv."""

    def __init__(
        self, X: NDArray[np.floating], positives: Rows, negatives: Spans, config: InitialConfig
    ) -> None:
        self.X, self.config = X, config
        self.positives, self.negatives = positives, negatives
        rng = np.random.default_rng(config.seed)
        self.held = np.sort(negatives[rng.permutation(len(negatives))[: config.hardest]])
        self.theta = np.zeros(X.shape[1] + 1)
        self.center: Floats | None = None
        self.trace: list[dict[str, float]] = []

    def stay_near(self, w: Floats, b: float) -> None:
        """Begin at these weights, and pay for the way from them."""
        self.center = np.append(w, b / self.config.bias)
        self.theta = self.center.copy()

    @property
    def size(self) -> int:
        """Bytes of the vectors that its problem takes."""
        return 4 * int(self.X.shape[1]) * (len(self.positives) + len(self.held))

    def problem(self) -> _Problem:
        """What is to be solved, from where it stood."""
        return _Problem(self.X, self.positives, self.held, self.theta, self.center, self.config)

    def take(self, solved: _Solved) -> None:
        """Go on from there."""
        self.theta, self.held = solved.theta, solved.held
        self.trace.append(solved.trace)

    def sought(self, a: int, z: int, least: np.float32) -> Sought:
        """What it looks for among the rows from a to z."""
        held = self.held[slice(*np.searchsorted(self.held, [a, z]))]
        return Sought(self.negatives.between(a, z), held, least)

    def take_in(self, new: Rows) -> int:
        """Hold these negatives too; how many they are."""
        self.held = np.union1d(self.held, new)
        return len(new)


def _alone(scores: Floats, _offsets: Rows) -> tuple[Floats, Floats]:
    """The maximum over bags of one window each."""
    return scores, np.ones_like(scores)


def _weights(machines: Sequence[_Machine]) -> Weights:
    return Weights.joined([m.theta for m in machines], machines[0].config.bias, [m.trace for m in machines])
