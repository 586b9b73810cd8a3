"""`Detector`: the same detections wherever its file goes, and nothing else is let in."""

import json
import pickle
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.special import logit
from sklearn.datasets import load_sample_image
from tests._convnets import random_convnet
from tests._describing import random_object_maps

import tag2box.detection.detector as detector_module
from tag2box.boxes import iou_matrix
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.context import Context
from tag2box.description.describe import describe
from tag2box.description.description import Description
from tag2box.description.details import MOST, Details, detail_windows
from tag2box.description.projection import Projection
from tag2box.description.record import Described, Maps
from tag2box.description.resolving import resolve
from tag2box.detection.config import DetectConfig
from tag2box.detection.detector import FORMAT, Detector
from tag2box.errors import InputError
from tag2box.runtime.arrays import npy_header, sealed, with_header
from tag2box.runtime.packing import pack
from tag2box.training.calibration import Calibration, calibrate
from tag2box.training.object_maps import measure_objectness
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights, score_windows
from tag2box.windows.search import Windows, WindowsConfig, search_windows

FEATURES = FeaturesConfig(levels=(256, 128), grid=1, dimensions=16)
CLASSES = ("first", "second thing", "drittes ü")


@pytest.fixture(scope="module")
def photo():
    return load_sample_image("china.jpg")


@pytest.fixture(scope="module")
def detector():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(320, 16)).astype(np.float32)
    maps = MapsConfig(side=128, fine_side=256)
    description = Description(
        resolve(WindowsConfig(mode="single", max_windows=40), FEATURES, maps),
        Projection(np.zeros(320, np.float32), A, "l2", 20.0),
    )
    scorer = Scorer(
        Weights(rng.normal(size=(3, 16)), rng.normal(size=3)),
        objectness_weight=0.25,
        object_maps=random_object_maps(rng, 3, 320),
    )
    curves = np.array([[2.0, -1.0], [1.0, 0.0], [0.5, 3.0]])
    return Detector(CLASSES, description, scorer, Calibration(curves), DetectConfig(max_detections=5))


def with_settings(detector, **settings):
    return replace(detector, settings=replace(detector.settings, **settings))


def test_detections_obey_the_settings(detector, photo):
    detector = with_settings(detector, confidence=False)
    voted = detector.detect(photo)
    detector = with_settings(detector, vote_iou=1.0)
    found = detector.detect(photo)
    assert voted.score.tolist() == found.score.tolist()
    assert (voted.xyxy != found.xyxy).any()
    overlap = iou_matrix(voted.xyxy, found.xyxy)
    assert overlap.diagonal().min() > 0.3
    assert found.classes == CLASSES
    boxes = search_windows(photo, detector.description.settings.windows).xyxy
    for c in range(3):
        mine = found[found.label == c]
        assert 1 <= len(mine) <= 5
        assert (np.diff(mine.score) <= 0).all()
        overlap = iou_matrix(mine.xyxy, mine.xyxy)
        assert (overlap[~np.eye(len(mine), dtype=bool)] <= 0.3).all()
        assert (mine.xyxy[:, None] == boxes[None]).all(axis=2).any(axis=1).all()


def test_scores_are_the_product_and_the_prior(detector):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4, 16)).astype(np.float16)
    xyxy = np.array([[0, 0, 40, 40], [0, 0, 80, 80], [0, 0, 80, 20], [4, 4, 8, 8]], np.float32)
    windows = Windows.of_image(xyxy, (80, 80))
    map_ = rng.normal(size=(4, 4, 320)).astype(np.float16)
    scorer, size = detector.scorer, windows.sizes[0]
    plain = X.astype(np.float64) @ scorer.weights.W.T + scorer.weights.b
    prior = 0.25 * measure_objectness(scorer.object_maps(map_), xyxy, size, scorer.ring)
    assert prior.max(axis=0) == pytest.approx(0.25)
    photo = Described(windows, X, Maps.of_image(map_))
    np.testing.assert_allclose(scorer(photo), plain + prior, rtol=1e-4)
    alone, without = replace(scorer, objectness_weight=0), replace(photo, maps=None)
    np.testing.assert_allclose(alone(without), plain, rtol=1e-4)
    with pytest.raises(InputError, match="looks at the photo's map"):
        scorer(without)


