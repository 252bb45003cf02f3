"""The losses in exact and extended arithmetic, their derivatives by differences, the hinge's kink by itself."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refimpl.calculus import losses
from refimpl.calculus.differences import central_difference, gradient_error, one_sided_differences
from tests.strategies import floats, logits, vectors


@pytest.mark.states("attention Eq. 3")
def test_logistic_by_hand():
    """z = log 3: log(1 + 1/3) = log 4 - log 3, slope -1/(1 + 3); z = 0: log 2, slope -1/2."""
    np.testing.assert_allclose(losses.sigmoid([np.log(3), 0, -np.log(3)]), [0.75, 0.5, 0.25], rtol=1e-15)
    np.testing.assert_allclose(losses.logistic([np.log(3), 0]), np.log([4 / 3, 2]), rtol=1e-14)
    np.testing.assert_allclose(losses.logistic_derivative([np.log(3), 0]), [-0.25, -0.5], rtol=1e-15)


@pytest.mark.states("mamba Section 2 (training objective)")
@pytest.mark.parametrize("z, loss, slope", [(-1e4, 10001, -1), (0, 1, -1), (0.75, 0.25, -1), (1, 0, 0), (7, 0, 0)])
def test_hinge_by_hand(z, loss, slope):
    assert (losses.hinge(z), losses.hinge_derivative(z)) == (loss, slope)


@pytest.mark.states("mamba Section 14 (regression)")
def test_squared_by_hand():
    """f = 3, y = 1: half of 2^2, and the slope 2."""
    assert (losses.squared(3, 1), losses.squared_derivative(3, 1)) == (2, 2)


@pytest.mark.states("attention Section F")
def test_cross_entropy_by_hand():
    """F = log 1, log 2, log 5, so that P = 1/8, 2/8, 5/8: -log P_2 = log 4, and its gradient is P less one at 2."""
    F = np.log([1.0, 2.0, 5.0])
    assert losses.cross_entropy(F, 1) == pytest.approx(np.log(4), rel=1e-15)
    np.testing.assert_allclose(losses.cross_entropy_gradient(F, 1), [0.125, -0.75, 0.625], rtol=1e-14)


@pytest.mark.states("attention Eq. 3")
@given(z=floats(700))
@example(z=-1e4)
@example(z=1e4)
def test_logistic_and_its_derivative_in_many_digits(z):
    with localcontext() as context:
        context.prec = 60
        e = Decimal(-z).exp()
        loss = e - e * e / 2 if z > 50 else (1 + e).ln()  # the next term of the series is e^2 / 3 < 1e-43 of it
        slope = -e / (1 + e)
    with np.errstate(all="raise", under="ignore"):
        assert losses.logistic(z) == pytest.approx(float(loss), rel=1e-13, abs=1e-300)
        assert losses.logistic_derivative(z) == pytest.approx(float(slope), rel=1e-13, abs=1e-300)


@pytest.mark.states("attention Eq. 3")
@given(z=vectors(30))
def test_logistic_derivative_by_differences(z):
    by_differences = np.diag(central_difference(losses.logistic, z))
    np.testing.assert_allclose(losses.logistic_derivative(z), by_differences, rtol=1e-6, atol=1e-9)


@pytest.mark.states("mamba Section 2 (training objective)")
@given(z=vectors(1e4))
def test_hinge_derivative_is_a_subgradient(z):
    """h(u) >= h(z) + g (u - z) for every u, the kink z = 1 included."""
    z = np.append(z, 1.0)
    for u in (*z, 1 - 1e-9, 1 + 1e-9, -3.0):
        bound = losses.hinge(z) + losses.hinge_derivative(z) * (u - z)
        assert np.all(losses.hinge(u) >= bound - 1e-11 * np.maximum(1, np.abs(z)))


@pytest.mark.states("mamba Section 2 (training objective)")
def test_at_the_kink_the_convention_lies_between_the_one_sided_differences():
    left, right = one_sided_differences(losses.hinge, 1.0)
    assert (left, right) == (pytest.approx(-1), pytest.approx(0))
    assert left <= losses.hinge_derivative(1.0) <= right
    assert losses.hinge_derivative(1.0) == 0  # the documented choice


@pytest.mark.states("mamba Section 14 (regression)")
@given(f=vectors(100), y=floats(100))
def test_squared_loss(f, y):
    y = np.full_like(f, y)
    np.testing.assert_allclose(losses.squared(f, y), [(a - b) * (a - b) * 0.5 for a, b in zip(f, y)])
    by_differences = np.diag(central_difference(lambda f: losses.squared(f, y), f))
    np.testing.assert_allclose(losses.squared_derivative(f, y), by_differences, rtol=1e-6, atol=1e-5)


@pytest.mark.states("attention Section F")
@given(F=logits(20), data=st.data())
def test_cross_entropy_and_its_gradient(F, data):
    K = F.shape[-1]
    k = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=len(F), max_size=len(F))))
    for row, label, loss, gradient in zip(F, k, losses.cross_entropy(F, k), losses.cross_entropy_gradient(F, k)):
        exact = math.log(math.fsum(math.exp(x) for x in row)) - row[label]
        assert loss == pytest.approx(exact, rel=1e-12, abs=1e-13)
        assert gradient_error(lambda r: losses.cross_entropy(r, label), gradient, row) < 1e-6


@pytest.mark.states("attention Section F")
def test_cross_entropy_far_out():
    F = np.array([1e4, -1e4, 0.0])
    with np.errstate(all="raise", under="ignore"):
        assert [losses.cross_entropy(F, k) for k in range(3)] == [0, 2e4, 1e4]
        np.testing.assert_array_equal(losses.cross_entropy_gradient(F, 1), [1, -1, 0])


def test_margins_pair_each_label_with_its_own_output():
    Y, f = [1, -1, 1], [2.0, -2.0, 2.0]
    assert np.mean(losses.logistic(losses.margin(Y, f))) == pytest.approx(0.126928, abs=1e-6)
    for Y_bad in (np.reshape(Y, (3, 1)), np.reshape(Y, (1, 3))):
        with pytest.raises(ValueError, match=r"f: .*\(3,\)"):
            losses.margin(Y_bad, f)


@pytest.mark.parametrize("Y", [(0, 1), (0, 0), (1, 2)])
def test_labels_other_than_plus_and_minus_one_are_listed(Y):
    with pytest.raises(ValueError, match=f"^Y: .*{float(Y[0])}"):
        losses.margin(Y, (-5.0, 3.0))


def test_one_class_alone_is_fine():
    np.testing.assert_array_equal(losses.margin([1, 1], [2.0, -3.0]), [2, -3])


@pytest.mark.parametrize("k", [3, -1, 0.5])
def test_a_class_outside_the_range_is_refused(k):
    with pytest.raises(ValueError, match="^k: "):
        losses.cross_entropy([0.0, 1.0, 2.0], k)
