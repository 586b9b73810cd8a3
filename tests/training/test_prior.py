"""The prior that the tags speak for."""

from dataclasses import replace

import numpy as np
import pytest

from tag2box.description.record import Described
from tag2box.errors import InputError
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.prior import BETWEEN, LEAST, MOST, SHARED, _prior, _shared, choose_prior
from tag2box.training.two_stream import TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

N, PER, D = 60, 8, 6
CONFIG = TwoStreamConfig(iterations=15, regularization=1e-3)


def planted(*, everywhere: bool, seed: int = 0) -> Known:
    """Photos of windows side by side; one of them tells the tag, or all do."""
    rng = np.random.default_rng(seed)
    tags = np.where(np.arange(N) % 2, 1, -1).astype(np.int8)[:, None]
    X = rng.normal(0, 1, (N, PER, D)).astype(np.float32)
    at = rng.integers(0, PER, N)
    shown = np.ones((N, PER), bool) if everywhere else np.arange(PER) == at[:, None]
    X[..., 0] += np.where(shown & (tags == 1), 4.0, 0.0)
    values = np.zeros((N, PER, 1), np.float32)
    values[np.arange(N), at] = 1
    offsets = np.arange(N + 1, dtype=np.int64) * PER
    left = np.arange(PER, dtype=np.float32) * 10
    boxes = np.stack([left, 0 * left, left + 9, 0 * left + 9], axis=1)
    windows = Windows(np.tile(boxes, (N, 1)), offsets, np.full((N, 2), 90))
    return Known(Described(windows, X.reshape(-1, D)), tags, Objectness(values.reshape(-1, 1), offsets))


def test_maps_of_an_object_are_trusted_and_those_of_a_texture_are_not():
    thing, texture = (choose_prior(planted(everywhere=everywhere), CONFIG) for everywhere in (False, True))
    assert thing.beside[0] < 0.15
    assert texture.beside[0] > 0.8
    assert thing.prior > 4
    assert texture.prior == LEAST


def test_the_choice_does_not_depend_on_workers():
    known = planted(everywhere=False)
    one, two = (choose_prior(known, CONFIG, workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(one.beside, two.beside)
    assert one.prior == two.prior


def test_the_prior_falls_with_what_is_beside_the_boxes():
    beside = np.array([1e-9, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0])
    priors = [_prior(np.array([each, np.nan])) for each in beside]
    assert priors == sorted(priors, reverse=True)
    assert priors[0] == MOST
    assert min(priors) >= LEAST
    assert _prior(np.array([np.nan])) == BETWEEN


def test_a_window_is_beside_a_box_when_neither_holds_much_of_the_other():
    box = np.float32([10, 10, 20, 20])
    windows = np.float32(
        [[30, 30, 40, 40], [19.5, 10, 29.5, 20], [0, 0, 100, 100], [12, 12, 14, 14], [10, 10, 20, 20]]
    )
    np.testing.assert_allclose(_shared(windows, box), [0, 0.05, 1, 1, 1], rtol=1e-5)
    assert (_shared(windows, box) < SHARED).tolist() == [True, True, False, False, False]


def test_one_photo_leaves_it_between():
    choice = choose_prior(planted(everywhere=True).part(0, 1), CONFIG)
    assert choice.prior == BETWEEN
    assert choice.evidence.startswith("nothing")


def test_two_streams_want_a_number():
    known = planted(everywhere=False)
    with pytest.raises(InputError, match="still open"):
        train_two_stream(known, replace(CONFIG, prior="auto"))