def test_details_say_where_small_objects_are(detector, photo):
    """A class that has details is looked for there, and the others in the object maps, old photo or new."""
    rng = np.random.default_rng(2)
    W = rng.normal(size=(3, 112)).astype(np.float32) * np.float32([[1], [0], [1]])
    whole = describe(photo, detector.description)
    seeing = replace(detector, scorer=replace(detector.scorer, details=Details(W)))
    fine = describe(photo, seeing.description, boxes=whole.windows.xyxy, details=Details(W))
    assert whole.details is None
    assert fine.details.shape[0].min() > whole.maps.shape[0].max()  # finer cells
    plain, other = (detector.scorer.objectness(each) for each in (whole, fine))
    np.testing.assert_array_equal(plain[:, 1], other[:, 1])
    assert (plain[:, [0, 2]] != other[:, [0, 2]]).any()
    cells = np.asarray(fine.details[0], np.float64)[..., [0, 2]]
    above = np.maximum(cells - cells.mean(axis=(0, 1)) - cells.std(axis=(0, 1)), 0).transpose(2, 0, 1)
    slow = measure_objectness(above.astype(np.float32), fine.windows.xyxy, fine.windows.sizes[0], 0.25)
    np.testing.assert_allclose(other[:, [0, 2]], slow, atol=1e-4)
    assert seeing.detect(photo).score.tolist() != detector.detect(photo).score.tolist()


def test_where_details_stand_out_are_windows_beside_those_of_the_search(detector, photo):
    W = np.random.default_rng(2).normal(size=(3, 112)).astype(np.float32) * np.float32([[1], [0], [1]])
    whole = describe(photo, detector.description)
    fine = describe(photo, detector.description, details=Details(W))
    more = detail_windows(fine.details[0], fine.windows.sizes[0])
    assert 0 < len(more) <= 2 * MOST
    np.testing.assert_array_equal(fine.windows.xyxy, np.concatenate([whole.windows.xyxy, more]))
    np.testing.assert_array_equal(fine.X[: len(whole.X)], whole.X)


