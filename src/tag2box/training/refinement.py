"""Refinement: the latent SVMs at the scale of images, from the initial detector. Section 5 of the paper.

A bag is an image, its instances are its windows:

    ½‖w‖² + C Σ_i c_i ℓ(y_i f(w; i)),    f the maximum (LSVM) or the smoothed one f_μ (SLSVM) over windows j
                                         of wᵀx_ij

Each image keeps a few windows in memory, its best ones at first. A round solves the problem of those held,
then scores all windows (one pass over the features serves every class) and takes in each window that would
change the answer: for f_μ, one above the threshold of its image's projection (the certificate), and
for the maximum, one better than the best held. When none is left outside, the answer is that of all windows.

In a class's trace a round has the objective over all windows, how many were held, and how many came in.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.greedy import Cover
from tag2box.description.record import Described
from tag2box.mil.convex import ConvexHalf
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import Affine, BagProblem, minimize
from tag2box.mil.smoothing import segment_max, segment_smoothed_max
from tag2box.runtime.checks import Choice, Range
from tag2box.runtime.config import Settings
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.folds import FOLDS, draw_folds, search_folds
from tag2box.training.initial import InitialConfig, train_initial
from tag2box.training.known import Known
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights, score_groups, take_rows
from tag2box.training.unseen import Unseen
from tag2box.windows.row_set import RowSet

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

log = logging.getLogger("tag2box")

METHODS = ("slsvm", "lsvm", "none")
MAX_ITER = 200
# Windows that a class holds at first, at most: 2 GB of 1280 dimensions. More images hold fewer windows each.
MOST_HELD = 400_000


@dataclass(frozen=True)
class RefineConfig(Settings):
    """Settings of the refinement: the latent SVM of each class.

    Parameters
    ----------
    method : {"slsvm", "lsvm", "none"}, default="slsvm"
        Smooth the maximum, or not, or keep the initial detector.
    C : float, default=0.001
        The weight of the loss of an image, for features of length 20.
    bias : float, default=10.0
        The value of the constant feature.
    positive_weight : float, default=2.0
        The weight of a positive image.
    mu : float, default=0.1
        The amount of smoothing, in units of the score.
    loss : {"squared_hinge", "logistic", "smooth_hinge"}, default="squared_hinge"
        The loss of an image; "smooth_hinge" is that of the authors' release.
    top : int, default=15
        The number of windows per image that are held at first.
    rounds : int, default=30
        The greatest number of passes over all windows.
    tol : float, default=0.0001
        The tolerance of the solver.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.RefineConfig(method="lsvm").mu
    0.1
    """

    method: Annotated[str, Choice(*METHODS)] = "slsvm"
    # The paper's.
    C: Annotated[float, Range(1e-9, 1_000_000)] = 1e-3
    bias: Annotated[float, Range(1e-3, 1000)] = 10.0
    positive_weight: Annotated[float, Range(1e-3, 1000)] = 2.0
    # The release has 0.01.
    mu: Annotated[float, Range(1e-6, 1000)] = 0.1
    loss: Annotated[str, Choice(*SMOOTH)] = "squared_hinge"
    top: Annotated[int, Range(1, 10_000)] = 15
    rounds: Annotated[int, Range(1, 1000)] = 30
    tol: Annotated[float, Range(1e-9, 1)] = 1e-4


@stage("refined", version=3)
def refine(known: Known, initial: Weights, config: RefineConfig, *, progress: Progress = silent) -> Weights:
    """The refined detector of every class, from `initial`.

    At most `config.rounds` passes over the vectors and one more. Memory: a bit a window and class, for
    which are held, and those held of one class at a time, 4 d bytes each; `MOST_HELD` limits them at first.
    """
    if config.method == "none":
        return initial
    classes = [_Class(known, initial, c, config) for c in range(known.tags.shape[1])]
    return _descend(known.described, classes, progress)


@stage("unseen", version=1)
def score_unseen(
    known: Known,
    covers: Sequence[Cover],
    initial: InitialConfig,
    config: RefineConfig,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Unseen:
    """What both SVMs, learned from one half of the photos, say of the other half: for confidences.

    The photos of the other half count as unknown. The cover has seen all of them. Costs as much as to train
    both on all photos.
    """
    fold, halves = draw_folds(len(known), initial.seed), []
    for k in range(FOLDS):
        half = replace(known, tags=np.where((fold != k)[:, None], known.tags, 0).astype(np.int8))
        first = train_initial(half, covers, initial, workers=workers, progress=progress)
        halves.append(refine(half, first, config, progress=progress))
    nothing = Scorer(Weights.none(*halves[0].W.shape))
    unseen = search_folds(known, fold, halves, nothing, 1.0, workers=workers).unseen
    assert unseen is not None
    return unseen


def _descend(described: Described, classes: "Sequence[_Class]", progress: Progress) -> Weights:
    """Rounds of solving and looking, until every class is done."""
    rounds = classes[0].config.rounds
    progress("refinement", 0, rounds)
    for round_ in range(rounds + 1):
        for photos, scores in score_groups(described.X, described.offsets, _weights(classes)):
            for c, one in enumerate(classes):
                one.look(photos, scores[:, c])
        for one in classes:
            one.judge()
        if round_ == rounds or all(one.done for one in classes):
            break
        for one in classes:
            one.solve()
        progress("refinement", round_ + 1, rounds)
    progress("refinement", rounds, rounds)
    unsettled = sum(not one.done for one in classes)
    if unsettled:
        log.warning(
            "refinement: %d of %d classes still changed after %d passes: raise refine.rounds",
            unsettled,
            len(classes),
            rounds,
        )
    for one in classes:
        one.theta = one.best_theta
    return _weights(classes)


class _Class:
    """The latent SVM of one class: its bags, the windows it holds, and θ = (w, v) with the intercept βv."""

    def __init__(self, known: Known, initial: Weights, c: int, config: RefineConfig) -> None:
        tags, self.described, self.config = known.tags[:, c], known.described, config
        self.bags = np.flatnonzero((tags != 0) & (self.described.counts > 0))  # images
        self.y = tags[self.bags].astype(np.float64)
        self.cost = np.where(self.y > 0, config.C * config.positive_weight, config.C)
        self.held = RowSet(len(self.described.X))
        self.theta = np.append(initial.W[c], initial.b[c] / config.bias)
        self.best_theta, self.best_value = self.theta, np.inf
        self.witness = np.empty(0, np.int64)
        self.f, self.where, self.entered = np.empty(len(self.bags)), np.empty(len(self.bags), np.int64), 0
        self.trace: list[dict[str, float]] = []
        self.done = not (self.y > 0).any() or not (self.y < 0).any()

    def look(self, photos: range, scores: NDArray[np.float32]) -> None:
        """See the scores of all windows of some photos: take in those that would change the answer."""
        here = slice(*np.searchsorted(self.bags, [photos.start, photos.stop]))
        bags = self.bags[here]
        if self.done or len(bags) == 0:
            return
        rows, starts = self.described.rows_of(bags), self.described.offsets
        offsets = np.append(0, np.cumsum(starts[bags + 1] - starts[bags]))
        s = scores[rows - starts[photos.start]].astype(np.float64)
        if not self.trace:
            most = min(self.config.top, max(MOST_HELD // len(self.bags), 1))
            self.held.add(rows[_top(s, offsets, most)])
        if self.config.method == "slsvm":
            self.f[here], u = segment_smoothed_max(s, offsets, self.config.mu, "l2", self.config.top)
            enters = u > 0
        else:
            self.f[here], enters, where = self._maximum(s, offsets, self.y[here])
            self.where[here] = rows[where]
        new = rows[enters]
        new = new[~self.held.has(new)]
        self.held.add(new)
        self.entered += len(new)

    def judge(self) -> None:
        """All windows were seen: note the objective over them, and whether the answer is found."""
        if self.done:
            return
        loss = LOSSES[self.config.loss](self.y * self.f)[0]
        value = float(self.theta @ self.theta / 2 + self.cost @ loss)
        self.trace.append({"objective": value, "held": len(self.held), "entered": self.entered})
        settled, self.entered = self.entered == 0, 0
        if self.config.method == "slsvm":
            # What came in may change the answer: a small fall alone is no certificate.
            self._keep(value, exact=len(self.trace) > 1, settled=settled)
        elif settled or len(self.trace) == 1:  # else the convex half is not yet that of all windows
            witness = self.where[self.y > 0]
            self._keep(value, exact=np.array_equal(witness, self.witness))
            self.witness = witness
            self.held.add(witness)

    def _keep(self, value: float, *, exact: bool, settled: bool = True) -> None:
        """Keep the best θ; done, if `settled`, when it is exact or hardly better than the best before it."""
        fall = self.best_value - value
        if fall > 0:
            self.best_theta, self.best_value = self.theta, value
        self.done = settled and (exact or fall <= self.config.tol * value)

    def _maximum(self, s: Floats, offsets: Rows, y: Floats) -> tuple[Floats, NDArray[np.bool_], Rows]:
        """The best of each bag, and where; in a negative bag that has a loss it must be held."""
        f, where = segment_max(s, offsets)
        enters = np.zeros(len(s), np.bool_)
        enters[where[(y < 0) & (LOSSES[self.config.loss](-f)[1] != 0)]] = True
        return f, enters, where

    def solve(self) -> None:
        """The problem of the windows held, from where θ stands."""
        if self.done:
            return
        at = self.held.rows()
        A = Affine(take_rows(self.described.X, at), self.config.bias)
        offsets = np.append(np.searchsorted(at, self.described.offsets[self.bags]), len(at))
        problem = BagProblem(A, offsets, self.y, self.cost)
        with A.few_threads():
            if self.config.method == "slsvm":
                loss, maximum = LOSSES[self.config.loss], partial(segment_smoothed_max, mu=self.config.mu)
                self.theta = minimize(
                    problem, loss, maximum, self.theta, max_iter=MAX_ITER, tol=self.config.tol
                ).theta
            else:
                half = ConvexHalf(problem, self.config.loss)
                self.theta = half.solve(self.theta, np.searchsorted(at, self.witness), self.config.tol)


def _top(s: Floats, offsets: Rows, n: int) -> NDArray[np.bool_]:
    """The `n` best of every bag."""
    out = np.zeros(len(s), np.bool_)
    for a, z in pairwise(offsets):
        out[a + np.argsort(-s[a:z], kind="stable")[:n]] = True
    return out


def _weights(classes: Sequence[_Class]) -> Weights:
    return Weights.joined(
        [one.theta for one in classes], classes[0].config.bias, [one.trace for one in classes]
    )
