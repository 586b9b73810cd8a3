"""Details: small things are found by fine cells, and only where these agree better than object maps."""

from dataclasses import replace

import numpy as np
import pytest
from tests._describing import described_by

from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.record import Described, EarlyMaps, Maps
from tag2box.training.agreement import _beyond_chance, _chance, agreement
from tag2box.training.details import choose_details, fit_details
from tag2box.training.known import Known
from tag2box.training.object_maps import standing_out
from tag2box.training.prior import MOST, choose_prior
from tag2box.training.two_stream import TwoStreamConfig
from tag2box.windows.record import Windows

N, CELLS, SIDE, D = 48, 16, 160, 8


def grid_windows():
    """Small boxes of 20 pixels side by side, and large ones of 100."""
    at = np.arange(0, SIDE, 20, dtype=np.float32)
    small = np.array([[x, y, x + 20, y + 20] for y in at for x in at], np.float32)
    large = np.array([[x, y, x + 100, y + 100] for y in (0, 30, 60) for x in (0, 30, 60)], np.float32)
    return np.concatenate([small, large])


def sample(*, small: bool, seed: int = 0):
    """Photos half of which show a thing: a speck that only fine cells see, or a large one that the map sees.

    In the photos with the large one a speck lies in a corner of it, too: a part that tells the class.
    """
    rng = np.random.default_rng(seed)
    tags = np.where(np.arange(N) % 2, 1, -1).astype(np.int8)[:, None]
    boxes = grid_windows()
    early = rng.normal(0, 1, (N, CELLS, CELLS, 6)).astype(np.float32)
    maps = rng.normal(0, 0.1, (N, 8, 8, 4)).astype(np.float32)
    X = rng.normal(0, 1, (N, len(boxes), D)).astype(np.float32)
    X[:, 64:, 7] += 8  # large windows look otherwise
    for i in range(N):
        if small:
            # What stands out in every photo lies anywhere, and looks like nothing.
            x, y = rng.integers(0, 5, 2)
            maps[i, y : y + 4, x : x + 4] += 1.0
        if tags[i, 0] == 1:
            box = int(rng.integers(0, 64)) if small else 64 + int(rng.integers(0, 9))
            x0, y0, x1, y1 = (boxes[box] / 10).astype(int)
            early[i, y0 : y0 + 2, x0 : x0 + 2, 0] += 6
            X[i, box, 0] += 12
            if not small:
                maps[i, y0 // 2 : y1 // 2, x0 // 2 : x1 // 2, :2] += 2.0
    windows = Windows(
        np.tile(boxes, (N, 1)), np.arange(N + 1, dtype=np.int64) * len(boxes), np.full((N, 2), SIDE)
    )
    coarse = Maps(maps.reshape(-1, 4), np.arange(N + 1) * 64, np.full((N, 2), 8))
    each = [EarlyMaps.of_image(early[i]) for i in range(N)]
    names = ("X", "shape", "low", "step")
    X8, shape, low, step = (np.concatenate([getattr(one, name) for one in each]) for name in names)
    fine = EarlyMaps(X8, np.arange(N + 1) * CELLS**2, shape, low, step)
    return Described(windows, X.reshape(-1, D), coarse, (fine,)), tags


@pytest.fixture(scope="module")
def description():
    plain = described_by(FeaturesConfig(precision="f32"), MapsConfig(context=0, fine_side=0))
    axes = np.eye(D, dtype=np.float32)
    projection = replace(plain.projection, mean=np.zeros(D, np.float32), A=axes)
    return replace(plain, projection=projection)


def test_specks_are_found_by_details_and_large_things_by_maps(description):
    specks, things = (choose_details(*sample(small=small), description) for small in (True, False))
    assert specks.details is not None
    assert specks.agreement[1, 0] > 0.8 > specks.agreement[0, 0]
    assert things.details is None
    assert things.agreement[0, 0] > 0.8


def test_the_cells_that_make_the_tag_stand_out(description):
    raw, tags = sample(small=True)
    details = fit_details(raw.early[0], tags)
    assert np.abs(details.W[0]).argmax() == 0
    for i in np.flatnonzero(tags[:, 0] == 1):
        above = standing_out(details(raw.early[0][i])[0])[0]
        at = np.unravel_index(above.argmax(), above.shape)
        assert raw.early[0][i][at][0] > 3
    # What cells say does not depend on the workers, nor on other photos.
    np.testing.assert_array_equal(fit_details(raw.early[0], tags, workers=2).W, details.W)
    assert not fit_details(raw.early[0], np.ones_like(tags)).W.any()


def test_the_prior_of_details_is_the_greatest(description):
    raw, tags = sample(small=True)
    chosen = choose_details(raw, tags, description)
    fine = Maps.concatenate([chosen.details(raw.early[0][i]) for i in range(N)])
    assert fine.shape.tolist() == [[CELLS, CELLS]] * N
    described = replace(raw, details=fine, early=())
    assert described.part(3, 5).details.X.shape == (2 * CELLS**2, 1)
    choice = choose_prior(Known(described, tags), TwoStreamConfig())
    assert choice.prior == MOST
    assert "small" in choice.evidence


def test_agreement_is_what_exceeds_chance(description):
    raw, tags = sample(small=False)
    described = raw
    # The window of most of the first number is the thing: its boxes tell each other.
    best = described.X.reshape(N, -1, D)[..., 0].argmax(axis=1)[:, None]
    assert agreement(described, tags, best)[0] > 0.8
    rng = np.random.default_rng(1)
    anywhere = rng.integers(0, len(grid_windows()), (N, 1))
    assert agreement(described, tags, anywhere)[0] < 0.3
    # The whole photo, in every photo, agrees by chance alone.
    whole = np.full((N, 1), 0)
    present = tags == 1
    assert _chance(described, present, whole)[0] == 1.0
    assert _beyond_chance(np.array([20.0]), np.array([20.0]), np.array([1.0]))[0] <= 0
    assert np.isnan(_beyond_chance(np.array([1.0]), np.array([2.0]), np.array([0.0]))[0])


def test_nothing_is_chosen_where_nothing_can_be_compared(description):
    raw, tags = sample(small=True)
    for few in (replace(raw, early=None), raw.part(0, 1)):
        assert choose_details(few, tags[: len(few)], description).details is None
    assert choose_details(raw, np.full_like(tags, -1), description).details is None
    no_windows = Described(
        Windows(np.empty((0, 4), np.float32), np.zeros(N + 1, np.int64), np.full((N, 2), SIDE)),
        np.empty((0, D), np.float32),
        raw.maps,
    )
    assert np.isnan(agreement(no_windows, tags, np.zeros((N, 1), np.intp))).all()
