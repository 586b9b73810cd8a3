"""Learning with corrections: which windows become what, and a run that is learned again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests._events import box, correct, reviewed, tag
from tests._review import copied, far_box

from tag2box import Detector
from tag2box.boxes import iou_matrix
from tag2box.corrections import Corrections
from tag2box.description.describe import describe
from tag2box.description.record import Described
from tag2box.run.corrections import corrected_boxes
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.training.calibration import Calibration
from tag2box.training.corrected import (
    FROM_TAGS,
    REJECTED,
    RIGHT,
    _Stacked,
    _trusted,
    _unjudged,
    label_judged,
    learn_corrected,
)
from tag2box.training.findings import Best, Findings, best_windows
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.retraining import Found, RetrainConfig
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights, score_photos
from tag2box.training.two_stream import TwoStreamConfig
from tag2box.windows.search import Windows

N_IMAGES, N_WINDOWS, D = 24, 20, 8

LOW, HIGH = RetrainConfig().near


@pytest.fixture(scope="module")
def data():
    """Photos of 20 windows. In those of the class, window 3 holds the object and window 7 a part of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_IMAGES, N_WINDOWS, D)).astype(np.float32)
    tags = np.full((N_IMAGES, 1), -1, np.int8)
    tags[:12] = 1
    X[:12, 3, 0] += 4
    X[:12, 7, 1] += 5
    corner = rng.uniform(0, 60, size=(N_IMAGES, N_WINDOWS, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(20, 40, size=corner.shape)], axis=2)
    offsets = np.arange(N_IMAGES + 1) * N_WINDOWS
    windows = Windows(xyxy.reshape(-1, 4).astype(np.float32), offsets, np.full((N_IMAGES, 2), 100))
    return windows, Described(windows, X.reshape(-1, D)), tags


def learned_from_tags(described, tags, W, b):
    """What a method without objectness would have learned, with these weights."""
    weights = Weights(W, b)
    scores = score_photos(described.X, described.offsets, weights)
    findings = as_findings(best_windows(described.windows, tags, scores))
    return Learned(Scorer(weights), findings, Known(described, tags))


def as_findings(best):
    sure = tuple(np.full(len(rows), 0.5) for rows in best.rows)
    return Findings(*best[:3], sure, sure, Calibration(np.array([[1.0, 0.0]])))


def said(windows, tags, right=(), wrong=(), whole=()):
    """Corrections that judge windows, by their rows."""
    rows = np.array([*right, *wrong], np.int64)
    image = windows.image_of(rows)
    done = np.zeros(len(windows), np.bool_)
    done[list(whole)] = True
    label = np.zeros(len(rows), np.intp)
    return rows, Corrections(image, windows.xyxy[rows], label, np.arange(len(rows)) < len(right), done, tags)


def test_rows_of_two_arrays_are_those_of_one():
    first, more = np.arange(12.0).reshape(6, 2), np.arange(20.0, 28.0).reshape(4, 2)
    both, one = _Stacked(first, more), np.concatenate([first, more])
    assert both.shape == one.shape
    for a, z in [(0, 3), (4, 8), (7, 20), (0, 10), (6, 6)]:
        assert_array_equal(both[a:z], one[a:z])
    rows = np.array([9, 0, 6, 5, 5])
    assert_array_equal(both[rows], one[rows])


def test_every_window_is_what_was_said_of_it(data):
    windows, _, tags = data
    right, wrong = [3, N_WINDOWS + 3], [2 * N_WINDOWS + 7]
    rows, corrections = said(windows, tags, right, wrong, whole=[1])
    found = np.array([i * N_WINDOWS + 7 for i in range(2, 12)])
    (positives,), (negatives,) = label_judged(
        windows, corrections, Found.windows(windows, [found]), RetrainConfig()
    )
    n = len(windows.xyxy)
    assert {n, n + 1} <= set(positives.tolist())  # the accepted boxes themselves
    assert n + 2 in negatives  # the rejected one
    assert set(found.tolist()) <= set(positives.tolist())
    assert not set(positives.tolist()) & set(negatives)
    assert set(range(12 * N_WINDOWS, n)) <= set(negatives)
    for image in (0, 1):  # slow twin: every window of a photo with an accepted box
        accepted = windows.xyxy[[rows[image]]]
        for row in range(image * N_WINDOWS, (image + 1) * N_WINDOWS):
            overlap = iou_matrix(accepted, windows.xyxy[[row]])[0, 0]
            least = LOW if image == 0 else -1  # photo 1 was reviewed as a whole
            assert (row in negatives) == (least < overlap < HIGH)


