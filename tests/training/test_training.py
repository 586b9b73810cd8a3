"""From covers to detectors: each stage against a slow and obvious twin, or a peer that everybody trusts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from tests._planted import N_IMAGES, N_WINDOWS, D, planted

from tag2box import Bags, LatentSVC, SmoothLatentSVC
from tag2box.boxes import iou_matrix
from tag2box.cover.compared import compare
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.errors import InputError
from tag2box.training.findings import find_best
from tag2box.training.initial import InitialConfig, first_positives, train_initial
from tag2box.training.refinement import RefineConfig, refine, score_unseen
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import score_windows

SVM = InitialConfig(C=0.01, bias=1.0, rounds=20, hardest=40)
FREE = RefineConfig(C=0.05, bias=1.0, rounds=30, top=2, tol=1e-6)


@pytest.fixture(scope="module")
def known():
    return planted()


@pytest.fixture(scope="module")
def trained(known):
    settings, everything = CoverConfig(dimensions=D), np.ones(N_IMAGES, bool)
    compared = compare((known.described, everything), settings.dimensions)
    degrees = count_neighbors(np.arange(N_IMAGES), compared, known.tags, settings.k)
    covers = find_covers(known.described.windows, compared, known.tags, degrees, settings)
    return covers, train_initial(known, covers, SVM)


def test_hard_negative_mining_ends_at_the_svm_of_all_windows(known, trained):
    tags, (covers, weights) = known.tags, trained
    for c, cover in enumerate(covers):
        rows = first_positives(cover, known.described.windows, tags[:, c] == 1)
        negative = np.flatnonzero(np.repeat(tags[:, c] == -1, N_WINDOWS))
        X = known.described.X[np.concatenate([rows, negative])]
        y = np.repeat([1, -1], [len(rows), len(negative)])
        peer = LinearSVC(C=SVM.C, class_weight={1: SVM.positive_weight, -1: 1}, tol=1e-9, max_iter=100_000)
        peer.fit(X.astype(np.float64), y)
        np.testing.assert_allclose(weights.W[c], peer.coef_[0], atol=5e-3 * np.abs(peer.coef_).max())
        assert weights.b[c] == pytest.approx(peer.intercept_[0], abs=5e-3)
        for line in weights.trace[c]:
            parts = line["positive"] + line["negative"] + line["regularization"]
            assert line["objective"] == pytest.approx(parts, rel=1e-6)


def test_first_positives_do_not_overlap(known, trained):
    xyxy = known.described.windows.xyxy
    for cover, tags in zip(trained[0], known.tags.T, strict=True):
        rows = first_positives(cover, known.described.windows, tags == 1)
        for i in range(N_IMAGES):
            mine = rows[rows // N_WINDOWS == i]
            overlap = iou_matrix(xyxy[mine], xyxy[mine])
            assert (overlap[~np.eye(len(mine), dtype=bool)] <= 0.3).all()


def as_bags(known, c):
    return Bags(known.described.X.astype(np.float64), known.described.offsets), known.tags[:, c]


@pytest.mark.parametrize(
    ("mu", "loss"),
    [(0.01, "squared_hinge"), (0.5, "squared_hinge"), (3.0, "squared_hinge"), (0.5, "smooth_hinge")],
)
def test_slsvm_with_its_certificate_is_that_of_all_windows(known, trained, mu, loss):
    initial = trained[1]
    refined = refine(known, initial, replace(FREE, mu=mu, loss=loss))
    for c in range(2):
        bags, y = as_bags(known, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        weight = {1: FREE.positive_weight, -1: 1}
        peer = SmoothLatentSVC(C=FREE.C, mu=mu, loss=loss, class_weight=weight, init=start, tol=1e-6)
        peer.fit(bags, y)
        assert refined.trace[c][-1]["entered"] == 0
        assert min(t["objective"] for t in refined.trace[c]) == pytest.approx(peer.objective_, rel=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge"])
def test_lsvm_falls_and_is_that_of_all_windows(known, trained, loss):
    initial = trained[1]
    refined = refine(known, initial, replace(FREE, method="lsvm", loss=loss))
    for c in range(2):
        certified = [line["objective"] for line in refined.trace[c] if line["entered"] == 0]
        assert all(b <= a * (1 + 1e-4) for a, b in pairwise(certified))
        bags, y = as_bags(known, c)
        start = initial.W[c][None], np.array([initial.b[c]])
        peer = LatentSVC(
            C=FREE.C,
            loss=loss,
            class_weight={1: FREE.positive_weight, -1: 1},
            init=start,
            tol=1e-6,
        ).fit(bags, y)
        assert certified[-1] == pytest.approx(peer.objective_, rel=1e-3)


def test_refinement_finds_the_planted_windows(known, trained):
    initial = trained[1]
    for method in ("none", "lsvm", "slsvm"):
        weights = refine(known, initial, replace(FREE, method=method))
        findings = find_best(Scorer(weights), known, 1.0)
        for c in range(2):
            images = np.flatnonzero(known.tags[:, c] == 1)
            assert (findings.rows[c] // N_WINDOWS == images).all()
            assert (findings.rows[c] % N_WINDOWS == 1 + c).mean() > 0.8


def test_confidences_come_from_svms_that_have_not_seen_the_photo(known, trained):
    """What is said of a photo does not depend on its tags, and is less sure than by the SVM of all photos."""
    before = score_unseen(known, trained[0], SVM, FREE).greatest
    tags = known.tags.copy()
    tags[0] = -tags[0]
    after = score_unseen(replace(known, tags=tags), trained[0], SVM, FREE).greatest
    np.testing.assert_array_equal(before[0], after[0])
    assert (before != after).any()
    seen = score_windows(known.described.X, refine(known, trained[1], FREE))
    greatest = np.maximum.reduceat(seen, known.described.offsets[:-1])
    assert before[known.tags == 1].mean() < greatest[known.tags == 1].mean()


@pytest.mark.parametrize("method", ["lsvm", "slsvm"])
def test_a_class_that_has_not_settled_is_told(known, trained, method, caplog):
    for rounds in (1, 30):
        refine(known, trained[1], replace(FREE, method=method, rounds=rounds))
    assert [record.getMessage() for record in caplog.records] == [
        "refinement: 2 of 2 classes still changed after 1 passes: raise refine.rounds"
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoverConfig(k=0), "k must be a number from 1e-06 to 1, but it is 0"),
        (lambda: CoverConfig(method="greedy"), "method must be one of marginal, score"),
        (lambda: CoverConfig(dimensions=0), "dimensions must be a whole number from 1 to"),
        (lambda: InitialConfig(loss="hinge"), "loss must be"),
        (lambda: RefineConfig(loss="hinge"), "loss must be"),
        (lambda: InitialConfig(C=0), "C must be a number from 1e-09 to"),
        (lambda: RefineConfig(method="svm"), "method must be one of slsvm, lsvm, none"),
        (lambda: RefineConfig(mu=0), "mu must be a number from 1e-06"),
    ],
)
def test_bad_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