@pytest.fixture(scope="module")
def contextual(detector):
    """A detector whose vectors have context, from maps of two sizes."""
    rng = np.random.default_rng(3)
    U = np.linalg.qr(rng.normal(size=(320, 4)))[0].astype(np.float32)
    context = Context(np.zeros(320, np.float32), U, 0.4, 14.0, fine_side=256)
    weights = replace(detector.scorer.weights, W=rng.normal(size=(3, 16 + context.width)))
    return replace(
        detector,
        description=replace(detector.description, context=context),
        scorer=replace(detector.scorer, weights=weights),
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cascade_describes_the_windows_that_promise_most(contextual, photo, threads):
    few, description, scorer = (
        with_settings(contextual, full_windows=7, max_windows=0),
        contextual.description,
        contextual.scorer,
    )
    whole = describe(photo, description)
    windows, X, size = whole.windows, whole.X, whole.windows.sizes[0]
    part = describe(photo, description, choose=few.promising, threads=threads)
    context = X[:, -description.context.width :].astype(np.float64)
    cheap = context @ scorer.weights.W[:, 16:].T + scorer.weights.b
    cheap += 0.25 * measure_objectness(scorer.object_maps(whole.map_of(0)), windows.xyxy, size, scorer.ring)
    rows = np.sort(np.argsort(-cheap.max(axis=1))[:7])
    np.testing.assert_array_equal(part.windows.xyxy, windows.xyxy[rows])
    np.testing.assert_array_equal(part.X, X[rows])
    expected = few.select(scorer(whole.only(rows)), part.windows)
    assert few.detect(photo, threads=threads).xyxy.tolist() == expected.xyxy.tolist()
    enough, every = (with_settings(contextual, full_windows=n, max_windows=0) for n in (len(X), 0))
    assert enough.detect(photo).score.tolist() == every.detect(photo).score.tolist()
    assert len(windows.xyxy) > 20


def test_more_windows_are_searched_than_were_learned_from_where_few_go_through_the_network(
    contextual, detector, photo, monkeypatch
):
    described = []
    monkeypatch.setattr(
        detector_module,
        "describe",
        lambda *given, **how: described.append(given[1].settings.windows) or describe(*given, **how),
    )
    learned = contextual.description.settings.windows
    for of in (
        contextual,
        with_settings(contextual, full_windows=0),
        with_settings(detector, full_windows=9),
    ):
        of.detect(photo)
    assert described == [replace(learned, max_windows=1000, thin_iou=0.9), learned, learned]


@pytest.mark.parametrize("mode", ["pyramid", "pool"])
def test_more_windows_are_searched_where_none_goes_through_the_network(detector, mode):
    description, windows = detector.description, detector.description.settings.windows
    features = replace(description.settings.features, mode=mode)
    shared = replace(
        detector,
        description=replace(description, settings=replace(description.settings, features=features)),
        settings=replace(detector.settings, full_windows=0, max_windows=77, thin_iou=0.85),
    )
    assert shared.searching.settings.windows == replace(windows, max_windows=77, thin_iou=0.85)
    assert shared.searching.projection is description.projection
    as_learned = with_settings(shared, max_windows=0)
    assert as_learned.searching is as_learned.description
    fewer = with_settings(shared, max_windows=9)
    assert fewer.searching.settings.windows.max_windows == windows.max_windows


def test_a_photo_is_decoded_once(contextual, photo, tmp_path, monkeypatch):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    opened, open_ = [], Image.open
    monkeypatch.setattr(Image, "open", lambda file, **how: opened.append(file) or open_(file, **how))
    found = contextual.detect(tmp_path / "photo.png")
    assert len(opened) == 1
    assert found.xyxy.tolist() == contextual.detect(photo).xyxy.tolist()


def test_a_weight_needs_what_it_weighs(detector):
    scorer = detector.scorer
    with pytest.raises(InputError, match="objectness_weight above 0 needs object_maps"):
        replace(scorer, object_maps=None)
    with pytest.raises(InputError, match="tag_weight above 0 needs activations"):
        replace(scorer, tag_weight=1.0)
    maps = random_object_maps(np.random.default_rng(1), 2, 320)
    with pytest.raises(
        InputError, match=r"object_maps.salience.W must be \(3, \d+\) for these classes, but it is \(2,"
    ):
        replace(detector, scorer=replace(scorer, object_maps=maps))


def test_scoring_block_by_block_is_scoring_all(monkeypatch):
    rng = np.random.default_rng(2)
    X, weights = rng.normal(size=(100, 8)).astype(np.float32), Weights(rng.normal(size=(3, 8)), np.ones(3))
    whole = score_windows(X, weights)
    monkeypatch.setattr("tag2box.training.scoring.BLOCK", 7)
    np.testing.assert_allclose(score_windows(X, weights), whole, rtol=1e-5)


def test_a_saved_detector_finds_the_same_in_a_new_process(detector, photo, tmp_path):
    detector.save(tmp_path / "d.npz")
    np.save(tmp_path / "photo.npy", photo)
    code = (
        "import numpy as np, sys; from tag2box.detection.detector import Detector\n"
        "found = Detector.load('d.npz').detect(np.load('photo.npy')); found.save('found.npz')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    expected = detector.detect(photo)
    expected.save(tmp_path / "expected.npz")
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_everything_comes_back(contextual, tmp_path):
    contextual.save(tmp_path / "d.npz")
    again = Detector.load(tmp_path / "d.npz")
    (content, arrays), (expected, those) = pack(again), pack(contextual)
    assert content == expected
    assert arrays.keys() == those.keys()
    for name, array in arrays.items():
        assert array.dtype == those[name].dtype
        np.testing.assert_array_equal(array, those[name])
    assert again.description.settings == contextual.description.settings


def test_confidences_of_the_same_boxes_are_within_0_and_1_best_first(detector, photo):
    found = with_settings(detector, confidence=False).detect(photo)
    sure = detector.detect(photo)
    assert (found.score > 1).any()
    assert ((sure.score >= 0) & (sure.score <= 1)).all()
    for c in range(3):
        assert (np.diff(sure.score[sure.label == c]) <= 0).all()
    assert {tuple(box) for box in sure.xyxy.tolist()} == {tuple(box) for box in found.xyxy.tolist()}


def test_calibration_is_the_logistic_curve_of_the_best_scores():
    rng = np.random.default_rng(0)
    tags = np.sign(rng.normal(size=(4000, 3))).astype(np.int8)
    best = rng.logistic(size=(4000, 3)) + 2.0
    tags[:, 0] = np.where(rng.random(4000) < 1 / (1 + np.exp(-(1.5 * best[:, 0] - 2))), 1, -1)
    tags[:, 1] = -1  # nothing to learn from
    curves = calibrate(best, tags)
    np.testing.assert_allclose(curves[0], [1.5, -2], atol=0.2)
    np.testing.assert_allclose(curves[1], [1, 0])
    assert curves[2, 0] > 0


def test_a_confidence_can_be_asked_for_at_least(detector, photo):
    found = replace(detector, settings=DetectConfig(min_score=0.5)).detect(photo)
    whole = replace(detector, settings=DetectConfig()).detect(photo)
    assert 0 < len(found) == (whole.score >= 0.5).sum() < len(whole)


def test_another_network_is_refused(detector, photo):
    settings = replace(detector.description.settings, network="0" * 64)
    other = replace(detector, description=replace(detector.description, settings=settings))
    with pytest.raises(InputError, match="not those that this detector was trained with"):
        other.detect(photo)


def test_a_detector_of_another_version_is_refused(detector, tmp_path):
    content, arrays = pack(detector)
    (tmp_path / "d.npz").write_bytes(
        with_header({"format": "tag2box detector 99", "content": content}, arrays)
    )
    with pytest.raises(InputError, match=r"d.npz is of another version of tag2box: learn it again"):
        Detector.load(tmp_path / "d.npz")


def test_another_record_is_no_detector(detector, tmp_path):
    content, arrays = pack(detector.scorer)
    (tmp_path / "d.npz").write_bytes(
        with_header({"format": f"tag2box detector {FORMAT}", "content": content}, arrays)
    )
    with pytest.raises(InputError, match=r"is not a detector that tag2box saved: it holds something else"):
        Detector.load(tmp_path / "d.npz")


def test_what_is_no_detector_is_refused(detector, tmp_path):
    path = tmp_path / "d.npz"
    with pytest.raises(InputError, match="is not a file"):
        Detector.load(path)
    path.write_bytes(pickle.dumps({"W": 1}))
    with pytest.raises(InputError, match="is not a detector that tag2box saved"):
        Detector.load(path)
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match="is not a detector that tag2box saved"):
        Detector.load(path)
    detector.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="is not a detector that tag2box saved"):
        Detector.load(path)
    weights = replace(detector.scorer.weights, W=detector.scorer.weights.W[:, :3])
    with pytest.raises(InputError, match=r"W must be \(3, 16\) for these classes, but it is \(3, 3\)"):
        replace(detector, scorer=replace(detector.scorer, weights=weights))
    with pytest.raises(InputError, match=r"curves must be \(3, 2\)"):
        replace(detector, calibration=Calibration(np.ones((2, 2))))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", npy_header((10**13,), np.dtype(np.float64)))  # 80 TB
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match=r"is not a detector that tag2box saved: .* cannot be an array"):
        Detector.load(path)


