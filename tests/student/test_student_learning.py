"""How the student learns: gradients against differences, targets against what they promise."""

import numpy as np
import pytest

from tag2box.corrections.record import Corrections
from tag2box.student.adam import Adam
from tag2box.student.first_look import View, cell_targets, side_loss
from tag2box.student.lessons import _corrected
from tag2box.student.looking import centers, inside, moved, steps, upsampled
from tag2box.student.record import SIZES
from tag2box.student.second_look import _targets


def some_boxes(n, size=(320, 240), seed=0):
    rng = np.random.default_rng(seed)
    at = rng.uniform(0, 0.7, (n, 2)) * size
    return inside(np.concatenate([at, at + rng.uniform(20, 120, (n, 2))], 1).astype(np.float32), size)


def test_the_gradient_of_the_sides_is_that_of_differences():
    rng = np.random.default_rng(0)
    said, sides = rng.normal(0, 0.5, (30, 4)), rng.uniform(10, 200, (30, 4))
    slot = rng.integers(0, len(SIZES), 30)
    overlap, gradient = side_loss(said, sides, slot)
    assert ((overlap > 0) & (overlap <= 1)).all()
    for k in range(4):
        step = np.eye(4)[k] * 1e-5
        values = [-np.log(side_loss(said + sign * step, sides, slot)[0]) for sign in (1, -1)]
        np.testing.assert_allclose(gradient[:, k], (values[0] - values[1]) / 2e-5, atol=1e-4)


def test_sides_that_fit_have_no_loss():
    sides = np.array([[30.0, 30, 30, 30]])
    assert side_loss(np.zeros((1, 4)), sides, np.array([0]))[0] == pytest.approx(1)


def test_adam_learns_what_no_line_divides():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
    y = (X[:, :1] * X[:, 1:] > 0).astype(np.float32)
    net = Adam((2, 32, 32, 1), 1e-2, 300, seed=0)
    for _ in range(300):
        net.learn((1 / (1 + np.exp(-net(X))) - y) / len(X))
    assert ((net(X) > 0) == (y > 0)).mean() > 0.95


def test_the_gradient_of_the_layers_is_that_of_differences():
    """Adam's first step goes along the sign of the gradient."""
    X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    net = Adam((3, 4, 2), 1e-3, 10**6, seed=0)
    before = [w.copy() for w in net.layers]
    net.learn(np.ones_like(net(X)))  # the loss is the sum of what it says

    def loss(i, at, step):
        layers = [w.astype(np.float64) for w in before]
        layers[i][at] += step
        return (np.maximum(X @ layers[0] + layers[1], 0) @ layers[2] + layers[3]).sum()

    for i, old in enumerate(before):
        for at in np.ndindex(old.shape):
            slope = (loss(i, at, 1e-4) - loss(i, at, -1e-4)) / 2e-4
            if abs(slope) > 1e-3:
                assert np.sign(old[at] - net.layers[i][at]) == np.sign(slope)


def test_moved_undoes_steps():
    boxes, targets = some_boxes(20), some_boxes(20, seed=1)
    near = boxes + (targets - boxes) * 0.2
    np.testing.assert_allclose(moved(boxes, steps(boxes, near), (320, 240)), near, atol=1e-3)


def test_upsampling_keeps_what_is_linear_and_the_mean():
    ramp = np.arange(6, dtype=np.float32)[:, None, None] * np.ones((6, 4, 2), np.float32)
    large = upsampled(ramp)
    assert large.shape == (12, 8, 2)
    np.testing.assert_allclose(large[1:-1, :, 0], (np.arange(1, 11)[:, None] - 0.5) / 2 * np.ones((10, 8)))
    assert large.mean() == pytest.approx(ramp.mean())


def view_of(boxes, label, right, tags):
    return View(
        np.zeros((15, 20, 4), np.float16), boxes, np.array(label), np.array(right), np.array(tags, np.int8)
    )


def test_cells_are_positive_in_the_middle_of_their_box_alone():
    boxes = np.array([[32, 32, 144, 144], [200, 40, 300, 200]], np.float32)
    target, owner = cell_targets(view_of(boxes, [0, 1], [True, False], [1, 1, -1, 0]))
    at = centers(15, 20)
    within = [((at > box[:2]) & (at < box[2:])).all(axis=1) for box in boxes]
    positive = (target == 1).any(axis=1)
    assert positive[:, 0].any()
    assert (within[0] | ~positive[:, 0]).all()
    assert not positive[:, 1:].any()  # in doubt, absent, unknown
    assert (target[within[1]][:, :, 1] == -1).all()
    assert (target[:, :, 2] == 0).all()
    assert (target[:, :, 3] == -1).all()
    assert (target[~within[0]][:, :, 0] == 0).all()
    assert set(np.unique(owner)) == {-1, 0}
    assert ((owner >= 0) == (target == 1)[:, :, 0]).all()


def test_small_boxes_go_before_large_ones():
    boxes = np.array([[96, 96, 190, 190], [0, 0, 280, 240]], np.float32)
    _, owner = cell_targets(view_of(boxes, [0, 0], [True, True], [1]))
    assert (owner == 0).any()
    assert (owner == 1).any()
    assert (owner[:, 0] != 1).all()  # a large box is in no slot of small ones


def test_regions_by_their_overlap():
    boxes = np.array([[0, 0, 100, 100], [200, 100, 300, 200]], np.float32)
    view = view_of(boxes, [0, 0], [True, False], [1, -1, 0])
    asked = np.array([[0, 0, 100, 100], [200, 100, 300, 200], [0, 0, 100, 40], [120, 0, 180, 60]], np.float32)
    target, weight, owner = _targets(view, asked)
    assert target[:, 0].tolist() == pytest.approx([1, 0, (0.4 - 0.35) / 0.3, 0])
    assert weight[:, 0].tolist() == pytest.approx([1, 0, 1, 0.3])
    assert weight[:, 1:].tolist() == [[1, 0]] * 4
    assert owner.tolist() == [0, -1, 0, -1]
    assert not target[:, 1:].any()


def test_what_a_person_said_goes_before_what_was_found():
    found = np.array([[0, 0, 10, 10], [20, 0, 40, 20], [60, 0, 80, 20]], np.float32)
    part = (found, np.array([0, 0, 1]), np.array([True, False, True]))
    judged = Corrections(
        image=np.array([0, 0]),
        xyxy=np.array([[0, 0, 10, 11], [20, 0, 40, 21]], np.float32),
        label=np.array([0, 0]),
        right=np.array([True, False]),
        reviewed=np.array([False, True]),
        tags=np.ones((2, 2), np.int8),
    )
    boxes, label, right = (
        np.concatenate(arrays) for arrays in zip(*_corrected([part], judged, 0), strict=True)
    )
    assert boxes.tolist() == [[0, 0, 10, 11], [60, 0, 80, 20]]  # the rejected one is gone
    assert label.tolist() == [0, 1]
    assert right.all()
    assert not sum(len(each[0]) for each in _corrected([part], judged, 1))  # reviewed: nothing is there
