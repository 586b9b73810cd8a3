"""`Detector`: the same detections wherever its file goes, and nothing else is let in."""

import json
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image
from tag2box.detection.detector_file import FORMER

from tag2box.boxes import iou_matrix
from tag2box.description.config import FeaturesConfig
from tag2box.description.context import Context
from tag2box.description.projection import Projection
from tag2box.description.resolving import network_of
from tag2box.detection.config import DetectConfig
from tag2box.detection.detector import Detector
from tag2box.errors import InputError
from tag2box.networks.content import network_hash
from tag2box.runtime.arrays import npy_header, sealed
from tag2box.training.calibration import calibrate
from tag2box.training.object_maps import MapsConfig, ObjectMaps, measure_objectness
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
    return Detector(
        classes=CLASSES,
        windows=WindowsConfig(mode="single", max_windows=40),
        features=FEATURES,
        projection=Projection(
            np.zeros(320, np.float32), rng.normal(size=(320, 16)).astype(np.float32), "l2", 20.0
        ),
        network=network_hash(FEATURES.network),
        W=rng.normal(size=(3, 16)),
        b=rng.normal(size=3),
        objectness_weight=0.25,
        maps=MapsConfig(side=128),
        object_maps=ObjectMaps(rng.normal(size=(3, 320)).astype(np.float32), np.zeros(3, np.float32)),
        detect_config=DetectConfig(max_detections=5),
        calibration=np.array([[2.0, -1.0], [1.0, 0.0], [0.5, 3.0]]),
        trace=([{"objective": 1.0}],),
    )


def test_detections_obey_the_settings(detector, photo):
    voted = detector.detect(photo)
    detector = replace(detector, detect_config=replace(detector.detect_config, vote_iou=1.0))
    found = detector.detect(photo)
    assert voted.score.tolist() == found.score.tolist()
    assert (voted.xyxy != found.xyxy).any()
    overlap = iou_matrix(voted.xyxy, found.xyxy)
    assert overlap.diagonal().min() > 0.3
    assert found.classes == CLASSES
    boxes = search_windows(photo, detector.windows).xyxy
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
    plain = X.astype(np.float64) @ detector.W.T + detector.b
    prior = 0.25 * measure_objectness(detector.object_maps(map_), xyxy, windows.sizes[0], detector.maps.ring)
    assert prior.max(axis=0) == pytest.approx(0.25)
    size = windows.sizes[0]
    np.testing.assert_allclose(detector.scorer(X, xyxy, size, map_), plain + prior, rtol=1e-4)
    alone = replace(detector, objectness_weight=0).scorer
    np.testing.assert_allclose(alone(X, xyxy, size, None), plain, rtol=1e-4)
    with pytest.raises(InputError, match="looks at the photo's map"):
        detector.scorer(X, xyxy, size, None)


@pytest.fixture(scope="module")
def contextual(detector):
    """A detector whose vectors have context, from maps of two sizes."""
    rng = np.random.default_rng(3)
    U = np.linalg.qr(rng.normal(size=(320, 4)))[0].astype(np.float32)
    context = Context(np.zeros(320, np.float32), U, 0.4, 14.0, fine_side=256)
    return replace(detector, context=context, W=rng.normal(size=(3, 16 + context.width)))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cascade_describes_the_windows_that_promise_most(contextual, photo, threads):
    few = replace(contextual, detect_config=replace(contextual.detect_config, full_windows=7))
    every = replace(contextual, detect_config=replace(contextual.detect_config, full_windows=0))
    windows, X, map_ = every.describe(photo)
    kept, mine, _ = few.describe(photo, threads=threads)
    context = X[:, -contextual.context.width :].astype(np.float64)
    cheap = context @ contextual.W[:, 16:].T + contextual.b
    cheap += 0.25 * measure_objectness(
        contextual.object_maps(map_), windows.xyxy, windows.sizes[0], contextual.maps.ring
    )
    rows = np.sort(np.argsort(-cheap.max(axis=1))[:7])
    np.testing.assert_array_equal(kept.xyxy, windows.xyxy[rows])
    np.testing.assert_array_equal(mine, X[rows])
    enough = replace(every, detect_config=replace(every.detect_config, full_windows=len(X)))
    assert enough.detect(photo).score.tolist() == every.detect(photo).score.tolist()
    assert len(windows.xyxy) > 20


