"""Bags where scikit-learn expects arrays: its splitters, scorers, routing of weights, and `set_output`."""

import numpy as np
import pytest
import sklearn
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tag2box.mil import (
    MILES,
    BagStatistics,
    LatentSVC,
    PerInstance,
    SetKernel,
    SmoothLatentSVC,
    SmoothLatentSVCCV,
    make_bags,
)


@pytest.fixture(scope="module")
def toy():
    return make_bags(48, 4, separation=3.0, random_state=1)


def by_hand(model, bags, y, folds):
    return [sklearn.clone(model).fit(bags[a], y[a]).score(bags[b], y[b]) for a, b in folds]


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3, shuffle=True, random_state=0),
        StratifiedKFold(4),
        RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
        StratifiedShuffleSplit(3, random_state=0),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_splitters_split_bags(toy, cv):
    """They need no twin for bags: folds by hand give the same scores."""
    bags, y = toy
    model = LatentSVC(C=10)
    folds = list(cv.split(bags, y))
    np.testing.assert_allclose(cross_val_score(model, bags, y, cv=cv), by_hand(model, bags, y, folds))


def test_groups_stay_together(toy):
    bags, y = toy
    groups = np.arange(48) // 4
    scores = cross_val_score(LatentSVC(C=10), bags, y, groups=groups, cv=GroupKFold(3))
    folds = list(GroupKFold(3).split(bags, y, groups))
    np.testing.assert_allclose(scores, by_hand(LatentSVC(C=10), bags, y, folds))


def test_a_split_and_a_learning_curve(toy):
    bags, y = toy
    train, test, y_train, y_test = train_test_split(bags, y, stratify=y, random_state=0)
    assert len(train) == len(y_train) == 36
    assert LatentSVC(C=10).fit(train, y_train).score(test, y_test) > 0.5
    sizes, _, scores = learning_curve(LatentSVC(C=10), bags, y, cv=3, train_sizes=[0.5, 1.0])
    assert sizes.tolist() == [16, 32]
    assert np.isfinite(scores).all()


def test_scorers_are_their_metrics(toy):
    bags, y = toy
    model = SmoothLatentSVCCV(Cs=[1], mus=[0.5], cv=2)
    metrics = {"roc_auc": roc_auc_score, "average_precision": average_precision_score, "neg_log_loss": None}
    found = cross_validate(model, bags, y, cv=3, scoring=list(metrics))
    folds = StratifiedKFold(3).split(bags, y)
    for k, (a, b) in enumerate(folds):
        fitted = sklearn.clone(model).fit(bags[a], y[a])
        for name in ("roc_auc", "average_precision"):
            expected = metrics[name](y[b], fitted.decision_function(bags[b]))
            assert found[f"test_{name}"][k] == pytest.approx(expected)
        likely = fitted.predict_proba(bags[b])
        assert found["test_neg_log_loss"][k] == pytest.approx(-log_loss(y[b], likely))
    likely = cross_val_predict(model, bags, y, cv=3, method="predict_proba")
    np.testing.assert_allclose(likely.sum(axis=1), 1)


def test_weights_are_routed(toy):
    """Through a pipeline and a search: bags of weight 0 are as if they were not there."""
    bags, y = toy
    rng = np.random.default_rng(0)
    wrong = rng.random(48) < 0.2
    labels, weight = np.where(wrong, 1 - y, y), np.where(wrong, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        svc = LatentSVC(C=10).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        pipeline = make_pipeline(PerInstance(StandardScaler()), svc)
        pipeline.fit(bags, labels, sample_weight=weight)
        scaled = pipeline[0].transform(bags)
        search = GridSearchCV(svc, {"C": [10]}, cv=2).fit(scaled, labels, sample_weight=weight)
    expected = LatentSVC(C=10).fit(scaled[~wrong], y[~wrong]).decision_function(scaled)
    np.testing.assert_allclose(pipeline.decision_function(bags), expected, atol=1e-2)
    np.testing.assert_allclose(search.decision_function(scaled), expected, atol=1e-2)


@pytest.mark.parametrize("transformer", [BagStatistics(("max",)), SetKernel(), MILES()])
def test_rows_of_bags_can_be_frames(toy, transformer):
    """In a pipeline, too, where what is in front of them gives bags and not rows."""
    pd = pytest.importorskip("pandas")
    bags, y = toy
    pipeline = make_pipeline(PerInstance(StandardScaler()), sklearn.clone(transformer))
    plain = sklearn.clone(pipeline).fit_transform(bags, y)
    frame = pipeline.set_output(transform="pandas").fit_transform(bags, y)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(pipeline[-1].get_feature_names_out())
    np.testing.assert_allclose(frame.to_numpy(), plain)
    with sklearn.config_context(transform_output="pandas"):
        frame = sklearn.clone(pipeline).fit_transform(bags, y)
    np.testing.assert_allclose(frame.to_numpy(), plain)


def test_a_pipeline_takes_set_output_without_frames(toy):
    bags, y = toy
    model = make_pipeline(PerInstance(StandardScaler()), BagStatistics(), SVC())
    assert model.set_output(transform="default").fit(bags, y).score(bags, y) > 0.5


def test_parameters_of_the_inside_have_names(toy):
    pipeline = make_pipeline(PerInstance(StandardScaler()), SmoothLatentSVC())
    pipeline.set_params(perinstance__transformer__with_std=False, smoothlatentsvc__mu=2.0)
    assert pipeline.get_params()["smoothlatentsvc__mu"] == 2.0
    assert "SmoothLatentSVC" in repr(pipeline)
    assert "SmoothLatentSVC" in pipeline._repr_html_()
    bags, y = toy
    np.testing.assert_allclose(pipeline.fit(bags, y)[0].transform(bags).X.mean(axis=0), 0, atol=1e-9)
