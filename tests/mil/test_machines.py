"""Every machine keeps to the contract; the classics do what their equations say, by slow twins."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

from tag2box import mil
from tag2box.errors import InputError
from tag2box.mil import (
    MILES,
    MISVM,
    Bags,
    BagStackingCV,
    BagStatistics,
    BagWrapper,
    InstanceScaler,
    LatentSVC,
    LatentSVCCV,
    MiSVM,
    PerInstance,
    SetKernel,
    SmoothLatentSVC,
    SmoothLatentSVCCV,
    check_bag_estimator,
    make_bags,
)
from tag2box.mil.checks import CHECKS
from tag2box.mil.search import cross_validate
from tag2box.mil.stacking import usual_machines

MACHINES = {
    "LatentSVC": LatentSVC(C=10),
    "SmoothLatentSVC": SmoothLatentSVC(C=10),
    "LatentSVCCV": LatentSVCCV(Cs=[1, 10], cv=2),
    "SmoothLatentSVCCV": SmoothLatentSVCCV(Cs=[1, 10], mus=[1], cv=2),
    "SIL": BagWrapper(SVC(kernel="linear")),
    "noisy-or": BagWrapper(LogisticRegression(), pooling="noisy_or"),
    "mi-SVM": MiSVM(),
    "MI-SVM": MISVM(SVC(C=10)),
    "NSK": make_pipeline(SetKernel(gamma=0.1), SVC(kernel="precomputed", C=10)),
    "MILES": make_pipeline(
        MILES(gamma=0.1), LinearSVC(penalty="l1", dual=False, tol=1e-6, max_iter=100_000, random_state=0)
    ),
    "statistics": make_pipeline(BagStatistics(), MaxAbsScaler(), SVC()),
    "stacked": BagStackingCV(
        [(SmoothLatentSVC(), {"C": [1, 10]}), (MISVM(SVC()), {"estimator__C": [1, 10]})], cv=2
    ),
    "stacked, the usual": BagStackingCV(cv=2),
    "Nyström": make_pipeline(
        PerInstance(Nystroem(gamma=0.1, n_components=40, random_state=0)), SmoothLatentSVC(C=10)
    ),
}


@pytest.mark.parametrize(
    ("name", "check"), list(product(MACHINES, CHECKS)), ids=lambda x: getattr(x, "__name__", x)
)
def test_every_machine_keeps_to_the_contract(name, check):
    if name == "Nyström" and check.__name__ == "check_same_bags":
        pytest.skip("its landmarks are drawn by row: another order of instances has others")
    check(MACHINES[name])


def test_no_machine_is_left_out():
    """Every public estimator is one of the machines that are checked above, or a part of one."""
    public = {name for name in mil.__all__ if hasattr(getattr(mil, name), "get_params")}
    machines = [*MACHINES.values(), *(machine for machine, _ in usual_machines(text=False).values())]
    parts = [part for machine in machines for part in (machine, *machine.get_params().values())]
    assert public <= {type(part).__name__ for part in parts}


class Broken(LatentSVC):
    """Wrong in one way at a time."""

    def __init__(self, C=1.0, fault=None):
        super().__init__(C)
        self.fault = fault

    def fit(self, bags, y, sample_weight=None):
        if self.fault == "changes C":
            self.C = 2 * self.C
        if self.fault == "forgets NaN":
            bags = [np.nan_to_num(bag) for bag in bags]
        super().fit(bags, y)
        return None if self.fault == "returns nothing" else self

    def decision_function(self, bags):
        scores = super().decision_function(bags)
        if self.fault == "centers":
            scores = scores - scores.mean()
        return -scores if self.fault == "learns nothing" else scores


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("changes C", "changed a parameter"),
        ("forgets NaN", "a NaN is taken"),
        ("returns nothing", "must return the estimator"),
        ("centers", "depends on the other bags"),
        ("learns nothing", "under the curve"),
    ],
)
def test_checks_find_what_is_wrong(fault, said):
    with pytest.raises(AssertionError, match=said):
        check_bag_estimator(Broken(C=10, fault=fault))


@pytest.fixture(scope="module")
def toy():
    return make_bags(40, 4, random_state=3)


def test_the_set_kernel_sums_over_all_pairs(toy):
    bags, _ = toy
    for normalization in ("feature", "averaging"):
        K = SetKernel(gamma=0.2, normalization=normalization).fit(bags[:15]).transform(bags[15:25])
        for i, j in ((0, 0), (3, 14), (9, 7)):
            A, B = bags[15 + i], bags[j]
            whole = [rbf_kernel(*pair, gamma=0.2).sum() for pair in ((A, B), (A, A), (B, B))]
            divisor = np.sqrt(whole[1] * whole[2]) if normalization == "feature" else len(A) * len(B)
            assert K[i, j] == pytest.approx(whole[0] / divisor)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_linear_set_kernel_needs_only_sums(toy, kind):
    bags = Bags(kind(toy[0].X), toy[0].offsets)
    for normalization in ("feature", "averaging"):
        short = SetKernel("linear", normalization=normalization).fit(bags[:15])
        whole = SetKernel("poly", gamma=1, degree=1, coef0=0, normalization=normalization).fit(bags[:15])
        np.testing.assert_allclose(short.transform(bags[15:]), whole.transform(bags[15:]), atol=1e-12)


def test_a_set_kernel_in_blocks_is_the_same(toy, monkeypatch):
    bags, _ = toy
    whole = [t.fit_transform(bags) for t in (SetKernel(), MILES())]
    monkeypatch.setattr("tag2box.mil.set_kernel.BLOCK", 1500)
    for expected, transformer in zip(whole, (SetKernel(), MILES()), strict=True):
        np.testing.assert_allclose(transformer.fit_transform(bags), expected)


def test_miles_takes_the_nearest_instance(toy):
    bags, _ = toy
    rows = MILES(gamma=0.3).fit(bags[:10]).transform(bags[10:])
    assert rows.shape == (30, bags[:10].n_instances)
    expected = [rbf_kernel(bag, bags[:10].X, gamma=0.3).max(axis=0) for bag in bags[10:]]
    np.testing.assert_allclose(rows, expected)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_statistics_are_those_of_numpy(toy, kind):
    X = np.where(toy[0].X > 0.3, toy[0].X, 0) - (toy[0].X < -1)
    bags = Bags(kind(X), toy[0].offsets)
    names = ("mean", "min", "max", "std")
    found = BagStatistics(names).fit(bags).transform(bags)
    assert sparse.issparse(found) == sparse.issparse(bags.X)
    dense = found.toarray() if sparse.issparse(found) else found
    expected = [
        np.concatenate([getattr(X[a:b], name)(axis=0) for name in names])
        for a, b in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]
    np.testing.assert_allclose(dense, expected, atol=1e-7)
    assert BagStatistics(("max",)).fit(bags).get_feature_names_out()[:2].tolist() == ["max_x0", "max_x1"]


@pytest.mark.parametrize("pooling", ["max", "mean", "softmax", "noisy_or"])
def test_poolings_bag_by_bag(toy, pooling):
    bags, y = toy
    model = BagWrapper(LogisticRegression(), pooling=pooling, sharpness=2.0).fit(bags, y)
    by_hand = {
        "max": max,
        "mean": np.mean,
        "softmax": lambda p: (p * np.exp(2 * p)).sum() / np.exp(2 * p).sum(),
        "noisy_or": lambda p: 1 - np.prod(1 - p),
    }[pooling]
    expected = [by_hand(model.estimator_.predict_proba(bag)[:, 1]) for bag in bags]
    np.testing.assert_allclose(model.predict_proba(bags)[:, 1], expected)


def test_bags_of_one_instance_are_rows():
    """On them every classic is its SVM on rows."""
    rng = np.random.default_rng(0)
    y = np.arange(50) % 2
    X = rng.normal(size=(50, 3)) + y[:, None]
    bags = Bags(X, np.arange(51))
    expected = SVC(kernel="linear").fit(X, y).decision_function(X)
    for machine in (MiSVM(), MISVM(), BagWrapper(SVC(kernel="linear"))):
        np.testing.assert_allclose(machine.fit(bags, y).decision_function(bags), expected, atol=1e-3)


@pytest.mark.parametrize("Machine", [MiSVM, MISVM])
def test_the_alternation_ends_at_its_own_labels(toy, Machine):
    """One more round from where it stopped gives the same machine."""
    bags, y = toy
    model = Machine(SVC(kernel="linear")).fit(bags, y)
    sign = np.where(y == 1, 1.0, -1.0)
    X, target, _ = model._training_set(bags, sign, model.instance_scores(bags))
    again = SVC(kernel="linear").fit(X, target).decision_function(bags.X)
    np.testing.assert_allclose(again, model.instance_scores(bags), atol=1e-3)
    if Machine is MiSVM:
        best = np.maximum.reduceat(target, bags.offsets[:-1])
        np.testing.assert_array_equal(best, sign)  # a positive in each positive bag, none elsewhere


@pytest.mark.parametrize("name", ["SIL", "MI-SVM", "SmoothLatentSVCCV", "stacked"])
def test_three_classes(name):
    rng = np.random.default_rng(1)
    y = np.arange(45) % 3
    bags = Bags.from_list([rng.normal(size=(3, 3)) + np.outer([6, 0, 0], np.eye(3)[label]) for label in y])
    model = clone(MACHINES[name]).fit(bags, y)
    assert model.decision_function(bags).shape == (45, 3)
    assert model.score(bags, y) > 0.8


def test_the_choice_is_that_of_a_grid_search(toy):
    bags, y = toy
    model = LatentSVCCV(Cs=[0.01, 10], cv=4, scoring="balanced_accuracy").fit(bags, y)
    search = GridSearchCV(LatentSVC(), {"C": [0.01, 10]}, cv=4, scoring="balanced_accuracy").fit(bags, y)
    assert model.best_params_ == search.best_params_
    np.testing.assert_allclose(model.scores_.mean(axis=0), search.cv_results_["mean_test_score"])
    with pytest.raises(InputError, match="take fewer folds"):
        LatentSVCCV(cv=KFold(2)).fit(bags[:12], np.arange(12) < 4)


@pytest.mark.parametrize("method", ["normalize", "standardize"])
def test_scaling_looks_at_numbers_and_not_at_their_format(toy, method):
    rng = np.random.default_rng(0)
    text = np.where(rng.random((40, 60)) < 0.05, rng.random((40, 60)), 0)
    for X in (toy[0].X, text):
        scaler = InstanceScaler(method).fit(X)
        other = InstanceScaler(method).fit(sparse.csr_array(X))
        assert scaler.mostly_zeros_ == other.mostly_zeros_ == (X is text)
        found = other.transform(sparse.csr_array(X))
        assert sparse.issparse(found) == (X is text)
        np.testing.assert_allclose(found.toarray() if X is text else found, scaler.transform(X))
        if method == "normalize":
            centered = X if X is text else X - X.mean(axis=0)
            lengths = np.linalg.norm(centered, axis=1, keepdims=True)
            np.testing.assert_allclose(scaler.transform(X), centered / np.where(lengths, lengths, 1))
        else:  # gamma="scale" is 1
            assert SVC().fit(scaler.transform(X), np.arange(len(X)) % 2)._gamma == pytest.approx(1)


def test_a_search_transforms_once_for_all_settings_of_the_last_step(toy, monkeypatch):
    """And its scores are those of GridSearchCV, which transforms for each."""
    bags, y = toy
    calls = []
    transform = SetKernel.transform
    monkeypatch.setattr(SetKernel, "transform", lambda *a: calls.append(1) or transform(*a))
    pipeline = make_pipeline(SetKernel(), SVC(kernel="precomputed"))
    points = list(ParameterGrid({"setkernel__gamma": [0.1, 1.0], "svc__C": [0.1, 1, 10]}))
    folds = list(StratifiedKFold(3).split(bags, y))
    result = cross_validate(pipeline, points, bags, y, folds)
    assert len(calls) == 3 * 2 * 2  # folds, gammas, and both sides
    grid = {"setkernel__gamma": [0.1, 1.0], "svc__C": [0.1, 1, 10]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(bags, y)
    assert search.cv_results_["params"] == points
    np.testing.assert_allclose(result.scores.mean(axis=0), search.cv_results_["mean_test_score"])
    by_hand = cross_val_predict(pipeline.set_params(**points[4]), bags, y, cv=3, method="decision_function")
    np.testing.assert_allclose(result.decisions[4], by_hand)


def test_stacking_one_machine_is_its_grid_search_calibrated(toy):
    """The order of bags is that of the machine; the choice is GridSearchCV's."""
    bags, y = toy
    grid = {"C": [0.01, 10]}
    model = BagStackingCV([(LatentSVC(), grid)], cv=4).fit(bags, y)
    search = GridSearchCV(LatentSVC(), grid, cv=4).fit(bags, y)
    assert model.best_params_ == [search.best_params_]
    assert model.best_scores_ == pytest.approx([search.best_score_])
    order = np.argsort(search.decision_function(bags))
    assert np.all(np.diff(model.decision_function(bags)[order]) >= 0)