def test_a_photo_is_decoded_once(contextual, photo, tmp_path, monkeypatch):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    opened, open_ = [], Image.open
    monkeypatch.setattr(Image, "open", lambda file, **how: opened.append(file) or open_(file, **how))
    found = contextual.detect(tmp_path / "photo.png")
    assert len(opened) == 1
    assert found.xyxy.tolist() == contextual.detect(photo).xyxy.tolist()


def test_objectness_needs_its_maps(detector):
    with pytest.raises(InputError, match="objectness_weight above 0 needs object_maps"):
        replace(detector, object_maps=None)
    maps = ObjectMaps(detector.object_maps.V[:2], detector.object_maps.a[:2])
    with pytest.raises(InputError, match="object_maps must be of 3 classes"):
        replace(detector, object_maps=maps)


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


def test_everything_comes_back(detector, tmp_path):
    detector.save(tmp_path / "d.npz")
    again = Detector.load(tmp_path / "d.npz")
    for name in ("classes", "windows", "features", "network", "objectness_weight", "maps", "detect_config"):
        assert getattr(again, name) == getattr(detector, name)
    for name in ("W", "b", "calibration"):
        np.testing.assert_array_equal(getattr(again, name), getattr(detector, name))
    np.testing.assert_array_equal(again.object_maps.V, detector.object_maps.V)
    np.testing.assert_array_equal(again.object_maps.a, detector.object_maps.a)
    assert json.dumps(again.trace) == json.dumps(detector.trace)


def test_confidence_rises_with_the_score_and_stays_within_0_and_1(detector, photo):
    found = replace(detector, detect_config=DetectConfig(confidence=False)).detect(photo)
    sure = detector.confidence(found)
    assert (found.score > 1).any()
    assert ((sure.score >= 0) & (sure.score <= 1)).all()
    for c in range(3):
        assert (np.diff(sure.score[found.label == c]) <= 0).all()


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
    found = replace(detector, detect_config=DetectConfig(min_score=0.5)).detect(photo)
    whole = replace(detector, detect_config=DetectConfig()).detect(photo)
    assert 0 < len(found) == (whole.score >= 0.5).sum() < len(whole)


def test_another_network_is_refused(detector, photo):
    with pytest.raises(InputError, match="not those that this detector was trained with"):
        replace(detector, network="0" * 64).detect(photo)


def test_a_detector_of_another_version_is_refused(detector, tmp_path, monkeypatch):
    path = tmp_path / "d.npz"
    monkeypatch.setattr("tag2box.detection.detector_file.FORMAT", "tag2box detector 2")
    detector.save(path)
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"d.npz is from another version of tag2box: learn it again"):
        Detector.load(path)


def test_a_detector_of_before_cuts_its_network_where_it_did(detector, photo, tmp_path, monkeypatch):
    """Format 7 says no cut: that was another default."""
    then = replace(detector.features, cut="block7")
    learned_then = replace(detector, features=then, network=network_hash(network_of(then)))
    monkeypatch.setattr("tag2box.detection.detector_file.FORMAT", FORMER)
    replace(learned_then, features=replace(then, cut=None)).save(tmp_path / "d.npz")
    monkeypatch.undo()
    opened = Detector.load(tmp_path / "d.npz")
    assert opened.features.cut == "block7"
    np.testing.assert_array_equal(opened.detect(photo).score, learned_then.detect(photo).score)


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
    with pytest.raises(InputError, match=r"W must be \(n_classes, d\)"):
        replace(detector, W=detector.W[:, :3])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", npy_header((10**13,), np.dtype(np.float64)))  # 80 TB
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match=r"is not a detector that tag2box saved: .* cannot be an array"):
        Detector.load(path)


def test_a_confidence_is_no_higher_than_its_class_is_reliable(detector, photo):
    sure = replace(detector, reliability=np.array([0.5, 1.0, 0.2])).detect(photo)
    plain = detector.detect(photo)
    np.testing.assert_allclose(sure.score, plain.score * np.array([0.5, 1.0, 0.2])[plain.label])
