"""From vectors to covers: each stage against a slow and obvious twin."""

import numpy as np
import pytest
from tests._planted import N_IMAGES, N_WINDOWS, D, planted

from tag2box import cover_graph, greedy_cover, group_neighbors, negative_mining
from tag2box.cover.compared import Compared, compare
from tag2box.cover.config import CoverConfig
from tag2box.cover.degrees import Degrees, count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.description.record import Described
from tag2box.images import draw_images, known_tags
from tag2box.runtime import stages
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.windows.record import Windows

EVERYTHING = np.ones(N_IMAGES, bool)
SOME = np.isin(np.arange(N_IMAGES), [0, 3, 4, 8, 9, 10, 13, 21, 22, 30, 35])


@pytest.fixture(scope="module")
def known():
    return planted()


def degrees_of(known, settings, drawn=EVERYTHING):
    compared = compare((known.described, drawn), settings.dimensions)
    return compared, count_neighbors(np.arange(N_IMAGES), compared, known.tags, settings.k)


def covers_of(known, settings, drawn=EVERYTHING):
    compared, degrees = degrees_of(known, settings, drawn)
    return find_covers(known.described.windows, compared, known.tags, degrees, settings)


def slow_degrees(known, k, drawn):
    """Both numbers of every window of the images drawn, by the book."""
    rows = known.described.windows.rows_of(drawn)
    image, X = known.described.windows.image_of(rows), known.described.X.astype(np.float64)
    images, tags = np.flatnonzero(drawn), known.tags
    depth = [int(max(k * (tags[images, c] == 1).sum(), 2)) for c in range(tags.shape[1])]
    above, far = np.zeros((2, len(rows), tags.shape[1]))
    for n, (i, row) in enumerate(zip(image, rows, strict=True)):
        distance = np.array([np.linalg.norm(X[rows[image == j]] - X[row], axis=1).min() for j in images])
        order = np.argsort(distance, kind="stable")
        for c in np.flatnonzero(tags[i] == 1):
            others = images[order[1 : depth[c]]]  # without its own
            chance = ((tags[images, c] == 1).sum() - 1) / (len(images) - 1)
            above[n, c] = (tags[others, c] == 1).mean() - chance
            near = order[: max(depth)]
            negative = near[tags[images[near], c] == -1]
            far[n, c] = distance[negative[0] if len(negative) else near[-1]]
    return above, far


@pytest.mark.parametrize("drawn", [EVERYTHING, SOME], ids=["all", "some"])
@pytest.mark.parametrize("k", [0.5, 1.0])
def test_degrees_are_counted_by_the_book(known, drawn, k):
    compared, degrees = degrees_of(known, CoverConfig(dimensions=D, k=k), drawn)
    assert len(compared.X) == len(degrees.above) == drawn.sum() * N_WINDOWS
    above, far = slow_degrees(known, k, drawn)
    np.testing.assert_allclose(degrees.above, above, atol=1e-6)
    np.testing.assert_allclose(degrees.far, far, atol=1e-5)


@pytest.mark.parametrize("initializer", ["cover", "negative_mining"])
def test_of_many_images_a_sample_is_covered_exactly(known, initializer):
    """The covers of images that were drawn are those of a set of these alone, in rows of all."""
    settings = CoverConfig(dimensions=D, initializer=initializer)
    windows, rows = known.described.windows, known.described.windows.rows_of(SOME)
    n = int(SOME.sum())
    alone = Windows(windows.xyxy[rows], np.arange(n + 1) * N_WINDOWS, np.full((n, 2), 100))
    compared = compare((Described(alone, known.described.X[rows]), np.ones(n, bool)), D)
    tags = known.tags[SOME]
    degrees = count_neighbors(np.arange(n), compared, tags, settings.k)
    expected = find_covers(alone, compared, tags, degrees, settings)
    for c, (cover, same) in enumerate(zip(covers_of(known, settings, SOME), expected, strict=True)):
        np.testing.assert_array_equal(cover.covered, rows[same.covered])
        np.testing.assert_array_equal(cover.selected, rows[same.selected])
        np.testing.assert_array_equal(cover.image, windows.image_of(cover.covered))
        np.testing.assert_array_equal(cover.gains, same.gains)
        assert (cover.F_S, cover.F_V, cover.message) == (same.F_S, same.F_V, same.message)
        assert (known.tags[cover.image, c] == 1).all()
        assert len(cover.covered) > 1


def test_one_image_with_windows_is_its_own_neighbor(known):
    settings = CoverConfig(dimensions=D)
    for cover in covers_of(known, settings, np.arange(N_IMAGES) == 8):
        assert set(cover.image.tolist()) == {8}


