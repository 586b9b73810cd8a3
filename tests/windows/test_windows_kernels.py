"""The kernels of selective search against slow and obvious twins."""

import colorsys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage
from skimage import color
from skimage import data as photos

from tag2box.windows.color import SPACES, blur, convert
from tag2box.windows.edges import STEPS, sort_edges
from tag2box.windows.grouping import group, similarity
from tag2box.windows.regions import (
    N_BINS,
    N_COLOR,
    TEXTURE_BINS,
    TEXTURE_EDGES,
    UNIT,
    common_parts,
    describe_regions,
    neighbors,
    sides,
    unite,
)
from tag2box.windows.segmentation import pieces, segment

ALL = (True, True, True, True)


def noise(h, w, seed, levels=256):
    """Random pixels; few `levels` make many equal weights."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, levels, (h, w, 3)) * (255 // (levels - 1))).astype(np.float32)


def planes(image):
    return np.ascontiguousarray(image.transpose(2, 0, 1))


def segmented_at(image, scales, min_pixels):
    """(labels, their number) at each of several scales, which share their pieces."""
    h, w, _ = image.shape
    piece, parts = pieces(*sort_edges(planes(image)), h, w, min(scales), max(scales))
    found = (segment(parts, k, min_pixels) for k in scales)
    return [(region[piece], n) for region, n in found]


def segmented(image, k=100.0, min_pixels=5):
    return segmented_at(image, [k], min_pixels)[0]


def described(labels, n, image):
    """Of each region as if it were one part."""
    return unite(*describe_regions(planes(image), labels, n), np.arange(n, dtype=np.int32), n)


def touching(labels, n):
    return neighbors(sides(labels), np.arange(n, dtype=np.int32), n)


# Color


def test_blur_is_scipys_gaussian():
    image = noise(20, 30, 0).astype(np.uint8)
    expected = ndimage.gaussian_filter(image.astype(float), (0.8, 0.8, 0), mode="nearest", radius=(3, 3, 0))
    np.testing.assert_allclose(blur(image, 0.8), expected, atol=1e-3)


def test_hsv_is_the_standard_librarys():
    image = noise(12, 12, 1, levels=6)
    for pixel, hsv in zip(image.reshape(-1, 3), convert(image, "hsv").reshape(3, -1).T, strict=True):
        np.testing.assert_allclose(hsv / 255, colorsys.rgb_to_hsv(*pixel / 255), atol=1e-5)


def test_lab_is_scikit_images():
    image = noise(40, 40, 2)
    expected = color.rgb2lab(image / 255.0) * (2.55, 1, 1) + (0, 128, 128)
    np.testing.assert_allclose(convert(image, "lab"), planes(expected), atol=1.0)


def test_rgi_forgets_brightness():
    image = noise(9, 9, 3) + 1
    np.testing.assert_allclose(convert(image / 2, "rgi")[:2], convert(image, "rgi")[:2], rtol=1e-4)


@pytest.mark.parametrize("space", SPACES)
def test_every_space_stays_on_the_scale_of_its_bins(space):
    corners = np.array(list(product((0, 1, 127, 255), repeat=3)), np.float32).reshape(8, 8, 3)
    out = convert(corners, space)
    assert out.min() >= 0
    assert out.max() <= 255.001


# Segmentation


def slow_segment(image, k, min_pixels):
    """Felzenszwalb and Huttenlocher with sets and lists."""
    h, w, _ = image.shape
    edges = []
    for y, x in np.ndindex(h, w):
        for qy, qx in ((y, x + 1), (y + 1, x - 1), (y + 1, x), (y + 1, x + 1)):
            if qy < h and 0 <= qx < w:
                distance = np.sqrt(((image[y, x] - image[qy, qx]) ** 2).sum(dtype=np.float32))
                edges.append((np.floor(distance * STEPS) / STEPS, len(edges), (y, x), (qy, qx)))
    component = {(y, x): {(y, x)} for y, x in np.ndindex(h, w)}
    heaviest = dict.fromkeys(np.ndindex(h, w), 0.0)  # by any pixel of the component

    def join(a, b, weight):
        merged = component[a] | component[b]
        for p in merged:
            component[p], heaviest[p] = merged, weight

    for weight, _, a, b in sorted(edges):
        if component[a] is not component[b] and all(
            weight <= np.float32(heaviest[p]) + np.float32(k) / np.float32(len(component[p])) for p in (a, b)
        ):
            join(a, b, weight)
    for weight, _, a, b in sorted(edges):
        if component[a] is not component[b] and min(len(component[a]), len(component[b])) < min_pixels:
            join(a, b, weight)
    names = {}
    return np.array([[names.setdefault(id(component[y, x]), len(names)) for x in range(w)] for y in range(h)])


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 1000),
    st.sampled_from([2, 4, 256]),
    st.lists(st.sampled_from([0.0, 30.0, 75.0, 300.0, 2000.0]), min_size=1, max_size=3),
    st.integers(1, 8),
)
def test_segment_is_the_slow_one_at_every_scale(h, w, seed, levels, scales, min_pixels):
    image = noise(h, w, seed, levels)
    for k, (labels, n) in zip(scales, segmented_at(image, scales, min_pixels), strict=True):
        expected = slow_segment(image, k, min_pixels)
        np.testing.assert_array_equal(labels, expected)
        assert n == expected.max() + 1


def test_scales_of_a_photo_that_share_pieces_are_those_that_do_not():
    """Larger than the slow one can do: many components are finished in many ways."""
    image = blur(photos.chelsea()[50:200, 100:300], 0.8)
    scales = [20.0, 75.0, 300.0]
    for k, (labels, n) in zip(scales, segmented_at(image, scales, 30), strict=True):
        alone, n_alone = segmented(image, k, 30)
        np.testing.assert_array_equal(labels, alone)
        assert n == n_alone > 10


def test_a_region_may_hang_together_by_corners():
    image = np.zeros((4, 4, 3), np.float32)
    image[:2, :2] = image[2:, 2:] = 200
    labels, n = segmented(image, 10.0, 1)
    assert n == 2
    assert (labels == (image[..., 0] == 0)).all()


def test_two_flat_halves_are_two_regions():
    image = np.zeros((20, 20, 3), np.float32)
    image[:, 12:] = 200
    labels, n = segmented(image)
    assert n == 2
    assert (labels == (np.arange(20) >= 12)).all()


@given(st.integers(0, 1000), st.integers(2, 30))
def test_no_region_is_smaller_than_asked_and_each_is_connected(seed, min_pixels):
    labels, n = segmented(noise(15, 20, seed), 50.0, min_pixels)
    for r in range(n):
        assert (labels == r).sum() >= min_pixels
        assert ndimage.label(labels == r, np.ones((3, 3)))[1] == 1


# Regions


def slow_histogram(image, inside):
    """Both histograms of the pixels `inside`, by loops over what the paper says."""
    out = np.zeros(N_BINS)
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge")
    for y, x in np.argwhere(inside):
        for c in range(3):
            out[25 * c + int(image[y, x, c] * 25 / 256)] += 1 / 3
            dx = (padded[y + 1, x + 2, c] - padded[y + 1, x, c]) / 2
            dy = (padded[y + 2, x + 1, c] - padded[y, x + 1, c]) / 2
            for axis, response in enumerate((dx, dy, (dx + dy) / np.sqrt(2), (dx - dy) / np.sqrt(2))):
                # Derivatives are cut towards zero to half gray levels before they are binned.
                at = np.searchsorted(TEXTURE_EDGES, np.trunc(2 * response) / 2)
                out[N_COLOR + (4 * c + axis) * TEXTURE_BINS + at] += 1 / 12
    return out / inside.sum()


def test_histograms_are_the_slow_ones():
    image = blur(noise(16, 22, 5).astype(np.uint8), 0.8)
    labels, n = segmented(image, 40.0, 10)
    assert n > 3
    size, box, histogram = described(labels, n, image)
    for r in range(n):
        inside = labels == r
        ys, xs = np.nonzero(inside)
        assert size[r] == inside.sum()
        assert box[r].tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
        np.testing.assert_allclose(histogram[r] / UNIT, slow_histogram(image, inside), atol=3e-6)


@given(st.integers(0, 1000), st.integers(1, 4))
def test_common_parts_are_the_cells_of_all_segmentations_together(seed, n_scales):
    rng = np.random.default_rng(seed)
    of_scale = np.stack([numbered(rng.integers(0, 5, 40)) for _ in range(n_scales)])
    part, region = common_parts(of_scale, of_scale.max(axis=1) + 1)
    np.testing.assert_array_equal(region[:, part], of_scale)
    assert len(np.unique(region, axis=1).T) == region.shape[1] == part.max() + 1


def numbered(labels):
    """By first appearance."""
    return np.array(
        [{v: i for i, v in enumerate(dict.fromkeys(labels.tolist()))}[v] for v in labels.tolist()], np.int32
    )


def test_regions_of_parts_are_described_as_if_they_were_whole():
    image = blur(noise(16, 22, 5).astype(np.uint8), 0.8)
    (fine, n_fine), (coarse, n) = segmented_at(image, [20.0, 60.0], 8)
    part, region = common_parts(np.stack([fine.ravel(), coarse.ravel()]), np.array([n_fine, n]))
    part = part.reshape(fine.shape)
    assert region.shape[1] > n > 2
    found = unite(*describe_regions(planes(image), part, region.shape[1]), region[1], n)
    for ours, expected in zip(found, described(coarse, n, image), strict=True):
        np.testing.assert_array_equal(ours[:n], expected[:n])
    np.testing.assert_array_equal(neighbors(sides(part), region[1], n), touching(coarse, n))


def test_histograms_add_up_to_one():
    image = noise(30, 30, 6)
    labels, n = segmented(image, 40.0, 10)
    _, _, histogram = described(labels, n, image)
    np.testing.assert_allclose(histogram[:n, :N_COLOR].sum(axis=1) / UNIT, 1, atol=1e-3)
    np.testing.assert_allclose(histogram[:n, N_COLOR:].sum(axis=1) / UNIT, 1, atol=1e-3)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_neighbors_are_the_slow_ones(h, w, seed):
    labels, n = segmented(noise(h, w, seed), 60.0, 2)
    expected = set()
    for y, x in np.ndindex(h, w):
        for qy, qx in ((y, x + 1), (y + 1, x)):
            if qy < h and qx < w and labels[y, x] != labels[qy, qx]:
                expected.add(tuple(sorted((int(labels[y, x]), int(labels[qy, qx])))))
    assert touching(labels, n).tolist() == sorted(map(list, expected))


def test_regions_that_cross_by_corners_may_all_touch():
    """More pairs than a planar map of 8 regions has."""
    labels = np.random.default_rng(0).integers(0, 8, (30, 30)).astype(np.int32)
    assert len(touching(labels, 8)) == 28


# Grouping


def slow_group(size, box, histogram, pairs, terms):
    """Algorithm 1 as the paper writes it; yields the pair merged, its similarity and the greatest of all."""
    n = (len(size) + 1) // 2
    whole = size[:n].sum()

    def s(a, b):
        both = size[a] + size[b]
        width, height = (max(box[a, j + 2], box[b, j + 2]) - min(box[a, j], box[b, j]) for j in (0, 1))
        color = np.minimum(histogram[a, :N_COLOR], histogram[b, :N_COLOR]).sum() / UNIT
        texture = np.minimum(histogram[a, N_COLOR:], histogram[b, N_COLOR:]).sum() / UNIT
        return sum(
            np.array([color, texture, 1 - both / whole, 1 - (width * height - both) / whole])[list(terms)]
        )

    alive = {tuple(map(int, pair)): s(*pair) for pair in pairs}
    for t in range(n, 2 * n - 1):
        a, b = min(alive, key=lambda pair: (-alive[pair], pair))
        yield (a, b), alive[a, b], max(alive.values())
        size[t] = size[a] + size[b]
        box[t] = [*np.minimum(box[a, :2], box[b, :2]), *np.maximum(box[a, 2:], box[b, 2:])]
        histogram[t] = (size[a] * histogram[a] + size[b] * histogram[b]) / size[t]
        near = {v for pair in alive if {a, b} & set(pair) for v in pair} - {a, b}
        alive = {pair: value for pair, value in alive.items() if not {a, b} & set(pair)}
        alive |= {(v, t): s(v, t) for v in near}


def regions(seed, h=24, w=32):
    image = blur(noise(h, w, seed).astype(np.uint8), 0.8)
    labels, n = segmented(image, 30.0, 8)
    assert n > 10
    return (*described(labels, n, image), touching(labels, n))


@pytest.mark.parametrize("terms", [ALL, *(tuple(row) for row in np.eye(4, dtype=bool).tolist())])
def test_one_similarity_is_the_slow_one(terms):
    size, box, histogram, pairs = regions(0)
    n = (len(size) + 1) // 2
    slow = slow_group(size.astype(float), box.astype(float), histogram.astype(float), pairs, terms)
    (a, b), expected, _ = next(slow)
    found = similarity(np.int32(a), np.int32(b), size, box, histogram, size[:n].sum(), terms)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("terms", [ALL, (False, True, True, True), (True, True, False, False)])
def test_merging_follows_the_similarity(seed, terms):
    """Each merged region is that of the most similar living pair, by the slow twin's own account."""
    size, box, histogram, pairs = regions(seed)
    slow = size.astype(float), box.astype(float), histogram.astype(float)
    for _, chosen, best in slow_group(*slow, pairs, terms):
        assert chosen == best
    group(size, box, histogram, pairs, terms)
    np.testing.assert_array_equal(size, slow[0])
    np.testing.assert_array_equal(box, slow[1])
    np.testing.assert_allclose(histogram / UNIT, slow[2] / UNIT, atol=1e-4)


def test_the_last_region_is_the_whole_image():
    size, box, histogram, pairs = regions(9)
    n = (len(size) + 1) // 2
    group(size, box, histogram, pairs, ALL)
    assert size[-1] == 24 * 32
    assert box[-1].tolist() == [0, 0, 32, 24]
    assert (size[n:] > 0).all()


def test_a_star_of_many_neighbors_fits():
    """One region that touches all others makes the neighbor lists grow as fast as they can."""
    labels = np.zeros((61, 61), np.int32)
    dots = labels[1::2, 1::2]
    dots[:] = np.arange(1, dots.size + 1).reshape(dots.shape)
    n = dots.size + 1
    image = noise(61, 61, 3)
    size, box, histogram = described(labels, n, image)
    pairs = touching(labels, n)
    assert len(pairs) == n - 1
    group(size, box, histogram, pairs, (False, False, True, False))
    assert size[-1] == 61 * 61
