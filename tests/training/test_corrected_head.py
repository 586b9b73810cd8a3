"""Two streams with corrections: which windows may explain a tag, and that others follow what was shown."""

import numpy as np
from numpy.testing import assert_array_equal

from tag2box.boxes import iou_matrix
from tag2box.corrections import Corrections
from tag2box.description.record import Described
from tag2box.training.corrected_head import NEAR, REJECTED, SHOWN, show_windows, teach_head
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.two_stream import TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

N, K, D = 30, 10, 6


def photos():
    """Photos of ten windows. In those of the class, windows 3 and 7 both tell it; only 3 is the object."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, K, D)).astype(np.float32)
    tags = np.full((N, 2), -1, np.int8)
    tags[:15, 0] = tags[10:20, 1] = 1
    X[:15, 3, 0] += 4
    X[:15, 7, 1] += 6
    X[10:20, 5, 2] += 5
    corner = np.arange(K)[:, None] * np.array([[10.0, 0.0]])
    boxes = np.tile(np.concatenate([corner, corner + np.array([12.0, 20.0])], axis=1), (N, 1)).astype(
        np.float32
    )
    windows = Windows(boxes, np.arange(N + 1) * K, np.full((N, 2), 120))
    objectness = Objectness(np.zeros((N * K, 2), np.float32), windows.offsets)
    return Known(Described(windows, X.reshape(-1, D)), tags, objectness)


def said(known, right, wrong=()):
    """These (photo, window) of the first class were accepted, and rejected."""
    image = np.array([i for i, _ in (*right, *wrong)], np.intp)
    rows = np.array([i * K + w for i, w in (*right, *wrong)])
    n, done = len(image), np.zeros(N, np.bool_)
    boxes = known.described.windows.xyxy[rows]
    return Corrections(image, boxes, np.zeros(n, np.intp), np.arange(n) < len(right), done, known.tags)


def test_only_windows_near_accepted_boxes_and_none_that_were_rejected_may_explain_a_tag():
    known = photos()
    windows = known.described.windows
    corrections = said(known, right=[(0, 3), (2, 3)], wrong=[(0, 7), (1, 7)])
    shown = show_windows(windows, corrections)
    assert set(shown.windows) == {0, 1, 2}
    overlap = iou_matrix(windows[0][[3]], windows[0])[0]
    assert_array_equal(shown.windows[0][:, 0], overlap >= NEAR)
    assert_array_equal(shown.windows[1][:, 0], iou_matrix(windows[1][[7]], windows[1])[0] <= REJECTED)
    assert all(mask[:, 1].all() for mask in shown.windows.values())  # nothing was said of the other class
    assert (shown.weight == SHOWN).sum() == 2
    assert shown.weight[0, 0] == shown.weight[2, 0] == SHOWN


def test_a_box_that_no_window_fits_leaves_the_nearest():
    known = photos()
    corrections = said(known, right=[(0, 3)])
    corrections.xyxy[0] = 31, 0, 33, 100
    mask = show_windows(known.described.windows, corrections).windows[0][:, 0]
    assert mask.sum() >= 1
    assert mask[3] or mask[2]


def test_what_is_shown_in_a_few_photos_is_found_in_the_others():
    known, config = photos(), TwoStreamConfig(prior=0.0, iterations=60, regularization=0.01)
    head = train_two_stream(known, config)

    def best(head, i):
        X = known.described.X[i * K : (i + 1) * K]
        return int(head.log_scores(X, known.objectness[i])[:, 0].argmax())

    assert np.mean([best(head, i) == 7 for i in range(15)]) > 0.8
    shown = [(i, 3) for i in range(6)]
    taught = teach_head(known, said(known, shown, [(i, 7) for i in range(6)]), head, config)
    assert np.mean([best(taught, i) == 3 for i in range(6, 15)]) > 0.7
