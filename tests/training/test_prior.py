"""The prior that the tags speak for."""

from dataclasses import replace

import numpy as np
import pytest

from tag2box.description.record import Described
from tag2box.errors import InputError
from tag2box.training.known import Known
from tag2box.training.object_maps import Objectness
from tag2box.training.prior import PRIORS, _balanced_loss, choose_prior, largest_good
from tag2box.training.two_stream import TwoStreamConfig, train_two_stream
from tag2box.windows.record import Windows

N, PER, D = 60, 8, 6
CONFIG = TwoStreamConfig(iterations=15, regularization=1e-3)


def planted(*, maps_are_right: bool, seed: int = 0) -> tuple[Known, Objectness]:
    """Photos of one window that tells the tag; the object maps point at it, or at one of noise."""
    rng = np.random.default_rng(seed)
    tags = np.where(np.arange(N) % 2, 1, -1).astype(np.int8)[:, None]
    X = rng.normal(0, 1, (N, PER, D)).astype(np.float32)
    at = rng.integers(0, PER, N)
    X[np.arange(N), at, 0] += np.where(tags[:, 0] == 1, 4.0, 0.0)
    values = np.zeros((N, PER, 1), np.float32)
    values[np.arange(N), at if maps_are_right else (at + 1) % PER] = 1
    offsets = np.arange(N + 1, dtype=np.int64) * PER
    windows = Windows(np.tile(np.float32([0, 0, 9, 9]), (N * PER, 1)), offsets, np.full((N, 2), 9))
    objectness = Objectness(values.reshape(-1, 1), offsets)
    return Known(Described(windows, X.reshape(-1, D)), tags, objectness), objectness


def test_maps_that_are_right_are_trusted_and_others_are_not():
    right, wrong = (choose_prior(*planted(maps_are_right=is_right), CONFIG) for is_right in (True, False))
    assert right.prior == max(PRIORS)
    assert wrong.prior < max(PRIORS)
    assert wrong.curve[0] < wrong.curve[-1]


def test_the_choice_depends_neither_on_workers_nor_on_photos_that_are_drawn_in_another_order():
    known, alone = planted(maps_are_right=False)
    one, two = (choose_prior(known, alone, CONFIG, workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(one.losses, two.losses)


def test_the_largest_prior_within_the_tolerance_is_taken():
    priors = (0.0, 1.0, 2.0)
    assert largest_good(priors, np.array([[0.5], [0.54], [0.6]])) == 1.0
    assert largest_good(priors, np.array([[0.5], [0.4], [0.3]])) == 2.0
    assert largest_good(priors, np.array([[0.010], [0.013], [0.014]])) == 2.0  # nobody can tell these apart
    assert largest_good(priors, np.full((3, 2), np.nan)) == 2.0
    assert largest_good(priors, np.array([[0.3, np.nan], [0.6, 0.1], [0.9, 0.1]])) == 0.0


def test_the_loss_is_balanced():
    tags = np.array([[1], [-1], [-1], [-1], [0]], np.int8)
    phi = np.array([[0.5], [0.1], [0.1], [0.1], [0.9]])
    expected = (-np.log(0.5) - np.log(0.9)) / 2
    assert _balanced_loss(phi, tags)[0] == pytest.approx(expected)
    assert np.isnan(_balanced_loss(phi[:1], tags[:1])[0])


def test_one_photo_leaves_it_to_the_largest():
    known, alone = planted(maps_are_right=True)
    alone_one = choose_prior(known.part(0, 1), alone.part(0, 1), CONFIG)
    assert alone_one.prior == max(PRIORS)
    assert alone_one.evidence.startswith("the loss of left-out tags (0: ")


def test_two_streams_want_a_number():
    known, _ = planted(maps_are_right=True)
    with pytest.raises(InputError, match="still open"):
        train_two_stream(known, replace(CONFIG, prior="auto"))
