import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tag2box.errors import InputError
from tag2box.mil.losses import LOSSES, hinge, loss_named, smooth_hinge, squared_hinge

MARGINS = np.array([-50.0, -3.0, -0.5, 0.0, 0.2, 0.97, 1.3, 4.0, 50.0])


@pytest.mark.parametrize("name", LOSSES)
def test_derivative_is_that_of_the_value(name):
    value, slope = LOSSES[name](MARGINS)
    numeric = [approx_fprime([m], lambda x: LOSSES[name](x)[0][0], 1e-7)[0] for m in MARGINS]
    np.testing.assert_allclose(slope, numeric, atol=1e-4, rtol=1e-4)
    assert (value >= 0).all()
    assert (slope <= 0).all()


def test_logistic_does_not_overflow():
    value, slope = LOSSES["logistic"](np.array([-1e4, 1e4]))
    np.testing.assert_allclose(value, [1e4, 0])
    np.testing.assert_allclose(slope, [-1, 0])


def test_smooth_hinge_becomes_the_hinge():
    np.testing.assert_allclose(smooth_hinge(MARGINS, 1e6)[0], hinge(MARGINS)[0], atol=1e-5)


def test_smooth_hinge_of_sharpness_one_is_half_the_squared_hinge_near_one():
    m = np.array([0.2, 0.7, 1.0])
    np.testing.assert_allclose(smooth_hinge(m, 1.0)[0], squared_hinge(m)[0] / 2)


def test_unknown_loss_is_named_with_those_allowed():
    with pytest.raises(InputError, match=r"squared_hinge, logistic, but it is 'hinge'"):
        loss_named("hinge", ("squared_hinge", "logistic"))
