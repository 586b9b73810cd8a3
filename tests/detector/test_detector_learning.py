"""How the detector learns: gradients against differences, targets against what they promise."""

import numpy as np
import pytest
from PIL import Image
from tests._convnets import random_views, random_weights

from tag2box.corrections.record import Corrections
from tag2box.description.photos import PhotoFiles
from tag2box.detector.adam import Adam, Moments
from tag2box.detector.calibrating import draw_held_out, fit_curves, matched
from tag2box.detector.config import DetectorConfig
from tag2box.detector.early import views_graph
from tag2box.detector.labels import BoxLabels, _corrected
from tag2box.detector.learning import learn_epoch, n_epochs, start_learning
from tag2box.detector.looks import centers, extent, first_look, inside, moved, second_look, steps
from tag2box.detector.record import SIZES
from tag2box.detector.targets import Labels, cell_loss, cell_targets, region_loss, region_targets, side_loss
from tag2box.detector.trunk import NETWORK, identity_head, network_weights, trunk
from tag2box.detector.views import see_photos
from tag2box.errors import InputError
from tag2box.networks.efficientnet import to_onnx, weights_file
from tag2box.networks.openvino_engine import compiled_graph
from tag2box.runtime.files import content_hash
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

SIZES_AT_CUT = [(8, 12), (4, 6)]


def some_boxes(n, size=(192, 128), seed=0):
    rng = np.random.default_rng(seed)
    at = rng.uniform(0, 0.6, (n, 2)) * size
    return inside(np.concatenate([at, at + rng.uniform(20, 90, (n, 2))], 1).astype(np.float32), size)


def labels_of(boxes, label, weight, tags):
    return Labels(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(label, np.intp),
        np.array(weight, np.float32),
        np.array(tags, np.int8),
    )


def test_the_untouched_trunk_is_that_of_the_runtime():
    """From the maps at the cut, as the graph of the detector has them, to the last map of the network."""
    image = np.random.default_rng(0).integers(0, 256, (128, 192, 3)).astype(np.uint8)
    early = np.asarray(compiled_graph(views_graph(192))(image)[0])[0].transpose(1, 2, 0)
    weights = network_weights() | identity_head()
    ours, sizes, _ = trunk(early.reshape(-1, early.shape[2]), [early.shape[:2]], weights)
    network = compiled_graph(to_onnx(NETWORK, weights_file(NETWORK)))
    theirs = np.asarray(network(((image.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None])[0])[0]
    assert theirs.shape[1:] == sizes[0]
    np.testing.assert_allclose(ours, theirs.reshape(len(theirs), -1).T, atol=1e-3)


def loss_of(weights, X, labels, regions):
    """The loss of one photo, and its gradient."""
    maps, sizes, back = trunk(X, SIZES_AT_CUT, weights)
    cells, back_cells = first_look(maps, sizes, weights)
    said, back_regions = second_look(maps, sizes, regions, weights)
    one, slope = cell_loss(cells, sizes, labels)
    two, by_region = region_loss(said, regions, labels)
    gradient = {}
    by_maps = back_cells(slope, gradient) + back_regions(by_region, gradient)
    by_X = back(by_maps, gradient)
    return one, two, gradient, by_X


def test_gradients_go_down_as_differences_say():
    """Along the gradient of each layer, the loss changes by as much as it promises.

    Weights of the focal loss and the steps of boxes are held fixed: so only classes of regions are asked
    here, and sides, which have an oracle of their own below.
    """
    weights, views = random_weights(), random_views(1)
    X, _ = views.of(0, mirrored=False)
    boxes = some_boxes(4)
    labels = labels_of(boxes[:2], [0, 1], [1, 0.5], [1, 1, -1])
    regions = np.concatenate([boxes, some_boxes(12, seed=1)])
    allowed = region_targets(regions, labels)[0].shape[1]

    def classes_of_regions(w):
        maps, sizes, back = trunk(X.astype(np.float64), SIZES_AT_CUT, w)
        said, back_regions = second_look(maps, sizes, regions, w)
        said[:, allowed:] = 0
        loss, slope = region_loss(said, regions, labels)
        slope[:, allowed:] = 0
        gradient = {}
        back(back_regions(slope, gradient), gradient)
        return loss, gradient

    loss, gradient = classes_of_regions(weights)
    assert np.isfinite(loss)
    for name in (
        "11.expand.W",
        "12.depthwise.W",
        "15.project.b",
        "head.W",
        "mapped.W",
        "boxes.0.W",
        "boxes.1.b",
    ):
        slope = gradient[name]
        direction = slope / np.linalg.norm(slope)
        step = 1e-2 * np.linalg.norm(weights[name]) / np.sqrt(weights[name].size)
        ends = [
            classes_of_regions(
                {**weights, name: (weights[name] + sign * step * direction).astype(np.float32)}
            )[0]
            for sign in (1, -1)
        ]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.linalg.norm(slope), rel=0.05), name