def test_what_a_person_judged_shifts_the_logits_of_its_class(detector, photo):
    shift = np.array([-1.0, 0.0, 2.0])
    calibration = replace(detector.calibration, shift=shift)
    sure, plain = replace(detector, calibration=calibration).detect(photo), detector.detect(photo)
    before, after = (logit(each.score) for each in (plain, sure))
    np.testing.assert_allclose(after, before + shift[plain.label], atol=1e-6)


def mutants(content, arrays):
    """The same file with one array or number of another shape, type or size."""
    for name, array in arrays.items():
        others = [array[..., :-1], array[:0], array.astype(complex), np.array(1.0, array.dtype)]
        others += [np.full_like(array, 1e308 if array.dtype == np.float64 else 1e38), array.astype("U3")]
        others += [array.astype(np.int16), np.full_like(array, np.nan), array[None]]
        yield from (({**arrays, name: other}, content) for other in others if other is not array)
    for place in _places(content):
        for value in (None, 10**400, 1e308, "text", {"tuple": []}, {"array": next(iter(arrays))}):
            changed = json.loads(json.dumps(content))
            part = changed
            for step in place[:-1]:
                part = part[step]
            part[place[-1]] = value
            yield arrays, changed


def _places(content, place=()):
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for step, each in items:
            yield from _places(each, (*place, step))
    else:
        yield place


@pytest.mark.parametrize("kind", ["windows", "network"])
def test_a_forged_file_with_a_right_checksum_is_refused_in_one_line_or_detects(detector, kind, tmp_path):
    network = None if kind == "windows" else replace(random_convnet(3), classes=CLASSES)
    detector = replace(detector, network=network)
    content, arrays = pack(detector)
    if network is not None:  # of its many weights of one kind, some
        kept = ("network.weights.11.expand.W", "network.curves", "network.weights.boxes.1.b")
        few = {name: array for name, array in arrays.items() if name.replace("_", ".") in kept}
        assert len(few) == 3
        forged = ((arrays | a, c) for a, c in mutants(content["fields"]["network"], few) if a is not few)
        forged = ((a, content) for a, _ in forged)
    else:
        forged = mutants(content, arrays)
    count, refused, lines = 0, 0, set()
    photo = np.full((48, 64, 3), 128, np.uint8)
    for own, body in forged:
        count += 1
        file = tmp_path / "d.npz"
        file.write_bytes(with_header({"format": f"tag2box detector {FORMAT}", "content": body}, own))
        try:
            loaded = Detector.load(file)
        except InputError as error:
            refused += 1
            lines.add(str(error))
            continue
        with suppress(InputError):
            assert np.isfinite(loaded.detect(photo).score).all()
    assert count > 20
    assert not [line for line in lines if "\n" in line or "is not a detector that tag2box saved" not in line]
    assert refused > count / 2
