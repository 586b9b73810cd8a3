"""Object maps: by the book where there is one, planted objects, and real photos."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests._describing import seen_by
from tests.networks.test_backbone import PREPARE, own

from tag2box import Config, ImageSet, corloc, read_images
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.describe import check_maps, photo_map
from tag2box.description.record import Described, Maps
from tag2box.description.resolving import resolve
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.networks.onnx_writer import Graph
from tag2box.run.settings import prepare
from tag2box.training.activations import Activations, fit_activations
from tag2box.training.object_maps import FEW, PLACES, fit_object_maps, measure_all, measure_objectness
from tag2box.windows.record import Windows
from tag2box.windows.search import WindowsConfig, find_windows

H, W, C = 6, 8, 12


def maps_at(side, features=None):
    """Settings for maps with the long side of a photo at so many pixels, and no finer one."""
    windows = WindowsConfig(mode="single", max_windows=4)
    return resolve(windows, features or FeaturesConfig(), MapsConfig(side=side, fine_side=0))


def described(maps, windows=None):
    """Photos of which nothing but the maps, and their windows, matters."""
    n = len(maps.shape)
    if windows is None:
        windows = Windows(np.empty((0, 4), np.float32), np.zeros(n + 1, np.int64), np.full((n, 2), 9))
    return Described(windows, np.empty((len(windows.xyxy), 0), np.float32), maps)


def random_maps(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n * H * W, C)).astype(np.float16)
    return Maps(X, np.arange(n + 1) * H * W, np.tile([H, W], (n, 1)))


def object_maps(photos, tags, components=2):
    return fit_object_maps(photos, tags, fit_activations(photos, tags), components)


def without_places(maps):
    """Cells less what photos have in common at their place, (n, H, W, C): place by place."""
    X = maps.X.reshape(-1, H, W, C).astype(np.float64)
    rows, columns = ((np.arange(PLACES) + 0.5) / PLACES * n for n in (H, W))
    common = X.sum(axis=0)[rows.astype(int)][:, columns.astype(int)] / (len(X) + FEW)
    common -= common.mean(axis=(0, 1))
    for y in range(H):
        for x in range(W):
            X[:, y, x] -= common[int((y + 0.5) / H * PLACES), int((x + 0.5) / W * PLACES)]
    return X


def test_salience_is_the_regression_of_the_energy_on_the_components():
    maps = random_maps(9)
    tags = np.array([[1], [1], [-1], [1], [0], [1], [-1], [1], [1]], np.int8)
    images = np.flatnonzero(tags[:, 0] == 1)
    inner = without_places(maps)
    cells = inner[images].reshape(-1, C)
    energy = np.abs(cells).sum(axis=1).reshape(len(images), -1)
    energy -= energy.mean(axis=1, keepdims=True)
    for m in (1, 2, 5):
        pca = PCA(m).fit(cells)
        fitted = LinearRegression(fit_intercept=False).fit(pca.transform(cells), energy.ravel())
        expected = np.maximum(fitted.predict(pca.transform(inner[3].reshape(-1, C))), 0)
        nothing = Activations(np.zeros((1, C), np.float32), np.zeros(1, np.float32))
        map_ = fit_object_maps(described(maps), tags, nothing, m)(maps[3])[0]
        np.testing.assert_allclose(map_.ravel(), expected / expected.max(), atol=1e-3)


def test_a_map_is_salience_and_activation_each_from_0_to_1():
    maps, tags = random_maps(9), np.array([[1, -1]] * 4 + [[-1, 1]] * 5, np.int8)
    activations = fit_activations(described(maps), tags)
    both = fit_object_maps(described(maps), tags, activations, 2)
    nothing = Activations(np.zeros_like(activations.U), activations.d)
    salient = fit_object_maps(described(maps), tags, nothing, 2)(maps[1])
    active = without_places(maps)[1] @ activations.U.T.astype(np.float64)
    active = np.maximum(active - active.mean(axis=(0, 1)), 0)
    active = (active / active.max(axis=(0, 1))).transpose(2, 0, 1)
    np.testing.assert_allclose(both(maps[1]), salient + active, atol=1e-3)
    np.testing.assert_allclose(salient.max(axis=(1, 2)), 1)


def test_what_all_photos_have_at_a_place_is_no_object():
    """The left border is bright in every photo, whatever it shows; the object is elsewhere, and weaker."""
    rng, n = np.random.default_rng(2), 400
    X = 0.1 * rng.normal(size=(n, H, W, C))
    X[:, :, 0, 5] += 2
    tags = np.where(np.arange(n)[:, None] % 2, 1, -1).astype(np.int8)
    X[1::2, 2:4, 4:7, 2] += 2  # the place is common to half of the photos: half of it is taken out
    X[::2, rng.integers(0, H, n // 2), rng.integers(1, W, n // 2), 7] += 2
    maps = Maps(X.reshape(-1, C).astype(np.float32), np.arange(n + 1) * H * W, np.tile([H, W], (n, 1)))
    map_ = object_maps(described(maps), tags)(maps[1])[0]
    assert map_[2:4, 4:7].mean() > 3 * map_[:, 0].mean()
    assert np.unravel_index(map_.argmax(), (H, W)) in [(y, x) for y in (2, 3) for x in (4, 5, 6)]


def test_a_planted_object_is_framed():
    """Cells of the object lie along one direction and are strong; the ground is weak and of no direction."""
    rng = np.random.default_rng(1)
    n, maps, true, boxes = 12, random_maps(12), [], []
    X = 0.3 * maps.X.astype(np.float32)
    for i in range(n):
        y, x = rng.integers(0, H - 3), rng.integers(0, W - 4)
        X.reshape(n, H, W, C)[i, y : y + 3, x : x + 4, 2] += 4
        true.append([x * 10, y * 10, x * 10 + 40, y * 10 + 30])
        corner = rng.integers(0, [W - 1, H - 1], size=(30, 2))
        size = rng.integers(1, 5, size=(30, 2))
        other = np.concatenate([corner, np.minimum(corner + size, [W, H])], axis=1) * 10
        boxes.append(np.array([[0, 0, W * 10, H * 10], *other.tolist(), true[-1]], np.float32))
    windows = Windows(np.concatenate(boxes), np.arange(n + 1) * 32, np.tile([W * 10, H * 10], (n, 1)))
    tags = np.ones((n, 1), np.int8)
    photos = described(Maps(X, maps.offsets, maps.shape), windows)
    objectness = measure_all(photos, object_maps(photos, tags), 0.25).values
    best = objectness.reshape(n, 32).argmax(axis=1)
    np.testing.assert_array_equal([boxes[i][b] for i, b in enumerate(best)], true)


@given(arrays(np.float32, (2, 3, 4), elements=st.floats(0, 8, width=16)), st.integers(0, 1000))
def test_objectness_by_the_book(map_, seed):
    """The means of the map by a fine grid of points; what lies outside of the photo is 0."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, [300, 220], size=(5, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 100, size=(5, 2))], axis=1)
    boxes = np.round(np.minimum(boxes, [400, 300, 400, 300]))  # the whole photo is not among them
    fine = np.zeros((2, 900, 1200))
    fine[:, 300:600, 400:800] = map_.repeat(100, axis=1).repeat(100, axis=2)
    expected = np.zeros((5, 2))
    for j, (x1, y1, x2, y2) in enumerate(boxes):
        w, h = (x2 - x1) / 4, (y2 - y1) / 4
        inner = fine[:, int(300 + y1) : int(300 + y2), int(400 + x1) : int(400 + x2)].sum(axis=(1, 2))
        rows, columns = np.arange(900) + 0.5 - 300, np.arange(1200) + 0.5 - 400
        up = np.clip(np.minimum(rows + 0.5, y2 + h) - np.maximum(rows - 0.5, y1 - h), 0, 1)
        across = np.clip(np.minimum(columns + 0.5, x2 + w) - np.maximum(columns - 0.5, x1 - w), 0, 1)
        around = np.einsum("y,kyx,x->k", up, fine, across) - inner
        area = (x2 - x1) * (y2 - y1)
        expected[j] = np.maximum(np.sqrt(area) * (inner / area - around / (1.25 * area)), 0)
    best = expected.max(axis=0)
    expected = np.divide(expected, best, out=np.zeros_like(expected), where=best > 1e-9)
    objectness = measure_objectness(map_, boxes.astype(np.float32), np.array([400, 300]), 0.25)
    np.testing.assert_allclose(objectness[:, best > 1e-2], expected[:, best > 1e-2], atol=2e-3)
    assert ((objectness >= 0) & (objectness <= 1)).all()


