"""L-BFGS by score vectors: SciPy's minimum, Wolfe's conditions in its trace, one product an iteration."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from tag2box.mil import make_bags
from tag2box.mil.affine import Affine
from tag2box.mil.lbfgs import lbfgs
from tag2box.mil.losses import LOSSES, SMOOTH
from tag2box.mil.objective import BagObjective, BagProblem
from tag2box.mil.smoothing import segment_smoothed_max


def objective(kind=np.asarray, loss="squared_hinge", shift=None, mu=0.5):
    bags, y = make_bags(60, 6, separation=2.0, random_state=0)
    A = Affine(kind(bags.X), 1.0, shift)
    problem = BagProblem(A, bags.offsets, 2.0 * y - 1, np.full(60, 3.0))
    return BagObjective(problem, LOSSES[loss], lambda s, o: segment_smoothed_max(s, o, mu), by_rows=True)


def whole(target, center):
    """φ and its gradient by θ, as SciPy wants them."""

    def value(theta):
        loss, r = target.loss(target.scores(theta))
        return (theta - center) @ (theta - center) / 2 + loss, theta - center + target.adjoint(r)

    return value


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("centered", [False, True])
def test_the_minimum_is_that_of_scipy(kind, loss, centered):
    rng = np.random.default_rng(1)
    shift = rng.normal(size=objective().problem.A.X.shape[0]) / 3 if centered else None
    target = objective(kind, loss, shift)
    center = rng.normal(size=7) / 3 if centered else np.zeros(7)
    ours = lbfgs(target, np.zeros(7), 1000, 1e-8, center)
    theirs = minimize(whole(target, center), np.zeros(7), jac=True, method="L-BFGS-B", tol=1e-14)
    assert ours.converged
    assert ours.trace[-1] == pytest.approx(theirs.fun, rel=1e-6)
    # the trace, made of score vectors, is φ itself
    assert ours.trace[-1] == pytest.approx(whole(target, center)(ours.theta)[0], rel=1e-12)
    gradient = whole(target, center)(ours.theta)[1]
    assert np.abs(gradient).max() <= 1e-5 * np.abs(whole(target, center)(np.zeros(7))[1]).max()


def test_every_iteration_goes_down_and_costs_one_product():
    target = objective()
    products = []
    change = target.problem.A.change
    target.problem.A.change = lambda d: products.append(1) or change(d)
    minimum = lbfgs(target, np.zeros(7), 1000, 1e-6)
    assert np.all(np.diff(minimum.trace) < 0)
    assert len(products) == len(minimum.trace) - 1  # at zero there is none


def test_memory_that_is_full_goes_round(monkeypatch):
    """More iterations than pairs are kept: the oldest are written over, and the end is the same."""
    monkeypatch.setattr("tag2box.mil.lbfgs.MEMORY", 5)
    rng = np.random.default_rng(0)
    n = 50
    X = np.diag(np.geomspace(1, 300, n))
    problem = BagProblem(Affine(X, 0.0), np.arange(n + 1), np.sign(rng.normal(size=n)), np.full(n, 5.0))
    target = BagObjective(problem, LOSSES["logistic"], lambda s, o: (s, np.ones_like(s)))
    minimum = lbfgs(target, np.zeros(n), 10_000, 1e-9)
    assert len(minimum.trace) > 10
    one_by_one = [
        minimize(lambda t, x=x: t[0] ** 2 / 2 + 5 * np.log1p(np.exp(-x * t[0])), [0.0], tol=1e-12).x[0]
        for x in np.diag(X)
    ]
    np.testing.assert_allclose(minimum.theta, problem.y * one_by_one, atol=1e-3)


def test_it_stops_where_it_is_told_and_where_it_stands():
    target = objective()
    assert not lbfgs(target, np.zeros(7), 2, 1e-9).converged
    there = lbfgs(target, np.zeros(7), 1000, 1e-6).theta
    again = lbfgs(target, there, 1000, 1e-6)
    assert len(again.trace) <= 3
    np.testing.assert_allclose(again.theta, there, atol=1e-4)
