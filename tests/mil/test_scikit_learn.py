"""Bags where scikit-learn expects arrays: its splitters, scorers, routing of weights, and `set_output`."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tag2box.mil import MILES, BagStatistics, LatentSVC, PerInstance, SetKernel, make_bags


@pytest.fixture(scope="module")
def toy():
    return make_bags(48, 4, separation=3.0, random_state=1)


def by_hand(model, bags, y, folds):
    return [sklearn.clone(model).fit(bags[a], y[a]).score(bags[b], y[b]) for a, b in folds]


@pytest.mark.parametrize("cv", [StratifiedKFold(4), StratifiedShuffleSplit(3, random_state=0)])
def test_splitters_split_bags(toy, cv):
    """They need no twin for bags: folds by hand give the same scores."""
    bags, y = toy
    model = LatentSVC(C=10)
    folds = list(cv.split(bags, y))
    np.testing.assert_allclose(cross_val_score(model, bags, y, cv=cv), by_hand(model, bags, y, folds))


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
