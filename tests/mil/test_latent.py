import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import LinearSVC

from tag2box.errors import InputError
from tag2box.mil import Bags, LatentSVC, SmoothLatentSVC
from tag2box.mil.convex import ConvexHalf
from tag2box.mil.losses import LOSSES
from tag2box.mil.objective import Affine, BagProblem
from tag2box.mil.smoothing import segment_max, segment_smoothed_max

TIGHT = {"tol": 1e-9, "max_iter": 20_000}
MODELS = [LatentSVC, SmoothLatentSVC]


def some_bags(n=30, d=5, seed=0, size=6, shift=2.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1, -1)
    matrices = [rng.normal(size=(rng.integers(1, size), d)) for _ in y]
    for matrix, label in zip(matrices, y, strict=True):
        matrix[0] += shift * (label > 0)
    return Bags.from_list(matrices), y


def singles(n=60, d=4, seed=1):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1, -1)
    return Bags(rng.normal(size=(n, d)) + 0.7 * y[:, None], np.arange(n + 1)), y


def problem(bags, y, C=1.0, bias=1.0):
    return BagProblem(Affine(bags.X, bias), bags.offsets, y.astype(float), np.full(len(y), C))


def latent_objective(model, bags, y):
    """By the book: ½‖w‖² + ½b² + C Σ ℓ(y max), bag by bag."""
    w, b = model.coef_[0], model.intercept_[0]
    best = np.array([(np.asarray(x @ w) + b).max() for x in bags])
    return w @ w / 2 + b**2 / 2 + model.C * LOSSES[model.loss](y * best)[0].sum()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_instance_per_bag_is_linear_svc(loss, intercept):
    bags, y = singles()
    peer = LinearSVC(C=0.5, loss=loss, fit_intercept=intercept, tol=1e-10, max_iter=1_000_000, random_state=0)
    peer.fit(bags.X, y)
    models = [LatentSVC(C=0.5, loss=loss, fit_intercept=intercept, tol=1e-9)]
    if loss != "hinge":
        models.append(SmoothLatentSVC(C=0.5, mu=1e-8, loss=loss, fit_intercept=intercept, **TIGHT))
    for model in models:
        model.fit(bags, y)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-4)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=2e-4)


@pytest.mark.parametrize("loss", LatentSVC.losses)
def test_latent_objective_never_rises_and_is_the_one_said(loss):
    bags, y = some_bags(40, seed=3, shift=1.0)
    model = LatentSVC(C=3.0, loss=loss, init="zeros").fit(bags, y)
    assert len(model.objective_trace_) > 2
    assert (np.diff(model.objective_trace_) <= 0).all()
    assert model.objective_ == pytest.approx(latent_objective(model, bags, y), rel=1e-9)


@pytest.mark.parametrize("loss", LatentSVC.losses)
def test_convex_half_is_solved(loss):
    """No step in any of many random directions, long or short, goes further down."""
    bags, y = some_bags(24, seed=4, shift=1.0)
    p = problem(bags, y, 0.4)
    theta = np.random.default_rng(0).normal(size=p.A.n_weights)
    witness = segment_max(p.A.scores(theta), p.offsets)[1][y > 0]
    w = ConvexHalf(p, loss).solve(theta, witness, 1e-10)

    fixed = Bags.from_list([bags.X[[witness[(y > 0)[:i].sum()]]] if y[i] > 0 else bags[i] for i in range(24)])
    q = problem(fixed, y, 0.4)

    def value(theta):
        best = segment_max(q.A.scores(theta), q.offsets)[0]
        return theta @ theta / 2 + 0.4 * LOSSES[loss](y * best)[0].sum()

    rng = np.random.default_rng(1)
    least = min(value(w + step * rng.normal(size=len(w))) for step in (1e-1, 1e-2, 1e-3) for _ in range(200))
    assert value(w) < least


@pytest.mark.parametrize("omega", ["l2", "entropy"])
def test_small_mu_gives_the_latent_svm_value(omega):
    bags, y = some_bags(30, seed=6)
    model = SmoothLatentSVC(C=1.0, mu=1e-6, omega=omega, max_iter=5000).fit(bags, y)
    assert model.objective_ == pytest.approx(latent_objective(model, bags, y), rel=1e-5)
    np.testing.assert_allclose(
        model.decision_function(bags),
        np.maximum.reduceat(model.instance_scores(bags), bags.offsets[:-1]),
        atol=1e-5,
    )


@pytest.mark.parametrize("Model", MODELS)
def test_weight_two_is_the_bag_twice(Model):
    bags, y = some_bags()
    weight = np.where(np.arange(len(y)) % 4 == 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(weight == 2)])
    a = Model(tol=1e-8).fit(bags, y, sample_weight=weight)
    b = Model(tol=1e-8).fit(bags[twice], y[twice])
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-4)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-4)