def test_degrees_go_on_where_they_were_stopped(known, tmp_path, monkeypatch):
    """Images that were counted before a stop are not counted again, and the bytes are those of one go."""
    monkeypatch.setattr(stages, "SHARD", 5)
    compared, whole = degrees_of(known, CoverConfig(dimensions=D))
    counted, stopped = [], []

    @stages.stage("degrees", version=1)
    def counting(images: np.ndarray, *given) -> Degrees:
        if len(counted) == 15 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        counted.extend(images.tolist())
        return count_neighbors(images, *given)

    inputs = np.arange(N_IMAGES), compared, known.tags, 0.5
    with pytest.raises(KeyboardInterrupt):
        Run(Store(tmp_path)).per_photo(counting, *inputs)
    degrees = Run(Store(tmp_path)).per_photo(counting, *inputs)
    assert counted == list(range(N_IMAGES))
    assert degrees.above.tobytes() == whole.above.tobytes()
    assert degrees.far.tobytes() == whole.far.tobytes()


def test_without_a_positive_image_there_is_nothing_to_count(known):
    compared, _ = degrees_of(known, CoverConfig(dimensions=D))
    none = count_neighbors(np.arange(N_IMAGES), compared, -np.abs(known.tags), 0.5)
    assert not none.above.any()
    assert not none.far.any()
    assert none.above.shape == (len(compared.X), known.tags.shape[1])


def test_a_sample_has_as_many_positives_of_each_class():
    rng = np.random.default_rng(0)
    tags = np.where(rng.random((1000, 3)) < [0.02, 0.1, 0.9], 1, -1).astype(np.int8)
    drawn = draw_images(tags, 120)
    assert drawn.sum() == 120
    np.testing.assert_array_equal(drawn, draw_images(tags, 120))
    positives = (tags[drawn] == 1).sum(axis=0)
    assert (positives >= np.minimum((tags == 1).sum(axis=0), 20)).all()
    assert draw_images(tags, 1000).all()


def test_only_the_first_dimensions_are_compared(known):
    """Each row as long as it was: by all dimensions, or the first as they are, other windows are nearest."""
    windows, X = known.described.windows, known.described.X
    X = np.hstack([X, 3 * np.random.default_rng(5).normal(size=(len(X), 3))])
    scaled = X[:, :D] * (np.linalg.norm(X, axis=1) / np.linalg.norm(X[:, :D], axis=1))[:, None]

    def above(X, dimensions):
        compared = compare((Described(windows, X.astype(np.float32)), EVERYTHING), dimensions)
        return count_neighbors(np.arange(N_IMAGES), compared, known.tags, 0.5).above

    first = above(X, D)
    np.testing.assert_allclose(first, above(scaled, D))
    for other in (above(X, D + 3), above(X[:, :D], D)):
        assert (first != other).mean() > 0.05


def test_seeds_are_found_by_fewer_dimensions_and_compared_by_all(known):
    photos = known.described, EVERYTHING
    both, few, all_ = compare(photos, D, 2), compare(photos, 2), compare(photos, D)
    np.testing.assert_array_equal(both.X, all_.X)
    np.testing.assert_array_equal(both.for_seeds, few.X)
    assert all_.short is None
    assert compare(photos, 2, D).short is None  # no more than there are
    parts = [
        compare((known.described.part(a, a + 9), EVERYTHING[a : a + 9]), D, 2) for a in range(0, N_IMAGES, 9)
    ]
    rows = [part.to_rows() for part in parts]
    joined = Compared.of_rows({name: np.concatenate([each[name] for each in rows]) for name in rows[0]})
    np.testing.assert_array_equal(joined.for_seeds, few.X)
    np.testing.assert_array_equal(joined.offsets, both.offsets)
    images = np.arange(N_IMAGES)
    by_few, by_all = (count_neighbors(images, each, known.tags, 0.5).above for each in (few, all_))
    np.testing.assert_array_equal(count_neighbors(images, both, known.tags, 0.5).above, by_few)
    assert (by_few != by_all).any()


def test_the_cover_is_that_of_the_whole_table(known):
    described = known.described
    covers = covers_of(known, CoverConfig(dimensions=D, seeds=1.0, method="marginal"))
    for c, cover in enumerate(covers):
        positive = np.flatnonzero(known.tags[:, c] == 1)
        k = len(positive) // 2
        table = group_neighbors(described.X, described.offsets, np.arange(len(described.X)), k)
        expected = greedy_cover(cover_graph(table, positive, k))
        np.testing.assert_array_equal(cover.covered, expected.covered)
        np.testing.assert_array_equal(cover.gains, expected.gains)


def test_negative_mining_is_that_of_the_whole_table(known):
    described, tags = known.described, known.tags
    covers = covers_of(known, CoverConfig(initializer="negative_mining", dimensions=D, k=1.0))
    depth = int(max((tags == 1).sum(axis=0)))
    table = group_neighbors(described.X, described.offsets, np.arange(len(described.X)), depth)
    for c, cover in enumerate(covers):
        expected = negative_mining(table, tags[:, c] == 1)
        np.testing.assert_array_equal(np.sort(cover.covered), np.sort(expected.covered))


def test_unknown_tags_mean_what_the_setting_says():
    tags = np.array([[1, 0], [-1, 1]], np.int8)
    assert known_tags(tags, "positive").tolist() == [[1, 1], [-1, 1]]
    assert known_tags(tags, "negative").tolist() == [[1, -1], [-1, 1]]
    assert known_tags(tags, "ignore").tolist() == tags.tolist()
