"""Selective search as its users see it: laws that hold for any image, and what it finds in real ones."""

import hashlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data as photos

import tag2box as t2b
from tag2box.boxes import iou_matrix, thin
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.windows.search import (
    MODES,
    Windows,
    WindowsConfig,
    find_windows,
    search_windows,
    selective_search,
)


def well_formed(boxes, width, height):
    assert boxes.dtype == np.float32
    assert boxes.ndim == 2
    assert len(boxes) >= 1
    assert boxes[0].tolist() == [0, 0, width, height]
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= (width, height)).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)


@settings(max_examples=30)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from([1, 2, 256]),
    st.sampled_from(list(MODES)),
    st.integers(1, 60),
    st.integers(0, 99),
)
def test_any_image_has_windows_inside_it(h, w, levels, mode, max_windows, seed):
    image = np.random.default_rng(seed).integers(0, levels, (h, w, 3)).astype(np.uint8)
    boxes = selective_search(image, mode=mode, min_size=3, max_windows=max_windows, seed=seed)
    well_formed(boxes, w, h)
    assert len(boxes) <= max_windows
    assert (boxes[1:, 2:] - boxes[1:, :2] >= 3).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (2, 2), (421, 3), (419, 421), (3000, 4000)])
def test_odd_shapes(shape):
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    for image in (noise, np.zeros_like(noise)):
        well_formed(selective_search(image), shape[1], shape[0])


def test_one_flat_color_is_one_window():
    assert selective_search(np.full((300, 400, 3), 77, np.uint8)).tolist() == [[0, 0, 400, 300]]


def test_fifty_megapixels_stay_under_a_gigabyte(tmp_path):
    """In a process of its own, which reports its peak. CMYK is the hardest: converted before it is shrunk."""
    small = Image.fromarray(photos.astronaut()).convert("CMYK")
    small.resize((8192, 6144), Image.Resampling.BILINEAR).save(tmp_path / "large.tif")
    if not Path("/proc/self/status").is_file():
        pytest.skip("the peak is read from /proc: getrusage's counts what the parent held before")
    script = (
        "import sys, tag2box; boxes = tag2box.selective_search(sys.argv[1]); "
        "status = open('/proc/self/status').read(); "
        "print(len(boxes), boxes[0, 2], status.split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "large.tif"], capture_output=True, text=True, check=True
    )
    count, width, kilobytes = map(float, done.stdout.split())
    assert count > 100
    assert width == 8192
    assert kilobytes < 1_000_000


def test_a_planted_rectangle_is_among_the_first_windows():
    rng = np.random.default_rng(0)
    stripes = 90 + 40 * np.sin(np.arange(400) / 2)[None, :, None] + rng.normal(0, 12, (300, 400, 3))
    stripes[120:210, 80:210] = np.array((60, 160, 220)) + rng.normal(0, 12, (90, 130, 3))
    planted = np.array([[80, 120, 210, 210]], np.float32)
    for seed in range(8):
        boxes = selective_search(stripes.clip(0, 255).astype(np.uint8), seed=seed)
        assert len(boxes) > 1000
        assert iou_matrix(boxes[:50], planted).max() > 0.75


def test_what_the_seed_changes_is_the_order_only():
    image = photos.chelsea()
    a, b = (selective_search(image, max_windows=10**6, seed=seed) for seed in (0, 1))
    assert a.tolist() != b.tolist()
    assert sorted(map(tuple, a.tolist())) == sorted(map(tuple, b.tolist()))


def test_fewer_windows_are_the_first_of_more():
    image = photos.coffee()
    every = selective_search(image, max_windows=10**6)
    np.testing.assert_array_equal(selective_search(image, max_windows=123), every[:123])


def test_richer_modes_find_more():
    counts = [len(selective_search(photos.astronaut(), mode, max_windows=10**6)) for mode in MODES]
    assert counts == sorted(counts)
    assert counts[0] > 50