@pytest.mark.parametrize("Model", MODELS)
def test_weight_zero_leaves_the_bag_out_and_class_weight_is_a_weight(Model):
    bags, y = some_bags()
    keep = np.arange(len(y)) % 5 > 0
    a = Model().fit(bags, y, sample_weight=keep.astype(float))
    np.testing.assert_allclose(a.coef_, Model().fit(bags[keep], y[keep]).coef_, atol=1e-9)
    b = Model(class_weight={1: 3.0, -1: 1.0}).fit(bags, y)
    c = Model().fit(bags, y, sample_weight=np.where(y > 0, 3.0, 1.0))
    np.testing.assert_array_equal(b.coef_, c.coef_)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("intercept", [False, True])
def test_csr_is_dense(Model, intercept):
    bags, y = some_bags()
    X = np.where(np.abs(bags.X) > 0.5, bags.X, 0)
    X = np.insert(X, 2, 0, axis=1)  # a column that is empty
    full, csr = Bags(X, bags.offsets), Bags(sparse.csr_array(X), bags.offsets)
    dense = Model(fit_intercept=intercept, tol=1e-8).fit(full, y)
    thin = Model(fit_intercept=intercept, tol=1e-8).fit(csr, y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(thin.instance_scores(csr), dense.instance_scores(full), atol=1e-5)
    assert thin.coef_[0, 2] == 0


@pytest.mark.parametrize("Model", MODELS)
def test_more_than_two_classes_are_one_against_the_rest(Model):
    bags, _ = some_bags(45, seed=8)
    y = np.array(["a", "b", "c"])[np.arange(45) % 3]
    for bag, label in zip(bags, y, strict=True):
        bag[0] += 4 * np.eye(5)["abc".index(label)]
    model = Model().fit(bags, y)
    assert model.decision_function(bags).shape == (45, 3)
    assert model.instance_scores(bags).shape == (bags.n_instances, 3)
    assert model.score(bags, y) > 0.9
    alone = Model().fit(bags, y == "b")
    np.testing.assert_allclose(model.coef_[1], alone.coef_[0])
    assert Model(n_jobs=2).fit(bags, y).coef_.tobytes() == model.coef_.tobytes()


def test_decision_is_the_smoothed_maximum_or_the_maximum():
    bags, y = some_bags()
    model = SmoothLatentSVC(mu=0.5).fit(bags, y)
    scores = model.instance_scores(bags)
    smooth = segment_smoothed_max(scores, bags.offsets, 0.5)[0]
    np.testing.assert_array_equal(model.decision_function(bags), smooth)
    np.testing.assert_array_equal(model.predict(bags), np.where(smooth > 0, 1, -1))
    model.set_params(decision="max")
    np.testing.assert_array_equal(model.decision_function(bags), scores[model.witness(bags)])


@pytest.mark.parametrize("Model", MODELS)
def test_starts(Model):
    bags, y = some_bags()
    model = Model(warm_start=True).fit(bags, y)
    first = model.objective_
    model.fit(bags, y)
    assert model.objective_trace_[0] == pytest.approx(first, rel=1e-6)
    given = Model(init=(model.coef_, model.intercept_)).fit(bags, y)
    assert given.objective_trace_[0] == pytest.approx(first, rel=1e-6)
    with pytest.raises(InputError, match="5 weights for each class"):
        Model(init=np.zeros(3)).fit(bags, y)


def bad(**parameters):
    return lambda bags, y: SmoothLatentSVC(**parameters).fit(bags, y)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (bad(C=-1), "C must be greater than 0, but it is -1"),
        (bad(mu=0), "mu must be greater than 0"),
        (bad(max_iter=0), "max_iter must be at least 1"),
        (bad(omega="l1"), "omega must be one of l2, entropy"),
        (bad(loss="hinge"), "loss must be one of squared_hinge"),
        (bad(init="random"), "init must be"),
        (bad(top=3, omega="entropy"), "top must be None"),
        (lambda bags, y: LatentSVC().fit(bags, y, sample_weight=[1.0]), "one entry per bag"),
        (lambda bags, y: LatentSVC().fit(bags, y, sample_weight=-np.ones(len(y))), "not negative"),
        (lambda bags, y: LatentSVC().fit(bags, y, sample_weight=(y > 0) * 1.0), "on one side"),
    ],
)
def test_bad_input_gets_one_clear_line(call, says):
    with pytest.raises(InputError, match=says) as error:
        call(*some_bags(12))
    assert "\n" not in str(error.value)


def test_not_fitted_and_not_converged_are_said():
    bags, y = some_bags()
    with pytest.raises(NotFittedError):
        LatentSVC().predict(bags)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        SmoothLatentSVC(max_iter=2).fit(bags, y)


def test_degenerate_data_is_survived():
    y = np.array([1, -1, 1, -1])
    for bags in (Bags(np.zeros((4, 2)), np.arange(5)), Bags(np.ones((4, 2)), np.arange(5))):
        for model in (LatentSVC(), SmoothLatentSVC(), LatentSVC(fit_intercept=False)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.isfinite(model.fit(bags, y).decision_function(bags)).all()
