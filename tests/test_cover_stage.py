"""From degrees to covers: each stage against a slow and obvious twin."""

from functools import partial

import numpy as np
import pytest
from tag2box.cover.sample import draw_images, draw_sample
from tests._planted import N_IMAGES, N_WINDOWS, D, planted

from tag2box import (
    cover_graph,
    greedy_cover,
    group_neighbors,
    negative_mining,
)
from tag2box.boxes import iou_matrix
from tag2box.cover.config import CoverConfig, known_tags
from tag2box.cover.degrees import block_count, count_blocks, count_neighbors, join_degrees
from tag2box.cover.stage import find_covers
from tag2box.description.record import Features
from tag2box.errors import InputError
from tag2box.runtime.stages import Runner
from tag2box.runtime.store import Store, stage_key
from tag2box.windows.search import Windows


@pytest.fixture(scope="module")
def data():
    return planted()


def nearest_images(features, row):
    """Distance from a window to every image, by the book."""
    distance = np.linalg.norm(features.X - features.X[row], axis=1)
    return distance.reshape(N_IMAGES, N_WINDOWS).min(axis=1)


def test_degrees_are_counted_by_the_book(data):
    _, features, tags = data
    degrees = count_neighbors(features, tags, CoverConfig(dimensions=D))
    for c in range(2):
        positive = tags[:, c] == 1
        k = positive.sum() // 2
        for row in range(0, len(features.X), 7):
            if not positive[row // N_WINDOWS]:
                assert degrees.above[row, c] == degrees.far[row, c] == 0
                continue
            distance = nearest_images(features, row)
            hits = positive[np.argsort(distance, kind="stable")[:k]].sum()
            chance = (positive.sum() - 1) / (N_IMAGES - 1)
            assert degrees.above[row, c] == pytest.approx((hits - 1) / (k - 1) - chance)


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_degrees_go_on_where_they_were_stopped(data, tmp_path, monkeypatch, stop):
    """Blocks that were counted before a stop are not counted again, and the bytes are those of one go."""
    _, features, tags = data
    config = CoverConfig(dimensions=D)
    monkeypatch.setattr("tag2box.neighbors.search.BLOCK", 32)
    whole = count_neighbors(features, tags, config)
    blocks = block_count(features, tags, config)
    assert blocks > 5
    run, counted = Runner(Store(tmp_path), workers=2), []
    run.keys["degrees"] = stage_key("degrees", 1, {})

    def count(skip, progress, stop=None):
        todo = [i for i in range(blocks) if i not in skip]
        for i, part in zip(
            todo, count_blocks(features, tags, config, skip, progress, workers=2), strict=True
        ):
            if i == stop:
                raise KeyboardInterrupt
            counted.append(i)
            yield part

    join = partial(join_degrees, features, tags, config)
    with pytest.raises(KeyboardInterrupt):
        run.in_blocks("degrees", blocks, partial(count, stop=stop), join)
    found = run.in_blocks("degrees", blocks, count, join)
    assert counted == list(range(blocks))
    assert found.above.tobytes() == whole.above.tobytes()
    assert found.far.tobytes() == whole.far.tobytes()


def test_without_a_positive_image_there_is_nothing_to_count(data):
    _, features, tags = data
    none = count_neighbors(features, -np.abs(tags), CoverConfig(dimensions=D))
    assert not none.above.any()
    assert not none.far.any()
    assert none.above.shape == (len(features.X), tags.shape[1])


def test_of_many_images_a_sample_is_covered_exactly(data):
    """The covers of a sample are those of its images alone, in rows of all."""
    windows, features, tags = data
    config = CoverConfig(dimensions=D, most_images=20, snap="contrast")
    some = draw_sample(windows, features, tags, config)
    assert len(some.tags) == 20
    found = find_covers(
        some.windows, some.features, some.tags, count_neighbors(some.features, some.tags, config), config
    )
    rows = windows.rows_of(some.images)
    alone = Windows(windows.xyxy[rows], np.arange(21) * N_WINDOWS, np.full((20, 2), 100))
    apart = Features(features.X[rows], alone.offsets), tags[some.images]
    expected = find_covers(alone, *apart, count_neighbors(*apart, config), config)
    for c, (cover, same) in enumerate(zip(found, expected, strict=True)):
        back = some.found(cover)
        np.testing.assert_array_equal(back.covered, rows[same.covered])
        np.testing.assert_array_equal(back.image, windows.image_of(back.covered))
        np.testing.assert_array_equal(back.selected, rows[same.selected])
        assert (tags[back.image, c] == 1).all()
    whole = draw_sample(windows, features, tags, CoverConfig(most_images=N_IMAGES))
    assert whole.features is features
    assert whole.found(cover) is cover


def test_a_sample_has_as_many_positives_of_each_class():
    rng = np.random.default_rng(0)
    tags = np.where(rng.random((1000, 3)) < [0.02, 0.1, 0.9], 1, -1).astype(np.int8)
    chosen = draw_images(tags, 120)
    assert len(chosen) == len(np.unique(chosen)) == 120
    np.testing.assert_array_equal(chosen, draw_images(tags, 120))
    positives = (tags[chosen] == 1).sum(axis=0)
    assert (positives >= np.minimum((tags == 1).sum(axis=0), 20)).all()


def test_only_the_first_dimensions_are_compared(data):
    """Each row as long as it was: by all dimensions, or the first as they are, other windows are nearest."""
    _, features, tags = data
    X = np.hstack([features.X, 3 * np.random.default_rng(5).normal(size=(len(features.X), 3))])
    scaled = X[:, :D] * (np.linalg.norm(X, axis=1) / np.linalg.norm(X[:, :D], axis=1))[:, None]

    def above(X, dimensions):
        some = Features(X.astype(np.float32), features.offsets)
        return count_neighbors(some, tags, CoverConfig(dimensions=dimensions)).above

    found = above(X, D)
    np.testing.assert_allclose(found, above(scaled, D))
    for other in (above(X, D + 3), above(X[:, :D], D)):
        assert (found != other).mean() > 0.05


def test_the_cover_is_that_of_the_whole_table(data):
    windows, features, tags = data
    config = CoverConfig(dimensions=D, seeds=1.0, snap="none", method="marginal")
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    for c, cover in enumerate(covers):
        positive = np.flatnonzero(tags[:, c] == 1)
        k = len(positive) // 2
        table = group_neighbors(features.X, features.offsets, np.arange(len(features.X)), k)
        expected = greedy_cover(cover_graph(table, positive, k))
        np.testing.assert_array_equal(cover.covered, expected.covered)
        np.testing.assert_array_equal(cover.gains, expected.gains)


def test_negative_mining_is_that_of_the_whole_table(data):
    windows, features, tags = data
    config = CoverConfig(initializer="negative_mining", dimensions=D, k=1.0)
    covers = find_covers(windows, features, tags, count_neighbors(features, tags, config), config)
    depth = max((tags == 1).sum(axis=0))
    table = group_neighbors(features.X, features.offsets, np.arange(len(features.X)), int(depth))
    for c, cover in enumerate(covers):
        expected = negative_mining(table, tags[:, c] == 1)
        np.testing.assert_array_equal(np.sort(cover.covered), np.sort(expected.covered))


def test_unknown_tags_mean_what_the_setting_says():
    tags = np.array([[1, 0], [-1, 1]], np.int8)
    assert known_tags(tags, "positive").tolist() == [[1, 1], [-1, 1]]
    assert known_tags(tags, "negative").tolist() == [[1, -1], [-1, 1]]
    assert known_tags(tags, "ignore").tolist() == tags.tolist()


def test_snapping_goes_to_the_best_objectness_that_overlaps(data):
    windows, features, tags = data
    plain = CoverConfig(dimensions=D, snap="none")
    degrees = count_neighbors(features, tags, plain)
    share = np.random.default_rng(4).random((len(features.X), 2)).astype(np.float32)
    snapped = find_covers(
        windows, features, tags, degrees, CoverConfig(dimensions=D, snap="objectness"), objectness=share
    )
    for c, cover in enumerate(find_covers(windows, features, tags, degrees, plain)):
        expected = set()
        for row in cover.covered:
            mine = row // N_WINDOWS * N_WINDOWS + np.arange(N_WINDOWS)
            near = mine[iou_matrix(windows.xyxy[[row]], windows.xyxy[mine])[0] >= 0.1]
            expected.add(int(near[share[near, c].argmax()]))
        assert set(snapped[c].covered.tolist()) == expected
    nothing = find_covers(
        windows, features, tags, degrees, CoverConfig(dimensions=D), objectness=np.zeros_like(share)
    )
    for cover, same in zip(find_covers(windows, features, tags, degrees, plain), nothing, strict=True):
        assert set(same.covered.tolist()) == set(cover.covered.tolist())  # a tie leaves a window where it is
    with pytest.raises(InputError, match="needs the objectness"):
        find_covers(windows, features, tags, degrees, CoverConfig(dimensions=D))
