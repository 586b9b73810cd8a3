import numpy as np
import pytest

import tag2box as t2b
from tag2box.description.describe import lightness
from tag2box.description.record import Described, Maps
from tag2box.training.calibration import Calibration
from tag2box.training.extents import FEW, LEAST, STEP, choose_growth, fit_extents, grow, measure_drops
from tag2box.training.findings import Findings

# An edge is seen within some pixels of where it is, and a drop on its far side.
BLUR = 0.05


def photo(rng, side=100, textured=True):
    """A square on a ground, and its box; both have a texture of their own."""
    size = np.array([240, 180])
    x, y = rng.integers(30, size - side - 30)
    rgb = np.full((180, 240, 3), 200, np.int64)
    rgb[y : y + side, x : x + side] = 60
    rgb += rng.integers(-20, 20, rgb.shape) * textured
    return rgb.clip(0, 255).astype(np.uint8), np.array([x, y, x + side, y + side], np.float32)


def shrunk(box, share, rng):
    """A box that lacks this share of its own width on each side, but for some noise."""
    side = (box[2] - box[0]) / (1 + 2 * share)
    center = (box[:2] + box[2:]) / 2 + rng.normal(0, 1, 2)
    return np.concatenate([center - side / 2, center + side / 2]).astype(np.float32)


@pytest.mark.parametrize("share", [-0.08, 0, 0.06, 0.12, 0.18])
def test_the_growth_of_a_class_is_what_its_boxes_lack(share):
    rng = np.random.default_rng(0)
    drops = []
    for _ in range(20):
        rgb, box = photo(rng)
        drops.append(measure_drops(lightness(rgb), shrunk(box, share, rng)[None])[0])
    assert -STEP <= choose_growth(np.array(drops)) - share <= BLUR


def test_boxes_stay_where_nothing_surely_tells_their_extent():
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 255, (180, 240, 3)).astype(np.uint8) for _ in range(20)]
    drops = np.concatenate([measure_drops(lightness(rgb), np.array([[60.0, 40, 160, 120]])) for rgb in noise])
    assert choose_growth(drops) == 0
    lacking = [photo(rng) for _ in range(20)]
    drops = np.array([measure_drops(lightness(rgb), shrunk(box, 0.1, rng)[None])[0] for rgb, box in lacking])
    assert choose_growth(drops) > 0
    assert choose_growth(drops[: FEW - 1]) == 0
    assert choose_growth(np.full_like(drops, np.nan)) == 0


def test_lightness_goes_from_black_to_white():
    gray = np.repeat(np.arange(0, 256, 15, dtype=np.uint8)[:, None, None], 30, axis=0) * np.ones(
        (1, 9, 3), np.uint8
    )
    light = lightness(gray)[15::30, 4].astype(int)
    assert light[0] == 0
    assert light[-1] == 255
    assert (np.diff(light) > 5).all()


def test_boxes_that_are_too_small_or_at_the_border_are_no_trouble():
    rgb, _ = photo(np.random.default_rng(0))
    boxes = np.array([[0, 0, 240, 180], [-1, -1, 3, 3], [50, 50, 50 + LEAST - 1, 150], [239, 100, 300, 180]])
    drops = measure_drops(lightness(rgb), boxes)
    assert np.isfinite(drops[0]).all()
    assert np.isnan(drops[1:3]).all()
    flat = measure_drops(np.zeros((50, 60), np.uint8), np.array([[5.0, 5, 50, 40]]))
    assert np.isfinite(flat).all()


def test_grown_boxes_keep_their_center_and_stay_in_the_photo():
    boxes = np.array([[10, 20, 30, 60], [0, 0, 100, 80]], np.float32)
    grown = grow(boxes, np.array([0.1, 0.1]), np.array([[100, 80], [100, 80]]))
    assert grown.tolist() == [[8, 16, 32, 64], [0, 0, 100, 80]]
    assert (grow(boxes, np.zeros(2), np.array([100, 80])) == boxes).all()


def test_the_boxes_of_a_run_grow_class_by_class():
    rng = np.random.default_rng(0)
    n, lights, boxes = 24, [], []
    for i in range(n):
        rgb, box = photo(rng)
        lights.append(Maps.of_image(lightness(rgb)[..., None]))
        boxes.append(shrunk(box, 0.1, rng) if i % 2 else box)
    windows = t2b.Windows(np.array(boxes), np.arange(n + 1), np.tile([240, 180], (n, 1)))
    of_class = np.arange(1, n, 2), np.arange(0, n, 2)
    plain = tuple(np.zeros(n // 2) for _ in of_class)
    own = tuple(windows.xyxy[rows] for rows in of_class)
    findings = Findings(of_class, plain, own, plain, plain, Calibration(np.tile([1.0, 0], (2, 1))))
    described = Described(windows, np.zeros((n, 1), np.float32), light=Maps.concatenate(lights))
    found = fit_extents(findings, described)
    assert found.growth == pytest.approx([0.1, 0], abs=BLUR)
    assert found.growth[0] > 0.09
    for c, (before, after) in enumerate(zip(own, found.boxes, strict=True)):
        assert after == pytest.approx(grow(before, np.full(n // 2, found.growth[c]), np.array([240, 180])))
