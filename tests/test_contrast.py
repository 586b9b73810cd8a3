import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tag2box.cover.snapping import CELLS, above_chance, best_share, contrast, snap, vote_map

from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import Cover
from tag2box.errors import InputError
from tag2box.neighbors.search import Neighbors


def boxes_of_cells(seed, n):
    """Boxes of whole cells of a CELLS x CELLS image, the first one the whole of it; and their degrees."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, CELLS - 1, (n, 2))
    size = rng.integers(1, CELLS, (n, 2))
    xyxy = np.hstack([corner, np.minimum(corner + size, CELLS)]).astype(np.float32)
    xyxy[0] = 0, 0, CELLS, CELLS
    return xyxy, rng.uniform(-0.2, 0.6, n)


def slow_map(xyxy, vote):
    """The mean vote of the windows over each cell: one layer per window, which is NaN beside it."""
    layers = np.full((len(xyxy), CELLS, CELLS), np.nan)
    for layer, (x1, y1, x2, y2), v in zip(layers, xyxy.astype(int), vote, strict=True):
        layer[y1:y2, x1:x2] = v
    return np.nanmean(layers, axis=0)  # the first window is over every cell


def slow_contrast(xyxy, degree, power, ring):
    degree = np.maximum(degree, 0)
    votes = slow_map(xyxy, degree**power)
    out = []
    for (x1, y1, x2, y2), value in zip(xyxy.astype(int), degree, strict=True):
        left, up = np.rint(max(x1 - ring * (x2 - x1), 0)), np.rint(max(y1 - ring * (y2 - y1), 0))
        right, down = np.rint(x2 + ring * (x2 - x1)), np.rint(y2 + ring * (y2 - y1))
        inside = np.zeros(votes.shape, bool)
        inside[y1:y2, x1:x2] = True
        around = np.zeros(votes.shape, bool)
        around[int(up) : int(down), int(left) : int(right)] = True
        around &= ~inside
        surroundings = votes[around].mean() if around.any() else 0
        out.append(value * np.sqrt((x2 - x1) * (y2 - y1)) * (votes[inside].mean() - surroundings))
    return out


@given(st.integers(0, 10_000), st.sampled_from([1.0, 3.0]), st.sampled_from([0.25, 0.5]))
def test_contrast_is_the_slow_one(seed, power, ring):
    xyxy, degree = boxes_of_cells(seed, 6)
    found = contrast(xyxy, [0, 6], degree, power=power, ring=ring)
    np.testing.assert_allclose(found, slow_contrast(xyxy, degree, power, ring), atol=1e-9)
    np.testing.assert_allclose(
        vote_map(xyxy, degree, power)[0], slow_map(xyxy, np.maximum(degree, 0) ** power), atol=1e-12
    )


def test_images_do_not_see_each_other_and_scale_does_not_matter():
    a, b = boxes_of_cells(1, 8), boxes_of_cells(2, 5)
    both = contrast(np.vstack([a[0], b[0]]), [0, 8, 8, 13], np.concatenate([a[1], b[1]]))
    np.testing.assert_array_equal(both[:8], contrast(a[0], [0, 8], a[1]))
    np.testing.assert_array_equal(both[8:], contrast(b[0], [0, 5], b[1]))
    np.testing.assert_allclose(contrast(a[0] * 7, [0, 8], a[1]), 7 * both[:8], rtol=1e-5)


def test_the_object_beats_its_parts_and_its_surroundings():
    """Windows of an object and of its parts score high, those of the background low."""
    rng = np.random.default_rng(0)
    target = np.array([60, 40, 140, 120])
    jitter = target + rng.integers(-12, 12, (40, 4))
    corner = rng.integers(0, 150, (60, 2))
    background = np.hstack([corner, corner + rng.integers(20, 50, (60, 2))])
    parts = np.array([[60, 40, 100, 80], [100, 80, 140, 120], [80, 50, 120, 90]])
    whole = np.array([[0, 0, 200, 200]])
    xyxy = np.vstack([[target], jitter, background, parts, whole]).astype(np.float32)
    degree = np.concatenate([[0.5], np.full(40, 0.5), rng.uniform(-0.05, 0.05, 60), np.full(3, 0.6), [0.2]])
    score = contrast(xyxy, [0, len(xyxy)], degree)
    assert degree.argmax() in (101, 102, 103)
    best = xyxy[score.argmax()]
    assert np.abs(best - target).max() <= 12


def test_no_votes_no_contrast():
    xyxy, degree = boxes_of_cells(3, 9)
    assert (contrast(xyxy, [0, 9], -np.abs(degree)) == 0).all()
    assert contrast(np.empty((0, 4)), [0, 0, 0], []).shape == (0,)


def test_above_chance_is_zero_where_neighbors_are_random():
    rng = np.random.default_rng(4)
    n_images, n, k = 200, 3000, 41
    own = rng.integers(0, 50, n).astype(np.int32)
    others = np.argsort(rng.random((n, n_images)), axis=1).astype(np.int32)
    image = np.array([[o, *row[row != o][: k - 1]] for o, row in zip(own, others, strict=True)], np.int32)
    table = Neighbors(image, image, np.zeros(image.shape, np.float32), np.arange(n), own)
    value = above_chance(cover_graph(table, np.arange(50), k), n_images)
    assert abs(value.mean()) < 4 * value.std() / np.sqrt(n)
    assert above_chance(cover_graph(table, np.arange(50), 1), n_images).tolist() == [0] * n


def made_cover(covered, image):
    n = len(covered)
    return Cover(
        selected=np.arange(n),
        gains=np.ones(n),
        covered=np.array(covered),
        image=np.array(image, np.int32),
        by=np.arange(n),
        F_S=float(n),
        F_V=float(n),
        at_least=n,
    )


def test_snap_moves_to_the_best_window_that_overlaps():
    xyxy = [[0, 0, 4, 4], [0, 0, 8, 8], [20, 20, 28, 28], [0, 0, 8, 8], [5, 5, 30, 30]]
    score = [0, 1, 9, 2, 1]
    snapped = snap(made_cover([0, 3, 2, 1], [0, 1, 0, 0]), xyxy, [0, 3, 5], score)
    assert snapped.covered.tolist() == [1, 3, 2]
    assert snapped.image.tolist() == [0, 1, 0]
    assert snapped.by.tolist() == [0, 1, 2]
    assert snap(made_cover([0], [0]), xyxy, [0, 3, 5], score, iou=0.3).covered.tolist() == [0]


def test_the_best_share_of_each_image():
    kept = best_share([3, 1, 3, 2, 5], [0, 4, 4, 5], 0.5)
    assert np.flatnonzero(kept).tolist() == [0, 2, 4]
    with pytest.raises(InputError, match="share"):
        best_share([1], [0, 1], 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"degree": [1]}, "one degree"), ({"offsets": [0, 1]}, "one degree"), ({"ring": 0}, "above 0")],
)
def test_bad_input_is_refused(change, says):
    xyxy, degree = boxes_of_cells(5, 4)
    with pytest.raises(InputError, match=says):
        contrast(**({"xyxy": xyxy, "offsets": [0, 4], "degree": degree} | change))