def test_a_rejected_box_beside_an_accepted_one_is_no_negative(data):
    windows, _, tags = data
    box_ = windows.xyxy[3]
    shifted = box_ + np.float32(1)
    corrections = Corrections(
        np.zeros(2, np.intp),
        np.stack([box_, shifted]),
        np.zeros(2, np.intp),
        np.array([True, False]),
        np.zeros(N_IMAGES, np.bool_),
        tags,
    )
    nothing = Found.windows(windows, [np.empty(0, np.int64)])
    _, (negatives,) = label_judged(windows, corrections, nothing, RetrainConfig())
    assert len(windows.xyxy) + 1 not in negatives


def test_photos_that_are_left_out_teach_nothing(data):
    """With half of the photos: the labels of the same data in which the others say nothing."""
    windows, _, tags = data
    rows, corrections = said(windows, tags, [3, N_WINDOWS + 3], [2 * N_WINDOWS + 7, 3 * N_WINDOWS + 7], [1])
    boxes = Found.windows(windows, [np.array([i * N_WINDOWS + 7 for i in range(4, 12)])])
    half = np.arange(N_IMAGES) % 2 == 1
    (positives,), (negatives,) = label_judged(windows, corrections, boxes, RetrainConfig(), half)
    (all_positives,), (all_negatives,) = label_judged(windows, corrections, boxes, RetrainConfig())
    image = np.append(windows.image_of(np.arange(len(windows.xyxy))), windows.image_of(rows))
    assert set(positives.tolist()) == {row for row in all_positives.tolist() if half[image[row]]}
    assert set(negatives) == {row for row in all_negatives if half[image[row]]}


def test_boxes_of_judged_photos_are_not_found_anew(data):
    windows, _, tags = data
    rows = np.arange(12) * N_WINDOWS + 7
    _, corrections = said(windows, tags, [3], [2 * N_WINDOWS + 7], whole=[5])
    left = _unjudged(windows, corrections, Found.windows(windows, [rows]))
    assert windows.image_of(left.rows[0]).tolist() == [1, 3, 4, 6, 7, 8, 9, 10, 11]
    assert_array_equal(left.boxes[0], windows.xyxy[left.rows[0]])


def test_what_a_person_shows_is_found_in_other_photos(data):
    """Windows 7, the part, are found at first. Three photos show that it is window 3: the others follow."""
    windows, described, tags = data
    config = RetrainConfig(C=0.05)
    W = np.zeros((1, D))
    W[0, 1] = 1
    learned = learned_from_tags(described, tags, W, np.zeros(1))
    shown = [0, 1, 2, 3]
    right = [i * N_WINDOWS + 3 for i in shown]
    wrong = [i * N_WINDOWS + 7 for i in range(12)]
    rows, corrections = said(windows, tags, right, wrong, whole=shown)
    after = learn_corrected(described.X[rows], corrections, learned, config, TwoStreamConfig(), 1.0)
    (mined,) = after.findings.rows
    assert windows.image_of(mined).tolist() == list(range(4, 12))  # the others have an accepted box
    assert (mined % N_WINDOWS == 3).mean() > 0.7
    for row in mined:
        rejected = windows.xyxy[[windows.image_of([row])[0] * N_WINDOWS + 7]]
        assert iou_matrix(windows.xyxy[[row]], rejected)[0, 0] <= REJECTED


@pytest.mark.parametrize(("right", "kept"), [(6, True), (2, False), (0, True)])
def test_boxes_nobody_judged_are_learned_from_where_most_of_the_judged_are_right(data, right, kept):
    """Of six photos that were reviewed so many had the right box; without any accepted box all stay."""
    windows, _, tags = data
    found = np.arange(12) * N_WINDOWS + 3
    findings = as_findings(Best((found,), (np.ones(12),), (windows.xyxy[found],), (np.zeros(12),)))
    apart = [iou_matrix(windows[i], windows[i][[3]])[:, 0] for i in range(6)]
    elsewhere = np.array([i * N_WINDOWS + overlap.argmin() for i, overlap in enumerate(apart)])
    assert all(overlap.min() < RIGHT for overlap in apart)
    accepted = [*found[:right], *(elsewhere[right:] if right else [])]
    wrong = found[right:6]
    _, corrections = said(windows, tags, accepted, wrong, whole=range(6))
    rows = _trusted(windows, corrections, findings, 0)
    assert rows.tolist() == (found[6:].tolist() if kept else [])


