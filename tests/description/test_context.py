"""Context and competition: the last map in a window's vector, and between the tags of a photo."""

import numpy as np
import pytest
from tests._describing import described_by, map_at
from tests._networks import vit_toml, write_cnn, write_vit

from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.context import Context, fit_context
from tag2box.description.crops import pool_map
from tag2box.description.describe import describe
from tag2box.description.projection import Projection
from tag2box.description.record import Described, Maps
from tag2box.description.resolving import resolve
from tag2box.description.whole_photo import WholePhoto
from tag2box.errors import InputError
from tag2box.training.activations import Activations, fit_activations
from tag2box.training.competition import compete
from tag2box.training.object_maps import Objectness, fit_object_maps, measure_objectness
from tag2box.windows.record import Windows
from tag2box.windows.search import WindowsConfig

SIZE = np.array([80, 60])


def context(c=5, k=3, ring=0.4, length=14.0, seed=0):
    rng = np.random.default_rng(seed)
    return Context(
        rng.normal(size=c).astype(np.float32), rng.normal(size=(c, k)).astype(np.float32), ring, length
    )


def slow_context(of, map_, boxes, size, fine=40):
    """Means over a fine grid of points: the map is constant in each cell."""
    h, w, _ = map_.shape
    y, x = ((np.arange(n * fine) + 0.5) / (n * fine) for n in (h, w))
    cells = (map_.astype(np.float64) - of.mean) @ of.U
    points = cells[np.minimum((y * h).astype(int), h - 1)][:, np.minimum((x * w).astype(int), w - 1)]
    out = []
    for box in boxes / np.tile(size, 2):
        margin = of.ring * (box[2:] - box[:2])
        inner = _within(box, x, y)
        outer = _within(np.concatenate([box[:2] - margin, box[2:] + margin]), x, y) & ~inner
        inside = points[inner].mean(axis=0)
        around = points[outer].mean(axis=0) if outer.any() else np.zeros(cells.shape[2])
        vector = np.concatenate([inside, inside - around])
        out.append(vector * of.length / np.linalg.norm(vector))
    return np.array(out)


def _within(box, x, y):
    return ((x >= box[0]) & (x < box[2]))[None] & ((y >= box[1]) & (y < box[3]))[:, None]


def test_context_is_the_mean_inside_and_its_difference_to_the_ring():
    map_ = np.random.default_rng(1).normal(size=(6, 8, 5)).astype(np.float16)
    boxes = np.array([[0, 0, 80, 60], [10, 10, 40, 30], [3, 7, 9, 50], [60, 40, 80, 60]], np.float32)
    of = context()
    np.testing.assert_allclose(
        of(map_, boxes, SIZE), slow_context(of, map_, boxes, SIZE), rtol=0.05, atol=0.2
    )
    assert of(map_, boxes[:0], SIZE).shape == (0, of.width)
    np.testing.assert_allclose(np.linalg.norm(of(map_, boxes, SIZE), axis=1), 14, rtol=1e-5)


def described(maps, windows=None):
    """Photos of which the maps alone matter."""
    if windows is None:
        n = len(maps.shape)
        windows = Windows(np.empty((0, 4), np.float32), np.zeros(n + 1, np.int64), np.full((n, 2), 9))
    return Described(windows, np.zeros((len(windows.xyxy), 1), np.float32), maps)


def two_photos():
    rng = np.random.default_rng(0)
    maps = Maps(
        rng.normal(size=(48 + 20, 5)).astype(np.float16), np.array([0, 48, 68]), np.array([[6, 8], [4, 5]])
    )
    xyxy = np.array([[0, 0, 80, 60], [10, 10, 40, 30], [0, 0, 50, 40]], np.float32)
    return described(maps, Windows(xyxy, np.array([0, 2, 3]), np.array([[80, 60], [50, 40]])))


PHOTO = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
BOXES = np.array([[0, 0, 80, 60], [10, 10, 40, 30]], np.float32)
CROPS = FeaturesConfig(precision="f32", levels=(96,), grid=1)


def first_of(width):
    """A projection that keeps the first six numbers."""
    return Projection(np.zeros(width, np.float32), np.eye(width, 6, dtype=np.float32), "none", 1.0)


def with_context(features, width, maps):
    """A description with the context of those maps' own cells, and the vectors of two boxes by it."""
    of = fit_context(Maps.of_image(map_at(PHOTO, maps.side, CROPS)), maps) if maps.context else None
    description = described_by(features, maps, first_of(width), of)
    return of, describe(PHOTO, description, boxes=BOXES).X


