"""`check_bag_estimator`: what must hold of every classifier of bags, ours and others'.

As scikit-learn's `check_estimator`, but for bags: each check is a function of an unfitted estimator, and
fails with an `AssertionError` of one line.
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
from tag2box.mil.per_instance import PerInstance
from tag2box.mil.toy import make_bags

Check = Callable[[Any], None]
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


def _toy(seed: int = 0) -> tuple[Bags, Any]:
    bags, y = make_bags(24, 3, size=(2, 5), separation=6.0, random_state=seed)
    return bags, y


def _scores(model: Any, bags: Any) -> Any:
    return model.decision_function(bags) if hasattr(model, "decision_function") else model.predict(bags)


def _fail(check: str, what: str) -> None:
    raise AssertionError(f"check_bag_estimator, {check}: {what}")


def _refuses(check: str, call: Callable[[], Any], what: str, error: type[Exception] = ValueError) -> None:
    try:
        call()
    except error:
        return
    _fail(check, f"{what} is taken without an error")


def check_fit_keeps_parameters(estimator: Any) -> None:
    """`fit` returns the estimator and leaves its parameters alone."""
    bags, y = _toy()
    model = clone(estimator)
    before = {name: repr(value) for name, value in model.get_params().items()}
    if model.fit(bags, y) is not model:
        _fail("fit", "fit must return the estimator itself")
    after = {name: repr(value) for name, value in model.get_params().items()}
    if before != after:
        _fail("fit", "fit changed a parameter")


def check_learns(estimator: Any) -> None:
    """Bags that are easy are learned, and what was not fitted says so."""
    bags, y = _toy()
    _refuses("fitted", lambda: clone(estimator).predict(bags), "predict before fit", NotFittedError)
    area = roc_auc_score(y, _scores(clone(estimator).fit(bags, y), bags))
    if not area > 0.8:
        _fail("learning", f"an area under the curve of {area:.2f} on the easy bags it was fitted to")


def check_labels(estimator: Any) -> None:
    """Labels may be any two values, and `classes_` has them in order."""
    bags, y = _toy()
    plain = clone(estimator).fit(bags, y).predict(bags)
    for names in (np.array(["no", "yes"]), np.array([-1, 1])):
        model = clone(estimator).fit(bags, names[y])
        if not np.array_equal(model.classes_, names):
            _fail("labels", f"classes_ must be {names.tolist()}, but is {list(model.classes_)}")
        if not np.array_equal(model.predict(bags), names[plain]):
            _fail("labels", "other names of the labels change what is predicted")


def check_shapes(estimator: Any) -> None:
    """One score and one label per bag; probabilities that sum to one; one score per instance."""
    bags, y = _toy()
    model = clone(estimator).fit(bags, y)
    if model.predict(bags).shape != (len(bags),):
        _fail("shapes", "predict must give one label per bag")
    if hasattr(model, "decision_function") and model.decision_function(bags).shape != (len(bags),):
        _fail("shapes", "decision_function must give one score per bag for two classes")
    if hasattr(model, "predict_proba"):
        likely = model.predict_proba(bags)
        if likely.shape != (len(bags), 2) or not np.allclose(likely.sum(axis=1), 1) or likely.min() < 0:
            _fail("shapes", "predict_proba must give (n_bags, 2) probabilities that sum to 1")
    if hasattr(model, "instance_scores") and len(model.instance_scores(bags)) != bags.n_instances:
        _fail("shapes", "instance_scores must give one score per instance")


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
        if not np.allclose(_scores(clone(estimator).fit(other, y), other), expected, CLOSE, CLOSE):
            _fail("same bags", f"{name} gives other scores")


def check_deterministic(estimator: Any) -> None:
    """Two fits, and a pickled copy, give the same scores to the bit; a bag's do not depend on the others."""
    bags, y = _toy()
    model = clone(estimator).fit(bags, y)
    expected = _scores(model, bags)
    if not np.array_equal(_scores(clone(estimator).fit(bags, y), bags), expected):
        _fail("determinism", "a second fit gives other scores: give it a random_state")
    if not np.array_equal(_scores(pickle.loads(pickle.dumps(model)), bags), expected):
        _fail("pickling", "the copy gives other scores")
    one_by_one = [_scores(model, bags[i : i + 1])[0] for i in range(len(bags))]
    if expected.dtype.kind == "f" and not np.allclose(one_by_one, expected):
        _fail("prediction", "the score of a bag depends on the bags beside it")


def check_refusals(estimator: Any) -> None:
    """What cannot be learned from is refused."""
    bags, y = _toy()
    model = clone(estimator)
    holes = Bags(np.where(bags.X.max() - 1e-9 < bags.X, np.nan, bags.X), bags.offsets)
    _refuses("refusals", lambda: model.fit(holes, y), "a NaN")
    _refuses("refusals", lambda: model.fit(bags, np.ones(len(bags))), "a single class")
    _refuses("refusals", lambda: model.fit(bags, y[:-1]), "a label too few")
    wider = Bags(np.hstack([bags.X, bags.X]), bags.offsets)
    fitted = clone(estimator).fit(bags, y)
    _refuses("refusals", lambda: fitted.predict(wider), "another number of features")


def check_scikit_learn(estimator: Any) -> None:
    """Cross-validation, a grid search over a pipeline, and its pieces."""
    bags, y = _toy()
    if len(cross_val_score(clone(estimator), bags, y, cv=2, error_score="raise")) != 2:
        _fail("scikit-learn", "cross_val_score")
    pipeline = make_pipeline(PerInstance(MaxAbsScaler()), clone(estimator))
    grid = {"perinstance__transformer": [MaxAbsScaler()]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(bags, y)
    if not np.isfinite(search.best_score_):
        _fail("scikit-learn", "GridSearchCV")


CHECKS: tuple[Check, ...] = (
    check_fit_keeps_parameters,
    check_learns,
    check_labels,
    check_shapes,
    check_same_bags,
    check_deterministic,
    check_refusals,
    check_scikit_learn,
)