def test_probabilities_are_calibrated():
    """Of fresh bags with 0.7 about 70 per cent are positive; the order is that of the scores."""
    bags, y = make_bags(600, 3, separation=2.5, random_state=0)
    fresh, truth = make_bags(2000, 3, separation=2.5, random_state=1)
    model = SmoothLatentSVCCV(Cs=[1], mus=[0.5]).fit(bags, y)
    likely = model.predict_proba(fresh)[:, 1]
    assert np.all(np.diff(likely[np.argsort(model.decision_function(fresh))]) >= 0)
    for low in (0.2, 0.4, 0.6, 0.8):
        inside = (likely >= low) & (likely < low + 0.2)
        assert inside.sum() > 50
        assert truth[inside].mean() == pytest.approx(likely[inside].mean(), abs=0.1)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (BagWrapper(SVC(), pooling="noisy_or"), "needs probabilities"),
        (BagWrapper(SVC(), pooling="median"), "pooling"),
        (MiSVM(max_iter=0), "max_iter"),
        (SetKernel(normalization="none"), "normalization"),
        (SetKernel(gamma=-1), "gamma must be greater"),
        (MILES(gamma=0), "gamma must be greater"),
        (BagStatistics(("median",)), "statistics"),
        (BagStatistics(()), "no statistics"),
        (LatentSVCCV(Cs=[]), "no settings"),
        (BagStackingCV([]), "no machines"),
        (PerInstance(InstanceScaler("median")), "method"),
    ],
)
def test_wrong_parameters_are_said(toy, machine, said):
    with pytest.raises(InputError, match=said):
        machine.fit(*toy)


def test_an_alternation_that_is_cut_short_says_so(toy):
    with pytest.warns(match="labels still changed"):
        MISVM(max_iter=1).fit(*toy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MISVM().fit(*toy)
