"""The compiled objective and its one pass over the instances, against the same in separate steps of NumPy."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from tag2box.errors import InputError
from tag2box.mil.affine import BLOCK, Affine
from tag2box.mil.lbfgs import lbfgs
from tag2box.mil.losses import CODES, LOSSES, SMOOTH, loss_at
from tag2box.mil.objective import BagObjective, BagProblem
from tag2box.mil.one_pass import SmoothedObjective
from tag2box.mil.smoothing import segment_smoothed_max

KINDS = {
    "float64": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "columns": np.asfortranarray,
    "csr": sparse.csr_array,
}


def bags_of(kind="float64", bias=1.0, *, d=6, seed=0):
    """Bags of 1 to 200 instances, so that small and large ones, and several blocks of them, occur."""
    rng = np.random.default_rng(seed)
    sizes = np.r_[rng.integers(1, 9, 40), 200, 130, 1]
    X = rng.normal(size=(sizes.sum(), d)) / np.sqrt(d)
    offsets = np.append(0, np.cumsum(sizes))
    y = np.where(np.arange(len(sizes)) % 2, 1.0, -1.0)
    A = Affine(KINDS[kind](X), bias, rng.normal(size=len(X)) / 5)
    return BagProblem(A, offsets, y, rng.uniform(0.5, 3, len(sizes)))


def in_steps(problem, loss, mu, omega):
    return BagObjective(problem, LOSSES[loss], lambda s, o: segment_smoothed_max(s, o, mu, omega))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_compiled_loss_is_that_of_numpy(loss):
    margins = np.r_[np.linspace(-40, 40, 801), 1.0, 0.0, 0.999, -1e3, 1e3]
    found = np.array([loss_at(m, CODES[loss]) for m in margins])
    np.testing.assert_allclose(found.T, LOSSES[loss](margins), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [0.0, 3.0])
@pytest.mark.parametrize("omega", ["l2", "entropy"])
@pytest.mark.parametrize("loss", SMOOTH)
def test_one_pass_is_all_its_steps(kind, bias, omega, loss):
    problem = bags_of(kind, bias)
    rng = np.random.default_rng(1)
    theta, d = rng.normal(size=(2, problem.A.n_weights))
    close = {"rtol": 1e-4, "atol": 1e-4} if kind == "float32" else {"rtol": 1e-9, "atol": 1e-10}
    for mu, t in ((0.02, 1.0), (0.7, 0.3), (50.0, 1.0)):
        fast, slow = SmoothedObjective(problem, loss, mu, omega), in_steps(problem, loss, mu, omega)
        scores = slow.scores(theta)
        ours, theirs = fast.ahead(scores, d, t), slow.ahead(scores, d, t)
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_allclose(mine, other, **close)
        np.testing.assert_allclose(ours.adjoint(), theirs.adjoint(), **close)
        value, r = fast.loss(scores)
        np.testing.assert_allclose(value, slow.loss(scores)[0], rtol=1e-12)
        np.testing.assert_allclose(r, slow.loss(scores)[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("omega", ["l2", "entropy"])
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_adjoint_is_the_gradient(omega, loss):
    problem = bags_of()
    target = SmoothedObjective(problem, loss, 0.5, omega)
    theta = np.random.default_rng(2).normal(size=problem.A.n_weights) / 2
    numeric = approx_fprime(theta, lambda x: target.loss(target.scores(x))[0], 1e-6)
    there = target.ahead(target.scores(np.zeros_like(theta)), theta, 1.0)
    np.testing.assert_allclose(there.adjoint(), numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("top", [1, 3, 1000])
def test_top_n_changes_nothing(top):
    problem = bags_of()
    d = np.random.default_rng(3).normal(size=problem.A.n_weights)
    whole, some = (SmoothedObjective(problem, "squared_hinge", 2.0, top=n) for n in (None, top))
    scores = whole.scores(d)
    np.testing.assert_allclose(some.ahead(scores, d, 1.0).adjoint(), whole.ahead(scores, d, 1.0).adjoint())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.45, 0.9, 1.0])
def test_rows_that_count_are_added_whichever_way(dtype, share):
    """Over several blocks, by rows where few of a block count and by products where most do."""
    rng = np.random.default_rng(4)
    n, d = 1003, 300
    assert n * d * 4 > 2 * BLOCK
    X = rng.normal(size=(n, d)).astype(dtype)
    chance = np.where(np.arange(n) < n // 2, share, share / 2)
    r = np.where(rng.random(n) < chance, rng.normal(size=n), 0.0)
    found = Affine(X, 2.0).adjoint(r, by_rows=True)
    expected = np.append(X.astype(np.float64).T @ r, 2 * r.sum())
    np.testing.assert_allclose(found, expected, atol=1e-4 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_a_guess_of_the_curvature_moves_no_minimum(kind):
    """Bags of one instance are a convex problem: from any curvature the end is the same."""
    problem = bags_of(kind, bias=10.0)
    alone = BagProblem(
        problem.A,
        np.arange(problem.offsets[-1] + 1),
        np.sign(np.random.default_rng(5).normal(size=problem.offsets[-1])),
        np.ones(problem.offsets[-1]),
    )
    target, zero = SmoothedObjective(alone, "logistic", 0.5), np.zeros(problem.A.n_weights)
    plain = lbfgs(target, zero, 1000, 1e-9)
    for h in (alone.A.curvature(alone.cost.sum()), np.geomspace(1, 1e4, len(zero))):
        guessed = lbfgs(target, zero, 1000, 1e-9, curvature=h)
        assert guessed.converged
        np.testing.assert_allclose(guessed.theta, plain.theta, atol=1e-5)


def test_the_curvature_is_that_of_rows():
    problem = bags_of(bias=3.0)
    h = problem.A.curvature(2.0)
    assert h[-1] == 1 + 4 * 9
    np.testing.assert_allclose(h[:-1], 1 + 4 * np.mean(problem.A.X**2))
    sparser = Affine(sparse.csr_array(problem.A.X), 3.0).curvature(2.0)
    np.testing.assert_allclose(sparser, h)


def test_scores_without_end_are_refused():
    problem = bags_of()
    target = SmoothedObjective(problem, "squared_hinge", 0.5)
    scores = target.scores(np.zeros(7))
    with pytest.raises(InputError, match="too large"), np.errstate(over="ignore", invalid="ignore"):
        target.ahead(scores, np.full(7, 1e200), 1e200)
    with pytest.raises(InputError, match="too large"):
        target.loss(np.full_like(scores, np.inf))