def test_a_step_that_is_repeated_learns_one_photo():
    weights, views = random_weights(), random_views(1)
    X, _ = views.of(0, mirrored=False)
    boxes = some_boxes(3)
    labels = labels_of(boxes[:2], [0, 1], [1, 1], [1, 1, -1])
    net = Adam(weights, Moments.none(weights), {name: np.float32(1e-3) for name in weights})
    losses = []
    for _ in range(25):
        one, two, gradient, _ = loss_of(net.weights, X, labels, boxes)
        net.learn(gradient, 0.0)
        losses.append(one + two)
    assert losses[-1] < losses[0] / 3


def test_epochs_are_the_same_for_any_number_of_workers_and_after_a_pause():
    views = random_views(6)
    boxes = np.tile(np.array([[10, 10, 90, 80]], np.float32), (6, 1))
    sizes = np.tile(np.array([[192, 128]]), (6, 1))
    tags = np.array([[1], [-1]] * 3, np.int8)
    kept = np.flatnonzero(tags[:, 0] == 1)
    counts = np.append(0, np.cumsum(tags[:, 0] == 1)).astype(np.intp)
    labels = BoxLabels(boxes[kept], np.zeros(3, np.intp), np.full(3, 0.5, np.float32), counts, tags, sizes)
    config = DetectorConfig(epochs=2, steps=0)
    start = start_learning(views, ("thing",), config)
    ends = []
    for workers in (1, 2):
        epoch = start
        for k in range(2):
            epoch = learn_epoch(epoch, views, labels, np.arange(6), config, k, workers=workers)
        ends.append(epoch)
    for name, w in ends[0].moments.average.items():
        assert w.tobytes() == ends[1].moments.average[name].tobytes()
        assert not np.array_equal(w, start.weights[name])
    assert ends[0].loss == ends[1].loss


def test_the_gradient_of_the_sides_is_that_of_differences():
    rng = np.random.default_rng(0)
    said, sides = rng.normal(0, 0.5, (30, 4)), rng.uniform(10, 200, (30, 4))
    scale = rng.choice(SIZES, 30) / 2
    overlap, gradient = side_loss(said, sides, scale)
    assert ((overlap > 0) & (overlap <= 1)).all()
    for k in range(4):
        step = np.eye(4)[k] * 1e-5
        values = [-np.log(side_loss(said + sign * step, sides, scale)[0]) for sign in (1, -1)]
        np.testing.assert_allclose(gradient[:, k], (values[0] - values[1]) / 2e-5, atol=1e-4)


def test_moved_undoes_steps():
    boxes, targets = some_boxes(20), some_boxes(20, seed=1)
    near = boxes + (targets - boxes) * 0.2
    np.testing.assert_allclose(moved(boxes, steps(boxes, near), (192, 128)), near, atol=1e-3)


def test_cells_are_positive_in_the_middle_of_their_box_alone():
    sizes = [(8, 10), (4, 5)]  # cells of 32 and of 64 pixels
    boxes = np.array([[32, 32, 144, 144], [200, 40, 300, 200]], np.float32)
    target, weight, owner = cell_targets(sizes, labels_of(boxes, [0, 1], [0.7, 0], [1, 1, -1, 0]))
    at, _ = centers(sizes)
    within = [((at > box[:2]) & (at < box[2:])).all(axis=1) for box in boxes]
    positive = (target == 1).any(axis=(1, 2))
    assert positive.any()
    assert not (positive & ~within[0]).any()
    assert not target[:, :, 1:].any()  # in doubt, absent, unknown
    assert not weight[within[1]][:, :, 1].any()
    assert (weight[:, :, 2] == 1).all()
    assert not weight[:, :, 3].any()
    assert set(np.unique(weight[:, :, 0])) == {0, np.float32(0.3), np.float32(0.7)}
    assert ((owner >= 0) == (target == 1)[:, :, 0]).all()


