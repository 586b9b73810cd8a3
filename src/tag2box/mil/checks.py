"""`check_bag_estimator`: the contract of every classifier of bags, as scikit-learn's `check_estimator`.

Each check is a function of an unfitted estimator and fails with an `AssertionError` of one line.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from tag2box.mil.bags import Bags
from tag2box.mil.scaling import PerInstance
from tag2box.mil.toy import make_bags

CLOSE = 1e-3  # between two orders of the same sums, by solvers that stop early


def check_bag_estimator(estimator: Any) -> None:
    """Check that a classifier of bags keeps to the contract of this module and of scikit-learn.

    Parameters
    ----------
    estimator : classifier
        An unfitted classifier with `fit(bags, y)` and `predict(bags)`, or a pipeline that ends in one.

    Raises
    ------
    AssertionError
        If a check fails, with its name and what went wrong.

    Examples
    --------
    >>> from tag2box.mil import SmoothLatentSVC, check_bag_estimator
    >>> check_bag_estimator(SmoothLatentSVC())
    """
    for check in CHECKS:
        check(estimator)


def _toy() -> tuple[Bags, Any]:
    bags, y = make_bags(24, 3, size=(2, 5), separation=6.0, random_state=0)
    return bags, y


def _scores(model: Any, bags: Any) -> Any:
    return model.decision_function(bags) if hasattr(model, "decision_function") else model.predict(bags)


def _refuses(what: str, call: Callable[..., Any], *args: Any, error: type[Exception] = ValueError) -> None:
    try:
        call(*args)
    except error:
        return
    raise AssertionError(f"{what} is taken without an error")


def check_fit(estimator: Any) -> None:
    """`fit` learns easy bags, returns the estimator and leaves its parameters alone."""
    bags, y = _toy()
    model = clone(estimator)
    _refuses("predict before fit", model.predict, bags, error=NotFittedError)
    before = {name: repr(value) for name, value in model.get_params().items()}
    assert model.fit(bags, y) is model, "fit must return the estimator itself"
    after = {name: repr(value) for name, value in model.get_params().items()}
    assert before == after, "fit changed a parameter"
    area = roc_auc_score(y, _scores(model, bags))
    assert area > 0.8, f"an area under the curve of {area:.2f} on the easy bags it was fitted to"


def check_labels(estimator: Any) -> None:
    """Labels may be any two values, and `classes_` has them in order."""
    bags, y = _toy()
    plain = clone(estimator).fit(bags, y).predict(bags)
    for names in (np.array(["no", "yes"]), np.array([-1, 1])):
        model = clone(estimator).fit(bags, names[y])
        assert np.array_equal(model.classes_, names), f"classes_ must be {names}, but is {model.classes_}"
        assert np.array_equal(model.predict(bags), names[plain]), "other names of labels change predictions"


def check_shapes(estimator: Any) -> None:
    """One score and one label per bag; probabilities that sum to one; one score per instance."""
    bags, y = _toy()
    n, model = len(bags), clone(estimator).fit(bags, y)
    assert model.predict(bags).shape == (n,), "predict must give one label per bag"
    if hasattr(model, "decision_function"):
        shape = model.decision_function(bags).shape
        assert shape == (n,), "decision_function must give one score per bag for two classes"
    if hasattr(model, "predict_proba"):
        likely = model.predict_proba(bags)
        right = likely.shape == (n, 2) and np.allclose(likely.sum(axis=1), 1) and likely.min() >= 0
        assert right, "predict_proba must give (n_bags, 2) probabilities that sum to 1"
    if hasattr(model, "instance_scores"):
        right = len(model.instance_scores(bags)) == bags.n_instances
        assert right, "instance_scores must give one score per instance"


def check_same_bags(estimator: Any) -> None:
    """A list of matrices, CSR and another order of instances are the same bags."""
    bags, y = _toy()
    expected = _scores(clone(estimator).fit(bags, y), bags)
    rng = np.random.default_rng(0)
    same = {
        "a list of matrices": list(bags),
        "CSR": Bags(sparse.csr_array(bags.X), bags.offsets),
        "another order of instances": Bags.from_list([rng.permutation(bag) for bag in bags]),
    }
    for name, other in same.items():
        scores = _scores(clone(estimator).fit(other, y), other)
        assert np.allclose(scores, expected, CLOSE, CLOSE), f"{name} gives other scores"


def check_deterministic(estimator: Any) -> None:
    """Two fits, and a pickled copy, give the same scores to the bit; a bag's do not depend on the others."""
    bags, y = _toy()
    model = clone(estimator).fit(bags, y)
    expected = _scores(model, bags)
    again = _scores(clone(estimator).fit(bags, y), bags)
    assert np.array_equal(again, expected), "a second fit gives other scores: give it a random_state"
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(_scores(copy, bags), expected), "a pickled copy gives other scores"
    one_by_one = [_scores(model, bags[i : i + 1])[0] for i in range(len(bags))]
    same = expected.dtype.kind != "f" or np.allclose(one_by_one, expected)
    assert same, "the score of a bag depends on the other bags"


def check_refusals(estimator: Any) -> None:
    """Bags and labels that cannot be learned from are refused."""
    bags, y = _toy()
    fit = clone(estimator).fit
    _refuses("a NaN", fit, Bags(np.where(bags.X.max() == bags.X, np.nan, bags.X), bags.offsets), y)
    _refuses("a single class", fit, bags, np.ones(len(bags)))
    _refuses("a label too few", fit, bags, y[:-1])
    wider = Bags(np.hstack([bags.X, bags.X]), bags.offsets)
    _refuses("another number of features", clone(estimator).fit(bags, y).predict, wider)


def check_scikit_learn(estimator: Any) -> None:
    """Cross-validation, and a grid search over a pipeline."""
    bags, y = _toy()
    assert len(cross_val_score(clone(estimator), bags, y, cv=2, error_score="raise")) == 2, "cross_val_score"
    pipeline = make_pipeline(PerInstance(MaxAbsScaler()), clone(estimator))
    grid = {"perinstance__transformer": [MaxAbsScaler()]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(bags, y)
    assert np.isfinite(search.best_score_), "GridSearchCV"


CHECKS: tuple[Callable[[Any], None], ...] = (
    check_fit,
    check_labels,
    check_shapes,
    check_same_bags,
    check_deterministic,
    check_refusals,
    check_scikit_learn,
)