def test_few_accepted_boxes_stay_near_the_tags_and_many_do_not(data):
    """½‖w - ρ w₀‖²: where the loss counts for nothing, the weights are those from tags, times 5 / (5 + n)."""
    windows, described, tags = data
    learned = learned_from_tags(described, tags, np.arange(1.0, D + 1)[None], np.full(1, -3.0))
    start = learned.scorer.weights
    for n in (1, 10):
        rows, corrections = said(windows, tags, np.arange(n) * N_WINDOWS + 3)
        config = RetrainConfig(C=1e-9)
        after = learn_corrected(
            described.X[rows], corrections, learned, config, TwoStreamConfig(), 1.0
        ).weights
        share = FROM_TAGS / (FROM_TAGS + n)
        assert_allclose(after.W, share * start.W, rtol=1e-5)
        assert_allclose(after.b, share * start.b, rtol=1e-5)


def test_learning_again_computes_only_what_depends_on_corrections(review_run, tmp_path):
    home = copied(review_run, tmp_path)
    run = RunFolder(home)
    fit_run(run.images, run.config, home, workers=1)
    before = (home / "detector.npz").read_bytes()
    kept = {p: p.read_bytes() for p in home.glob("*/*/*") if p.is_file() and "review" not in p.parts}
    first, second = np.flatnonzero(run.images.tags[:, 0] == 1)[:2]
    thing, a, b = run.images.classes[0], run.images.ids[first], run.images.ids[second]
    old = corrected_boxes(run).detections
    wrong = old[(old.image == second) & (old.label == 0)].xyxy[0]
    events = [box(a, "1", kind=thing, xyxy=(10, 10, 50, 60)), reviewed(a)]
    events += [
        box(b, "2", "rejected", thing, wrong.tolist()),
        tag(run.images.ids[1], run.images.classes[1], 1),
    ]
    correct(run, *events)

    costs = fit_run(run.images, run.config, home, workers=1)
    assert {name for name, cost in costs.costs.items() if not cost["reused"]} == {
        "judged",
        "corrected",
        "tag_scores",
    }
    assert all(p.read_bytes() == content for p, content in kept.items())
    assert (home / "detector.npz").read_bytes() != before
    again = RunFolder(home)
    assert again.outdated is None
    judged = again.result("judged")  # in the order of photos, and of ids of boxes
    drawn = np.array([[10, 10, 50, 60]], np.float32)
    expected = describe(run.images.paths[first], again.result("description"), boxes=drawn).X
    assert_array_equal(judged[0], expected[0])
    now = corrected_boxes(again)
    mine = now.detections[(now.detections.image == first) & now.reviewed]
    assert mine.xyxy.tolist() == [[10, 10, 50, 60]]
    found = now.detections[(now.detections.image == second) & (now.detections.label == 0)]
    assert all(iou_matrix(found.xyxy, wrong[None])[:, 0] <= REJECTED)
    assert 1 in now.detections.image[now.detections.label == 1]  # the tag that was added

    assert all(cost["reused"] for cost in fit_run(run.images, run.config, home, workers=1).costs.values())
    (home / "corrections.jsonl").unlink()
    assert all(cost["reused"] for cost in fit_run(run.images, run.config, home, workers=1).costs.values())
    assert (home / "detector.npz").read_bytes() == before


def test_corrected_boxes_say_which_are_reviewed(review_run, tmp_path):
    home = copied(review_run, tmp_path)
    run = RunFolder(home)
    before = corrected_boxes(run)
    assert not before.reviewed.any()
    n, c = int(before.detections.image[0]), int(before.detections.label[0])
    found = before.detections.xyxy[0]
    name, kind = run.images.ids[n], run.images.classes[c]
    correct(run, box(name, "mine", kind=kind, xyxy=far_box(found)))
    after = corrected_boxes(run)
    assert len(after.detections) == len(before.detections) + 1  # elsewhere: both stand
    correct(run, box(name, "mine", kind=kind, xyxy=found.tolist()))
    after = corrected_boxes(run)
    assert len(after.detections) == len(before.detections)  # the same object
    assert after.reviewed.sum() == 1
    assert after.detections.score[after.reviewed] > before.detections.score.max()
    correct(run, reviewed(name))
    after = corrected_boxes(run)
    assert after.photos == 1
    assert after.reviewed[after.detections.image == n].all()
    assert "1 photos" in str(after)


def test_a_detector_of_corrections_loads_as_any(review_run, tmp_path):
    home = copied(review_run, tmp_path)
    run = RunFolder(home)
    correct(run, reviewed(run.images.ids[0]))
    fit_run(run.images, run.config, home, workers=1)
    assert Detector.load(home / "detector.npz").classes == run.images.classes
    assert RunFolder(home).keys.keys() >= {"judged", "corrected"}