def test_context_has_a_finer_map_beside_the_other():
    of, X = with_context(CROPS, 320, MapsConfig(side=64, fine_side=128, context=4))
    assert X.shape == (2, 6 + of.width)
    alone = describe(PHOTO, described_by(CROPS, projection=first_of(320)), boxes=BOXES).X
    around = [of(map_at(PHOTO, side, CROPS), BOXES, SIZE).astype(np.float16) for side in (64, 128)]
    np.testing.assert_array_equal(X, np.hstack([alone, *around]))
    _, coarse = with_context(CROPS, 320, MapsConfig(side=64, fine_side=0, context=4))
    np.testing.assert_array_equal(coarse, X[:, : 6 + of.width // 2])
    _, none = with_context(CROPS, 320, MapsConfig(side=64, fine_side=128, context=0))
    np.testing.assert_array_equal(none, alone)


@pytest.mark.parametrize(
    ("fine_side", "context", "runs"), [(0, 4, [64]), (128, 4, [128, 64]), (128, 0, [64])]
)
def test_pooling_averages_the_finest_map_that_is_there(monkeypatch, fine_side, context, runs):
    """Nothing is run for it, and nothing that nobody needs."""
    config, maps = FeaturesConfig(precision="f32", mode="pool", grid=2), MapsConfig(side=64)
    with_context(config, 4 * 320, maps)  # compiles it
    maps = MapsConfig(side=64, fine_side=fine_side, context=context)
    of = fit_context(Maps.of_image(map_at(PHOTO, 64, CROPS)), maps) if context else None
    seen, first = [], WholePhoto.first
    monkeypatch.setattr(WholePhoto, "first", lambda self, *a: seen.extend(a[-1]) or first(self, *a))
    X = describe(PHOTO, described_by(config, maps, first_of(4 * 320), of), boxes=BOXES).X
    monkeypatch.undo()
    assert seen == runs
    finest = map_at(PHOTO, runs[0], config).astype(np.float32)
    pooled = pool_map(finest, BOXES / [80, 60, 80, 60], 2)
    np.testing.assert_array_equal(X[:, :6], first_of(4 * 320)(pooled.reshape(2, -1)).astype(np.float16))


@pytest.mark.parametrize(
    ("given", "network", "expected"),
    [
        ({}, {}, 1024),
        ({"side": 96}, {}, 192),
        ({"side": 4000}, {}, 4096),
        ({}, {"patch": 14}, 0),
        ({}, {"patch": 32}, 1024),
        ({}, {"size": 224, "patch": 32}, 0),
        ({"fine_side": 700}, {"patch": 14}, 700),
        ({"fine_side": 0}, {}, 0),
    ],
)
def test_the_finer_map_is_for_networks_of_large_cells(tmp_path, given, network, expected):
    path = tmp_path / "a.onnx"
    if network:
        write_vit(path, **network, toml=vit_toml(**network))
    else:
        write_cnn(path)
    features = FeaturesConfig(network=str(path), precision="f32")
    assert resolve(WindowsConfig(), features, MapsConfig(**given)).maps.fine_side == expected


def test_components_are_those_of_most_variance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1, 5, 0.1, 2] + 3
    maps = Maps(X.astype(np.float32), np.array([0, 500]), np.array([[20, 25]]))
    of = fit_context(maps, MapsConfig(context=2))
    np.testing.assert_allclose(np.abs(of.U).round(1), [[0, 0], [1, 0], [0, 0], [0, 1]], atol=0.1)
    np.testing.assert_allclose(of.mean, X.mean(axis=0), rtol=1e-4)
    assert fit_context(maps, MapsConfig(context=192)).U.shape == (4, 4)  # no more than there are


def test_shares_of_a_cell_add_up_to_one_and_follow_the_activations():
    U = np.array([[4, 0], [0, 4], [0, 0]], np.float32)
    map_ = np.zeros((1, 2, 2), np.float32)
    map_[0, 0, 0] = map_[0, 1, 1] = 1
    shares = Activations(U, np.zeros(3, np.float32)).shares(map_, np.array([0, 1]))
    np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=1e-6)
    assert shares[0, 0, 0] > 0.9
    assert shares[1, 0, 1] > 0.9


def test_activations_are_a_logistic_regression_on_the_mean_of_the_cells():
    rng = np.random.default_rng(0)
    tags = rng.choice([-1, 1], (200, 2)).astype(np.int8)
    cells = rng.normal(size=(200, 6, 3)) + np.array([2.0, 0, 0]) * (tags[:, :1, None] > 0)
    maps = Maps(cells.reshape(-1, 3).astype(np.float32), np.arange(201) * 6, np.tile([2, 3], (200, 1)))
    found = fit_activations(described(maps), tags)
    logits = np.array([found.tags(maps[i]) for i in range(200)])
    assert ((logits[:, 0] > 0) == (tags[:, 0] > 0)).mean() > 0.9
    assert np.abs(found.U[0]).argmax() == 0
    only = fit_activations(described(maps), np.ones((200, 1), np.int8))
    assert not only.U.any()
    assert not only.d.any()


def test_only_photos_of_several_tags_change():
    photos = two_photos()
    maps, windows = photos.maps, photos.windows
    tags = np.array([[1, 1], [-1, 1]], np.int8)
    activations = fit_activations(photos, tags)
    of = fit_object_maps(photos, tags, activations, 2)
    share = np.concatenate(
        [measure_objectness(of(maps[i]), windows[i], windows.sizes[i], 0.25) for i in range(2)]
    )
    found = compete((photos, Objectness(share, windows.offsets), tags), of, activations, 0.25).values
    np.testing.assert_array_equal(found[2:], share[2:])
    mixed = of(maps[0]) * activations.shares(maps[0], np.array([0, 1]))
    np.testing.assert_array_equal(found[:2], measure_objectness(mixed, windows[0], windows.sizes[0], 0.25))


@pytest.mark.parametrize("wrong", [{"context": -1}, {"context_ring": 0}, {"context_length": 0}])
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InputError):
        MapsConfig(**wrong)
