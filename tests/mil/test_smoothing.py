import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import approx_fprime, minimize

from tag2box.errors import InputError
from tag2box.mil.smoothing import segment_smoothed_max, simplex_projection, smoothed_max

# Rounded, so that ties happen; not far apart, so that the oracle's cumulative sums stay exact.
vectors = arrays(float, st.integers(1, 60), elements=st.floats(-30, 30).map(lambda x: round(x, 1)))
mus = st.sampled_from([1e-3, 0.1, 1.0, 7.0])


def projection_by_sorting(v):
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1
    rank = np.flatnonzero(u - excess / np.arange(1, len(v) + 1) > 0)[-1]
    return np.maximum(v - excess[rank] / (rank + 1), 0)


@given(vectors)
def test_projection_is_the_one_by_sorting(v):
    np.testing.assert_allclose(simplex_projection(v), projection_by_sorting(v), atol=1e-10)


def test_projection_of_huge_numbers_keeps_its_digits():
    np.testing.assert_allclose(simplex_projection([1e12, 1e12 - 0.5, -1e12]), [0.75, 0.25, 0])


@given(vectors, mus)
def test_values_lie_between_their_bounds(s, mu):
    value, _ = smoothed_max(s, mu)
    assert s.max() - mu / 2 - 1e-9 <= value <= s.max() - mu / (2 * len(s)) + 1e-9
    value, _ = smoothed_max(s, mu, "entropy")
    assert s.max() - 1e-9 <= value <= s.max() + mu / 2 * np.log(len(s)) + 1e-9


@pytest.mark.parametrize("omega", ["l2", "entropy"])
def test_value_is_the_maximum_over_the_simplex(omega):
    s, mu = np.array([0.3, -0.2, 0.25, 0.1]), 0.4

    def negative(x):
        u = np.exp(x - x.max())
        u /= u.sum()
        penalty = (u**2).sum() if omega == "l2" else (u * np.log(np.maximum(u, 1e-300))).sum()
        return -(s @ u - mu / 2 * penalty)

    found = minimize(negative, np.zeros(4), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
    assert smoothed_max(s, mu, omega)[0] == pytest.approx(-found.fun, abs=1e-6)


@pytest.mark.parametrize("omega", ["l2", "entropy"])
def test_weights_are_the_gradient(omega):
    s = np.random.default_rng(3).normal(size=7)
    numeric = approx_fprime(s, lambda x: smoothed_max(x, 0.7, omega)[0], 1e-7)
    np.testing.assert_allclose(smoothed_max(s, 0.7, omega)[1], numeric, atol=1e-5)


@given(vectors, st.sampled_from(["l2", "entropy"]))
def test_small_mu_gives_the_maximum(s, omega):
    assert smoothed_max(s, 1e-9, omega)[0] == pytest.approx(s.max(), abs=1e-7)
    value, weights = smoothed_max(s, 0, omega)
    assert (value, weights.argmax()) == (s.max(), s.argmax())


@given(st.lists(vectors, min_size=1, max_size=5), mus, st.sampled_from(["l2", "entropy"]))
def test_segments_are_one_at_a_time(segments, mu, omega):
    offsets = np.cumsum([0, *map(len, segments)])
    value, weights = segment_smoothed_max(np.concatenate(segments), offsets, mu, omega)
    for i, s in enumerate(segments):
        alone = smoothed_max(s, mu, omega)
        assert value[i] == alone[0]
        np.testing.assert_array_equal(weights[offsets[i] : offsets[i + 1]], alone[1])


@given(vectors, mus, st.integers(1, 70))
def test_top_n_with_its_certificate_is_the_full_projection(s, mu, top):
    whole = segment_smoothed_max(s, [0, len(s)], mu)
    some = segment_smoothed_max(s, [0, len(s)], mu, top=top)
    np.testing.assert_allclose(some[0], whole[0], atol=1e-9)
    np.testing.assert_allclose(some[1], whole[1], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: simplex_projection([]), "at least one"),
        (lambda: simplex_projection([np.nan]), "NaN"),
        (lambda: smoothed_max([1, 2], -1), "mu must be 0 or more"),
        (lambda: smoothed_max([1, 2], 1, "max"), "omega must be one of"),
        (lambda: segment_smoothed_max([1, 2], [0, 2], 1, top=0), "top must be at least 1"),
    ],
)
def test_bad_input_is_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()
