"""Losses, the objective over bags with its gradient, and its minimization."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.optimize import minimize as scipy_minimize

from tag2box.errors import InputError
from tag2box.mil import make_bags
from tag2box.mil.losses import LOSSES, SMOOTH, hinge, smooth_hinge, squared_hinge
from tag2box.mil.objective import Affine, BagProblem, minimize
from tag2box.mil.smoothing import segment_smoothed_max

MARGINS = np.array([-50.0, -3.0, -0.5, 0.0, 0.2, 0.97, 1.3, 4.0, 50.0])
KINDS = {
    "float64": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "columns": np.asfortranarray,
    "csr": sparse.csr_array,
}


def smoothed(scores, offsets):
    return segment_smoothed_max(scores, offsets, 0.5)


def problem(kind="float64", bias=1.0):
    bags, y = make_bags(60, 6, separation=2.0, random_state=0)
    return BagProblem(Affine(KINDS[kind](bags.X), bias), bags.offsets, 2.0 * y - 1, np.full(60, 3.0))


@pytest.mark.parametrize("name", LOSSES)
def test_derivative_is_that_of_the_value(name):
    value, slope = LOSSES[name](MARGINS)
    numeric = [approx_fprime([m], lambda x: LOSSES[name](x)[0][0], 1e-7)[0] for m in MARGINS]
    np.testing.assert_allclose(slope, numeric, atol=1e-4, rtol=1e-4)
    assert (value >= 0).all()
    assert (slope <= 0).all()


def test_losses_at_their_limits():
    value, slope = LOSSES["logistic"](np.array([-1e4, 1e4]))
    np.testing.assert_allclose(value, [1e4, 0])
    np.testing.assert_allclose(slope, [-1, 0])
    np.testing.assert_allclose(smooth_hinge(MARGINS, 1e6)[0], hinge(MARGINS)[0], atol=1e-5)
    near = np.array([0.2, 0.7, 1.0])
    np.testing.assert_allclose(smooth_hinge(near, 1.0)[0], squared_hinge(near)[0] / 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_scores_and_adjoint_are_those_of_the_whole_matrix(kind, bias):
    """For few rows that count and for many."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 6))
    full = np.hstack([X, np.full((40, 1), bias)]) if bias else X
    A, close = Affine(KINDS[kind](X), bias), {"atol": 1e-4 if kind == "float32" else 1e-12}
    theta = rng.normal(size=full.shape[1])
    np.testing.assert_allclose(A.scores(theta), full @ theta, **close)
    for n in (0, 3, 39):
        r = np.where(np.arange(40) < n, rng.normal(size=40), 0.0)
        np.testing.assert_allclose(A.adjoint(r), full.T @ r, **close)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("omega", ["l2", "entropy"])
@pytest.mark.parametrize("bias", [0.0, 1.0, 10.0])
def test_gradient_is_that_of_finite_differences(loss, omega, bias):
    bags = problem(bias=bias)

    def objective(theta):
        return bags.loss(theta, LOSSES[loss], lambda s, o: segment_smoothed_max(s, o, 0.3, omega))

    theta = np.random.default_rng(5).normal(size=bags.A.n_weights) / 5
    numeric = approx_fprime(theta, lambda t: objective(t)[0], 1e-7)
    np.testing.assert_allclose(objective(theta)[1], numeric, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kind", ["float64", "csr"])
@pytest.mark.parametrize("bias", [1.0, 30.0])
@pytest.mark.parametrize("centered", [False, True])
def test_the_minimum_is_that_of_the_plain_objective(loss, kind, bias, centered):
    """The unit of the bias moves no minimum, and the trace holds the objective itself."""
    bags = problem(kind, bias)
    center = np.random.default_rng(1).normal(size=7) / 3 if centered else None
    offset = 0 if center is None else center

    def objective(theta):
        value, gradient = bags.loss(theta, LOSSES[loss], smoothed)
        return (theta - offset) @ (theta - offset) / 2 + value, theta - offset + gradient

    ours = minimize(bags, LOSSES[loss], smoothed, np.zeros(7), max_iter=1000, tol=1e-9, center=center)
    theirs = scipy_minimize(objective, np.zeros(7), jac=True, method="BFGS", options={"gtol": 1e-4})
    assert ours.converged
    assert ours.trace[-1] <= theirs.fun * (1 + 1e-5)
    assert ours.trace[-1] == pytest.approx(objective(ours.theta)[0], rel=1e-9)
    assert np.abs(objective(ours.theta)[1]).max() <= 1e-4 * np.abs(objective(np.zeros(7))[1]).max()


def test_every_iteration_goes_down_and_it_stops():
    bags, loss = problem(), LOSSES["squared_hinge"]
    minimum = minimize(bags, loss, smoothed, np.zeros(7), max_iter=1000, tol=1e-6)
    assert np.all(np.diff(minimum.trace) < 0)
    assert not minimize(bags, loss, smoothed, np.zeros(7), max_iter=2, tol=1e-9).converged
    again = minimize(bags, loss, smoothed, minimum.theta, max_iter=1000, tol=1e-6)
    assert len(again.trace) <= 3
    np.testing.assert_allclose(again.theta, minimum.theta, atol=1e-4)


def test_scores_that_are_infinite_are_refused():
    bags = problem()
    huge = BagProblem(Affine(bags.A.X * 1e300, 1.0), bags.offsets, bags.y, bags.cost)
    with pytest.raises(InputError, match="finite"), np.errstate(over="ignore", invalid="ignore"):
        minimize(huge, LOSSES["squared_hinge"], smoothed, np.full(7, 1e100), max_iter=9, tol=1e-6)
