"""Features: crops against a slow oracle, shared against warp, and independence of everything around."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image
from tests._describing import fitted_on, map_at, seen_by, vectors

from tag2box.description.config import FeaturesConfig
from tag2box.description.crops import crop_map
from tag2box.description.describe import describe, raw_widths
from tag2box.description.description import fit_description
from tag2box.description.modes import FINER, Shared, Warp, nearest_level
from tag2box.description.photos import PhotoFiles, describe_boxes
from tag2box.description.projection import Projection, fit_projection
from tag2box.description.record import Described
from tag2box.description.resolving import resolve
from tag2box.description.whole_photo import Seen, WholePhoto
from tag2box.errors import InputError
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import load_network
from tag2box.networks.onnx_writer import Graph
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import content_hash
from tag2box.windows.search import WindowsConfig

SMALL = FeaturesConfig(levels=(64, 128), crop=8, dimensions=16, size=64)
F32 = EngineOptions("f32")
FEW = WindowsConfig(mode="single", max_windows=20)
PLAIN = {"padding": 0.0, "grid": 1}


def seen(photo, network, how=F32):
    """A photo before the network, cut where it can be."""
    return Seen(photo, photo.shape[:2], WholePhoto(network, how, cut=network.cut))


def random_boxes(rng, n, w, h):
    corner = rng.uniform(0, 0.6, (n, 2)) * (w, h)
    return np.hstack([corner, corner + rng.uniform(0.1, 0.4, (n, 2)) * (w, h)]).astype(np.float32)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Five photos of several shapes."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("photos")
    paths = []
    for i, (w, h) in enumerate([(120, 80), (60, 140), (100, 100), (90, 70), (300, 20)]):
        coarse = rng.integers(0, 256, (h // 10 + 1, w // 10 + 1, 3)).astype(np.uint8)
        paths.append(folder / f"{i}.png")
        Image.fromarray(coarse).resize((w, h)).save(paths[-1])
    return paths


def fitted(photos, **more):
    settings = resolve(FEW, replace(SMALL, **more), None)
    return fitted_on(photos, settings)


@pytest.fixture(scope="module")
def projection(photos):
    return fitted(photos).projection


def slow_crop(source, box, size, samples):
    """Bilinear samples one by one, from a map whose border is repeated without end."""
    h, w, c = source.shape
    out = np.zeros((size, size, c))
    for i in range(size * samples):
        for j in range(size * samples):
            y = box[1] + (i + 0.5) / (size * samples) * (box[3] - box[1]) - 0.5
            x = box[0] + (j + 0.5) / (size * samples) * (box[2] - box[0]) - 0.5
            for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
                top, left = int(np.floor(y)) + row, int(np.floor(x)) + column
                weight = (1 - abs(y - top)) * (1 - abs(x - left))
                out[i // samples, j // samples] += (
                    weight * source[np.clip(top, 0, h - 1), np.clip(left, 0, w - 1)]
                )
    return out / samples**2


@pytest.mark.parametrize("shape", [(9, 7, 5), (1, 4, 2), (5, 1, 3)])
@pytest.mark.parametrize("samples", [1, 2])
def test_crops_equal_the_slow_ones(shape, samples):
    rng = np.random.default_rng(0)
    source = rng.normal(size=shape).astype(np.float32)
    boxes = random_boxes(rng, 20, 12, 14) - 3  # some reach over the border
    out = np.empty((20, 4, 4, shape[2]), np.float32)
    crop_map(source, boxes, 4, samples, out)
    expected = [slow_crop(source, box, 4, samples) for box in boxes]
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_a_crop_on_the_cells_is_the_cells():
    source = np.random.default_rng(0).normal(size=(8, 9, 3)).astype(np.float32)
    out = np.empty((1, 4, 4, 3), np.float32)
    crop_map(source, np.array([[2, 3, 6, 7]], np.float32), 4, 1, out)
    np.testing.assert_array_equal(out[0], source[3:7, 2:6])


def test_shared_is_warp_where_nothing_is_resampled():
    """The whole photo, at its own size, with cells taken as they are."""
    network = load_network("efficientnet-lite0")
    photo = np.random.default_rng(0).integers(0, 256, (128, 128, 3)).astype(np.uint8)
    box = np.array([[0, 0, 128, 128]], np.float32)
    shared = Shared(network, F32, crop=8, levels=(128, 512), **PLAIN)
    warp = Warp(network, F32, size=128, **PLAIN)
    given = seen(photo, network)
    assert given.net.stride == 16
    np.testing.assert_allclose(shared(given, box), warp(given, box), rtol=1e-4, atol=1e-4)


def test_a_window_comes_from_the_photo_in_which_it_is_181_px_wide():
    """sqrt 2 times its 8 cells of 16 px; a small window from the largest photo, a flat one by its area."""
    levels = np.array([724, 512, 362, 256, 181])
    sides = np.array([[500, 500], [354, 354], [250, 250], [177, 177], [125, 125], [30, 30], [500, 250]])
    boxes = np.hstack([np.zeros_like(sides), sides]).astype(np.float32)
    level = nearest_level(levels, (500, 500), boxes, FINER * 8 * 16)
    assert levels[level].tolist() == [181, 256, 362, 512, 724, 724, 256]


def test_cells_look_where_they_stand():
    """Single changed pixels move the map around their own place: cell i covers [i, i + 1) stride."""
    network = load_network("efficientnet-lite0")
    early = Part(network, (1, 128, 128), F32, end=network.cut)
    rng = np.random.default_rng(0)
    photo = np.full((1, 128, 128, 3), 127, np.uint8)
    base, off = early(photo), []
    for x, y in rng.integers(40, 88, (40, 2)):
        changed = photo.copy()
        changed[0, y, x] = 255
        response = np.square(early(changed) - base)[0].sum(2)
        rows, columns = np.indices(response.shape)
        center = np.array([(response * columns).sum(), (response * rows).sum()]) / response.sum()
        off.append((x + 0.5, y + 0.5) - (center + 0.5) * 16)
    np.testing.assert_allclose(np.mean(off, axis=0), 0, atol=16 / 4)  # half a cell would be a wrong rule


def test_shared_is_close_to_warp_on_a_photo():
    data = pytest.importorskip("skimage.data")
    network, photo = load_network("efficientnet-lite0"), data.chelsea()
    boxes = random_boxes(np.random.default_rng(0), 40, photo.shape[1], photo.shape[0])
    given = seen(photo, network)
    shared = Shared(network, F32, crop=7, levels=(1024, 512, 256, 128), **PLAIN)(given, boxes).reshape(40, -1)
    warp = Warp(network, F32, size=112, **PLAIN)(given, boxes).reshape(40, -1)
    own = cosine(shared, warp)
    other = cosine(shared, np.roll(warp, 1, axis=0))
    assert own.mean() > 0.65  # cells at the border of a window see beyond it
    assert own.mean() > other.mean() + 0.2


def cosine(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("precision", ["bf16", "f16", "int8"])
def test_reduced_precision_keeps_the_direction(precision):
    data = pytest.importorskip("skimage.data")
    network, photo = load_network("efficientnet-lite0"), data.chelsea()
    boxes = random_boxes(np.random.default_rng(0), 40, photo.shape[1], photo.shape[0])
    full, reduced = (
        Shared(network, how, crop=14, levels=(512, 256), **PLAIN)(seen(photo, network, how), boxes)
        for how in (EngineOptions("f32"), EngineOptions(precision))
    )
    assert cosine(full.reshape(40, -1), reduced.reshape(40, -1)).mean() > 0.99


def test_a_photo_is_run_once_at_each_size(monkeypatch):
    """The last map goes on from the early one, and is that of the network in one piece."""
    network = load_network("efficientnet-lite0")
    photo = np.random.default_rng(0).integers(0, 256, (90, 120, 3)).astype(np.uint8)
    runs = []
    first = WholePhoto.first
    monkeypatch.setattr(WholePhoto, "first", lambda net, *a: runs.extend(a[-1]) or first(net, *a))
    given = seen(photo, network)
    last, early, again = given.last(128), given.early(128), given.last(128)
    given.early(64)
    assert runs == [128, 64]
    assert again is last
    assert early.shape == (6, 8, 112)
    whole = Seen(photo, (90, 120), WholePhoto(network, F32)).last(128)
    np.testing.assert_allclose(last, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["shared", "warp", "pool", "pyramid"])
def test_vectors_depend_on_their_photo_and_box_alone(photos, mode):
    """Not on other photos or boxes, the workers or threads."""
    description = fitted(photos, mode=mode)
    job = partial(describe, description=description)
    together = Described.concatenate(list(map_ordered(job, photos, workers=2)))
    assert together.X.dtype == np.float16
    for i in (4, 1, 3):
        windows, X = together.windows[i], together.part(i, i + 1).X
        photo = np.asarray(Image.open(photos[i]))
        alone = describe(photo, description, threads=2)
        np.testing.assert_array_equal(alone.windows.xyxy, windows)
        np.testing.assert_array_equal(alone.X, X)
        some = describe(photo, description, boxes=windows[5:8])
        np.testing.assert_array_equal(some.X, X[5:8])
    image, rows = np.array([4, 1, 4]), [2, 0, 1]
    boxes = np.stack([together.windows[i][row] for i, row in zip(image, rows, strict=True)])
    expected = [together.part(i, i + 1).X[row] for i, row in zip(image, rows, strict=True)]
    files = PhotoFiles(tuple(photos), tuple(content_hash(path) for path in photos))
    np.testing.assert_array_equal(describe_boxes(files, image, boxes, description, workers=2), expected)
    with pytest.raises(InputError, match="another photo"):  # another photo has the name now
        describe_boxes(replace(files, hashes=("0" * 64,) * 5), image, boxes, description)


@pytest.mark.parametrize(("h", "w"), [(1, 1), (2, 3000), (1500, 7)])
@pytest.mark.parametrize("mode", ["shared", "warp"])
def test_any_shape_of_photo_has_features(projection, h, w, mode):
    photo = np.random.default_rng(0).integers(0, 256, (h, w, 3)).astype(np.uint8)
    X = vectors(photo, np.array([[0, 0, w, h]]), replace(SMALL, mode=mode), projection)
    assert X.shape == (1, 16)
    assert np.isfinite(X).all()


@pytest.mark.parametrize("dimensions", [16, 256])
def test_a_row_is_projected_alike_wherever_it_stands(dimensions):
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((100, 1280)).astype(np.float32)
    A = rng.standard_normal((1280, dimensions)).astype(np.float32)
    projection = Projection(np.zeros(1280, np.float32), A, "none", 1.0)
    whole = projection(raw)
    for first in (1, 5, 17, 50):
        np.testing.assert_array_equal(projection(raw[first:]), whole[first:])


def test_projection_laws():
    rng = np.random.default_rng(0)
    sample = (rng.normal(size=(400, 12)) @ rng.normal(size=(12, 12)) + 3).astype(np.float32)
    white = fit_projection(sample, 12, 0.5, "none", 1.0)(sample)
    np.testing.assert_allclose(np.cov(white.T), np.eye(12), atol=1e-3)
    plain = fit_projection(sample, 12, 0.0, "none", 1.0)(sample)  # a rotation: distances stay
    np.testing.assert_allclose(
        np.linalg.norm(plain[1:] - plain[:-1], axis=1),
        np.linalg.norm(sample[1:] - sample[:-1], axis=1),
        rtol=1e-4,
    )
    half = fit_projection(sample, 4, 0.25, "none", 1.0)(sample)  # variance^(1/2) is left on each axis
    np.testing.assert_allclose(half.var(0, ddof=1) ** 2, plain.var(0, ddof=1)[:4], rtol=1e-3)
    unit = fit_projection(sample, 4, 0.25, "l2", 20.0)
    np.testing.assert_allclose(np.linalg.norm(unit(sample), axis=1), 20, rtol=1e-5)
    mean = fit_projection(sample, None, 0.25, "mean", 20.0)
    np.testing.assert_allclose(np.linalg.norm(mean(sample), axis=1).mean(), 20, rtol=1e-5)
    np.testing.assert_allclose(mean(sample) / sample, (mean(sample) / sample)[0, 0], rtol=1e-5)
    np.testing.assert_array_equal(unit(sample[7:9]), unit(sample)[7:9])


@pytest.mark.parametrize("whitening", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("distinct", [1, 2, 9, 67])
def test_axes_that_few_or_equal_windows_leave_empty_are_no_dimensions(distinct, whitening):
    rng = np.random.default_rng(0)
    few = rng.normal(size=(distinct, 200)).astype(np.float32) * 3
    sample = few[rng.integers(0, distinct, 600)]  # 600 windows, but many of them equal
    for windows in (few, sample):
        projection = fit_projection(windows, 512, whitening, "none", 1.0)
        assert projection.A.shape == (200, max(distinct - 1, 1))
        assert np.abs(projection.A).max() <= 1  # noise had weights of up to 3e9
        near, far = projection(few[:1]), projection(few[:1] + np.float32(1e-4))
        assert np.abs(near - far).max() < 0.01


def test_what_is_no_number_is_refused(tmp_path):
    graph = Graph()
    zero = np.zeros((1, 3, 1, 1), np.float32)
    graph.add("Div", ["x", graph.constant("w", zero)], "y")
    shape = {"x": ("n", 3, "h", "w")}
    (tmp_path / "own.onnx").write_bytes(graph.serialize("own", shape, {"y": ("n", 3, "h", "w")}))
    (tmp_path / "own.toml").write_text("mean = [0, 0, 0]\nstd = [1, 1, 1]\n")
    config = FeaturesConfig(str(tmp_path / "own.onnx"), mode="warp", size=32, grid=1, precision="f32")
    photo, boxes = np.zeros((64, 64, 3), np.uint8), np.array([[0, 0, 64, 64]], np.float32)
    with pytest.raises(InputError, match=r"own\.onnx makes no finite numbers of a photo"):
        vectors(photo, boxes, config)
    with pytest.raises(InputError, match="makes no finite numbers"):
        map_at(photo, 64, config)


def test_vectors_too_long_for_float16_are_refused(photos, projection):
    boxes = np.array([[0, 0, 50, 50]], np.float32)
    with pytest.raises(InputError, match=r'set features\.dtype to "float32"'):
        vectors(photos[0], boxes, SMALL, replace(projection, length=1e7))


def test_without_a_window_there_is_nothing_to_fit_on(photos):
    settings = resolve(FEW, SMALL, None)
    sample = seen_by(photos[:1], settings)
    empty = replace(sample, windows=sample.windows.part(0, 0), X=sample.X[:0])
    with pytest.raises(InputError, match="no window in the sampled images"):
        fit_description(empty, raw_widths(settings), settings)


def test_wrong_settings_are_refused():
    for wrong in ({"mode": "fast"}, {"grid": 0}, {"levels": ()}, {"norm": "l1"}, {"padding": -0.6}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            FeaturesConfig(**wrong)