def test_a_map_of_nothing_says_nothing():
    boxes, size = np.array([[0, 0, 40, 30], [5, 5, 20, 20]], np.float32), np.array([40, 30])
    assert not measure_objectness(np.zeros((3, 4, 5), np.float32), boxes, size, 0.25).any()
    assert measure_objectness(np.zeros((3, 4, 5), np.float32), boxes[:0], size, 0.25).shape == (0, 3)
    flat = Maps(np.ones((8, 4), np.float16), np.array([0, 4, 8]), np.full((2, 2), 2))
    of = object_maps(described(flat), np.array([[1, -1], [1, -1]], np.int8))
    assert np.isfinite(of.salience.W).all()
    assert not of(flat[0]).any()


def test_a_map_has_a_cell_for_every_stride_of_the_resized_photo():
    sizes = [(500, 333), (40, 1200), (1, 1), (333, 500), (1300, 40)]
    photos = [np.random.default_rng(0).integers(0, 256, (h, w, 3), np.uint8) for w, h in sizes]
    shapes = [photo_map(photo, maps_at(256)).shape[:2] for photo in photos]
    assert shapes == [(5, 8), (8, 1), (8, 8), (8, 5), (1, 8)]


def test_maps_do_not_depend_on_the_workers(tmp_path):
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 256, (120, 160, 3), np.uint8)
        (tmp_path / "thing").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "thing" / f"{i}.png")
    images, settings = read_images(tmp_path), maps_at(128)
    one = seen_by(images.paths, settings).maps
    for i, path in enumerate(images.paths):
        np.testing.assert_array_equal(photo_map(path, settings), one[i])