def test_windows_follow_the_size_of_the_image():
    """An image blown up four times is shrunk to nearly the same pixels, so its windows grow four times."""
    small = np.asarray(Image.fromarray(photos.coffee()).resize((500, 333)))
    large = small.repeat(4, axis=0).repeat(4, axis=1)
    found, expected = selective_search(large, min_size=40), selective_search(small)
    best = iou_matrix(expected[:100] * 4, found).max(axis=1)
    assert np.mean(best) > 0.75


def test_file_array_and_picture_agree(tmp_path):
    image = photos.chelsea()
    Image.fromarray(image).save(tmp_path / "cat.png")
    expected = selective_search(image).tobytes()
    assert selective_search(tmp_path / "cat.png").tobytes() == expected
    assert selective_search(str(tmp_path / "cat.png")).tobytes() == expected
    assert selective_search(Image.fromarray(image)).tobytes() == expected


def digest_elsewhere(hash_seed):
    script = (
        "import hashlib, tag2box; from skimage.data import chelsea; "
        "print(hashlib.sha256(tag2box.selective_search(chelsea()).tobytes()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def test_equal_bytes_at_every_call_and_in_every_process():
    here = [hashlib.sha256(selective_search(photos.chelsea()).tobytes()).hexdigest() for _ in range(2)]
    assert {*here, digest_elsewhere("1"), digest_elsewhere("2")} == {here[0]}


@pytest.fixture
def images(tmp_path):
    paths = []
    for name in ("chelsea", "coffee", "astronaut", "rocket"):
        paths.append(tmp_path / f"{name}.png")
        Image.fromarray(getattr(photos, name)()).save(paths[-1])
    return ImageSet(tuple(p.stem for p in paths), tuple(paths), np.ones((4, 1), np.int8), ("thing",))


def test_windows_of_a_set_do_not_depend_on_workers_or_company(images):
    seen = []
    one = find_windows(images, progress=lambda label, done, total: seen.append((label, done, total)))
    two = find_windows(images, workers=2)
    assert one.xyxy.tobytes() == two.xyxy.tobytes()
    np.testing.assert_array_equal(one.offsets, two.offsets)
    assert seen == [("windows", done, 4) for done in range(5)]
    alone = ImageSet(images.ids[2:3], images.paths[2:3], images.tags[2:3], images.classes)
    np.testing.assert_array_equal(find_windows(alone)[0], one[2])


@pytest.mark.parametrize("mode", MODES)
def test_windows_of_a_photo_do_not_depend_on_threads(mode):
    config = WindowsConfig(mode=mode)
    small = photos.coffee()[::2, ::2]
    one, *more = (search_windows(small, config, threads) for threads in (1, 2, 9))
    assert len(one.xyxy) > 20
    for each in more:
        assert each.xyxy.tobytes() == one.xyxy.tobytes()


def test_settings_of_a_set_reach_the_search(images):
    config = WindowsConfig(mode="single", min_size=30, max_windows=40, thin_iou=0.5, seed=3)
    windows = find_windows(images, config)
    assert len(windows) == 4
    for i, path in enumerate(images.paths):
        every = selective_search(path, "single", 30, seed=3)
        np.testing.assert_array_equal(windows[i], every[thin(every, 0.5)][:40])
    np.testing.assert_array_equal(windows[-1], windows[3])


def test_no_images_no_windows():
    empty = ImageSet((), (), np.empty((0, 1), np.int8), ("thing",))
    assert find_windows(empty).xyxy.shape == (0, 4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "slow"}, "single, fast, quality"),
        ({"max_windows": 0}, "at least 1"),
        ({"min_size": -1}, "min_size"),
    ],
)
def test_bad_settings_are_refused(options, says):
    with pytest.raises(InputError, match=says):
        selective_search(np.zeros((5, 5), np.uint8), **options)