def test_regions_by_their_overlap():
    boxes = np.array([[0, 0, 100, 100], [200, 100, 300, 200]], np.float32)
    labels = labels_of(boxes, [0, 0], [0.5, 0], [1, -1, 0])
    asked = np.array([[0, 0, 100, 100], [200, 100, 300, 200], [0, 0, 100, 40], [120, 0, 180, 60]], np.float32)
    allowed, weight, owner = region_targets(asked, labels)
    assert allowed.tolist() == [
        [True, False, False, False],
        [True, False, True, True],
        [False, False, True, True],
        [True, False, True, True],
    ]
    assert weight.tolist() == [0.5, 1, 0.5, 1]
    assert owner.tolist() == [0, -1, 0, -1]


def test_a_photo_that_was_replaced_teaches_nothing(tmp_path):
    Image.new("RGB", (96, 64), "red").save(tmp_path / "a.png")
    photos = PhotoFiles((tmp_path / "a.png",), (content_hash(tmp_path / "a.png"),))
    views = [see_photos(Run(Store(tmp_path / name), workers=1), photos, 128) for name in ("one", "two")]
    assert len(views[0].result()) == 1
    Image.new("RGB", (96, 64), "blue").save(tmp_path / "a.png")
    with pytest.raises(InputError, match="another photo"):
        views[1].result()


def test_labels_of_a_mirrored_photo_are_mirrored():
    boxes = np.array([[10, 20, 30, 60]], np.float32)
    tags, sizes = np.ones((1, 1), np.int8), np.array([[100, 80]])
    labels = BoxLabels(boxes, np.array([0]), np.array([0.9], np.float32), np.array([0, 1]), tags, sizes)
    size = extent([(4, 5)])
    plain, mirrored = (labels.of(0, size, mirrored=each) for each in (False, True))
    scale = np.tile(np.array(size) / sizes[0], 2)
    np.testing.assert_allclose(plain.boxes, boxes * scale)
    np.testing.assert_allclose(mirrored.boxes, [[70, 20, 90, 60]] * scale, rtol=1e-6)
    assert mirrored.weight.tolist() == [1]


def test_what_a_person_said_goes_before_what_was_found():
    found = np.array([[0, 0, 10, 10], [20, 0, 40, 20], [60, 0, 80, 20]], np.float32)
    part = (found, np.array([0, 0, 1]), np.array([0.5, 0, 0.5], np.float32))
    judged = Corrections(
        image=np.array([0, 0]),
        xyxy=np.array([[0, 0, 10, 11], [20, 0, 40, 21]], np.float32),
        label=np.array([0, 0]),
        right=np.array([True, False]),
        reviewed=np.array([False, True]),
        tags=np.ones((2, 2), np.int8),
    )
    boxes, label, confidence = (
        np.concatenate(arrays) for arrays in zip(*_corrected([part], judged, 0), strict=True)
    )
    assert boxes.tolist() == [[0, 0, 10, 11], [60, 0, 80, 20]]  # the rejected one is gone
    assert label.tolist() == [0, 1]
    assert confidence.tolist() == [1, 0.5]
    assert not sum(len(each[0]) for each in _corrected([part], judged, 1))  # reviewed: nothing is there


def test_a_box_is_as_likely_as_the_label_that_it_is_the_first_to_find():
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 11], [50, 50, 60, 60]], np.float32)
    labels, confidence = boxes[:1], np.array([0.8], np.float32)
    assert matched(boxes, labels, confidence).tolist() == pytest.approx([0.8, 0, 0])


def test_curves_tell_how_often_boxes_are_right():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, 4000).astype(np.float32)
    label = rng.integers(0, 2, 4000)
    truth = 1 / (1 + np.exp(-(0.7 * logits + np.array([-1.0, 0.5])[label])))
    curves = fit_curves(logits, label, truth.astype(np.float32), 2)
    np.testing.assert_allclose(curves, [[0.7, -1], [0.7, 0.5]], atol=0.05)
    assert (fit_curves(logits, label, np.zeros(4000, np.float32), 2) == [[1, 0], [1, 0]]).all()


def test_a_tenth_is_held_out_and_small_sets_are_seen_more_often():
    assert draw_held_out(300, 0).sum() == 30
    assert draw_held_out(10_000, 0).sum() == 200
    assert n_epochs(300, DetectorConfig(epochs=6, steps=800)) == 11
    assert n_epochs(5000, DetectorConfig(epochs=6, steps=800)) == 6