def test_a_network_without_a_map_is_refused_with_the_way_out(tmp_path):
    file = own(tmp_path, f'{PREPARE}output = "flat"\n')
    config = Config(features=FeaturesConfig(network=str(file), mode="warp", grid=1))
    images = ImageSet(("a",), (tmp_path / "a.png",), np.ones((1, 1), np.int8), ("thing",))
    with pytest.raises(InputError, match=r'own.onnx gives no map .* method = "song2014"'):
        prepare(images, config, tmp_path / "run")
    assert prepare(images, replace(config, method="song2014"), tmp_path / "run").description.maps is None


def test_a_map_that_does_not_grow_with_the_photo_is_refused(tmp_path):
    graph = Graph()
    graph.add("GlobalAveragePool", ["x"], "y")
    (tmp_path / "own.onnx").write_bytes(
        graph.serialize("own", {"x": ("n", 3, "h", "w")}, {"y": ("n", 3, 1, 1)})
    )
    (tmp_path / "own.toml").write_text(PREPARE)
    with pytest.raises(InputError, match="no whole cell for every 32 pixels"):
        check_maps(maps_at(128, FeaturesConfig(network=str(tmp_path / "own.onnx"), mode="warp")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MapsConfig(side=8), "side must be a whole number from 32 to 4096"),
        (lambda: MapsConfig(components=0), "components must be a whole number from 1 to"),
        (lambda: MapsConfig(ring=0), "ring must be a number from 0.001 to"),
    ],
)
def test_bad_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_map_finds_aeroplanes(voc_folder):
    """60 photos of VOC 2007, tags only: the best window is right in more than half of them."""
    images = read_images(voc_folder, split="trainval").only(["aeroplane"])
    images = images.take(images.positives("aeroplane")[:60])
    windows, settings = find_windows(images, WindowsConfig(), 2), maps_at(512)
    maps = Maps.concatenate([Maps.of_image(photo_map(path, settings)) for path in images.paths])
    photos = described(maps, windows)
    objectness = measure_all(photos, object_maps(photos, images.tags), 0.25)
    rows = windows.best_of(np.arange(len(images)), objectness.values[:, 0])
    boxes = Detections(
        image=np.arange(len(images)),
        xyxy=windows.xyxy[rows],
        score=np.ones(len(images)),
        label=np.zeros(len(images), np.intp),
        ids=images.ids,
        classes=("aeroplane",),
    )
    assert corloc(boxes, images).mean > 0.5