def test_offsets_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="offsets"):
        Windows(np.zeros((3, 4), np.float32), np.array([0, 2]), np.ones((1, 2), np.int64))
    with pytest.raises(InputError, match="sizes"):
        Windows(np.zeros((3, 4), np.float32), np.array([0, 3]), np.ones((2, 2), np.int64))


def random_windows(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, 7)  # some images have no windows
    xyxy = rng.uniform(0, 9, (counts.sum(), 4)).astype(np.float32)
    return Windows(xyxy, np.append(0, np.cumsum(counts)), rng.integers(1, 99, (7, 2)))


@given(st.integers(0, 1000), st.lists(st.integers(0, 6)))
def test_rows_and_images_by_counting(seed, images):
    windows = random_windows(seed)
    owner = [i for i in range(7) for _ in range(len(windows[i]))]
    assert windows.image_of(np.arange(len(owner))).tolist() == owner
    assert windows.rows_of(images).tolist() == [r for i in images for r in range(len(owner)) if owner[r] == i]
    mask = np.isin(np.arange(7), images)
    assert windows.rows_of(mask).tolist() == [r for r in range(len(owner)) if mask[owner[r]]]
    assert [windows.xyxy[a:z].tolist() for a, z in windows.spans()] == [windows[i].tolist() for i in range(7)]
    assert windows.counts.tolist() == [owner.count(i) for i in range(7)]
    score = np.random.default_rng(seed).integers(0, 2, len(owner))  # often equal: the first counts
    best = [
        max((r for r in range(len(owner)) if owner[r] == i), key=lambda r: score[r], default=None)
        for i in np.flatnonzero(mask)
    ]
    assert windows.best_of(mask, score).tolist() == [r for r in best if r is not None]


@given(st.integers(0, 1000), st.integers(0, 7))
def test_parts_together_are_the_whole(seed, cut):
    windows = random_windows(seed)
    again = Windows.concatenate([windows.part(0, cut), windows.part(cut, 7)])
    for name in ("xyxy", "offsets", "sizes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(windows, name))


def test_sizes_are_those_of_the_photos(tmp_path):
    sizes = [(40, 20), (700, 900)]  # the second is shrunk for the search
    paths = tuple(tmp_path / f"{i}.png" for i in range(2))
    for path, size in zip(paths, sizes, strict=True):
        Image.new("RGB", size, "gray").save(path)
    images = ImageSet(("a", "b"), paths, np.ones((2, 1), np.int8), ("thing",))
    assert find_windows(images, WindowsConfig(mode="single")).sizes.tolist() == [list(size) for size in sizes]


def test_compilation_is_announced_once_and_cached(tmp_path):
    """Two processes share a fresh cache: only the first one compiles, and says so once."""
    script = (
        "import logging; logging.basicConfig(format='%(name)s %(message)s'); "
        "import numpy; from tag2box.boxes import thin; "
        "thin([[0, 0, 1, 1]], 0.5); thin(numpy.ones((1, 4)) * (0, 0, 1, 1), 0.5)"
    )
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        said.append(done.stderr.count("tag2box compiling"))
    assert said == [1, 0]
    assert logging.getLogger("tag2box").handlers == []


@pytest.mark.data
def test_objects_of_voc_are_found(voc_folder):
    """The least recall, on a few photos: 0.95 with 2000 windows, 0.90 with 500 after thinning."""
    images = t2b.read_images(voc_folder, split="trainval")
    easy = ~images.truth.difficult
    many, few = [], []
    for i in np.unique(images.truth.image[easy])[::16]:
        truth = images.truth.xyxy[easy & (images.truth.image == i)]
        boxes = selective_search(images.paths[i])
        assert len(boxes) <= 2000
        many.extend(iou_matrix(boxes, truth).max(axis=0))
        few.extend(iou_matrix(boxes[thin(boxes, 0.8)][:500], truth).max(axis=0))
    assert np.mean(np.array(many) >= 0.5) >= 0.95
    assert np.mean(np.array(few) >= 0.5) >= 0.90
