"""The growth law against the flow, against small steps and against its own derivative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention.runs import flow, gram, growth
from refimpl.calculus.differences import central_difference


def one_sample(T, r, b, D, V=50.0):
    gamma = np.full((1, T), b)
    gamma[0, :r] += D
    return V * np.eye(T), gamma


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
def test_the_law_by_hand():
    """T = 4, r = 1, x = log 3: g = 2 log 3; at 0, g = 2 sinh(-log 3) = 1/3 - 3. V D / n * T / r (T - r) = 6 * 4/3 = 8.

    With l' at -1/2, t is 2 (2 log 3 + 8/3) / 8; with f = b constant (D to 0 at V D fixed), (1 + e^b) in place of 2."""
    x = np.log(3)
    np.testing.assert_allclose(growth.growth([x, 0.0], 4), [2 * x, 1 / 3 - 3], rtol=1e-14)
    assert growth.growth(x, 4, r=3) == pytest.approx(2 * x + 9 - 1 / 9, rel=1e-14)
    assert growth.gap_time(x, 4, V=6.0, D=2.0, n=2) == pytest.approx((2 * x + 8 / 3) / 4, rel=1e-14)
    late = growth.gap_time(x, 4, V=1.2e10, D=1e-9, n=2, b=np.log(3))
    assert late == pytest.approx(4 * (2 * x + 8 / 3) / 8, rel=1e-8)


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
@pytest.mark.parametrize("T, r, b, D", [(4, 1, 0.0, 1.0), (7, 2, -0.3, 0.8), (12, 10, 0.5, 2.0)])
def test_the_gap_s_time_is_that_of_the_flow(T, r, b, D):
    M, gamma = one_sample(T, r, b, D)
    u = np.linspace(0, 25, 9)
    path = flow.flow(M, gamma, [1.0], u, rtol=1e-10)
    gaps = path.z[:, 0, 0] - path.z[:, 0, -1]
    times = [growth.gap_time(x, T, 50.0, D, 1, r, b) for x in gaps]
    np.testing.assert_allclose(np.log(np.multiply(times, 50.0)), u, atol=1e-6)


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
def test_the_gap_s_time_is_that_of_small_steps():
    """20,000 steps, r = 1: g grows linearly in tau while l' is frozen (D = 1e-4), x linearly and then like log tau."""
    T, D, V, alpha, steps = 5, 1e-4, 50.0, 40.0, 20_000
    M, gamma = one_sample(T, 1, 0.0, D, V)
    seen = []

    def record(tau, rho, s):
        if tau % 4000 == 0:
            seen.append((tau, V * (rho[0, 0] - rho[0, 1])))

    gram.descend(M, gamma, [1.0], alpha, steps, record=record)
    tau, x = np.array(seen[1:]).T
    rate = alpha * V * 0.5 * D * T / (T - 1)
    np.testing.assert_allclose(growth.growth(x, T) - growth.growth(0.0, T), rate * tau, rtol=2e-3)
    np.testing.assert_allclose([growth.gap_time(y, T, V, D, 1) / alpha for y in x], tau, rtol=2e-3)
    # linear at first, logarithmic later
    early, late = 2 * T**2 / (T - 1) / 2 * 1e-3, growth.growth(40.0, T)
    assert abs((growth.growth(1e-3, T) - growth.growth(0.0, T)) / early - 1) < 2e-3
    assert abs(np.log(late * (T - 1)) - 40) < 1e-6


@given(x=st.floats(-20, 20), T=st.integers(2, 9))
def test_the_derivative_of_the_growth_function(x, T):
    for r in range(1, T):
        by_hand = (r * np.exp(x) + T - r) ** 2 / (r * (T - r) * np.exp(x))
        assert abs(growth._growth_derivative(x, T, r) / by_hand - 1) < 1e-12
        numeric = central_difference(lambda y: growth.growth(y, T, r), x)
        assert abs(numeric / by_hand - 1) < 1e-6


@pytest.mark.parametrize(
    "change, error, said",
    [
        (dict(r=4), ValueError, "^r: "),
        (dict(r=0), ValueError, "^r: "),
        (dict(T=1), ValueError, "^T: "),
        (dict(n=0), ValueError, "^n: "),
        (dict(x=-1.0), ValueError, "^x: "),
        (dict(x=701.0), ValueError, "^x: "),
        (dict(b=np.nan), ValueError, "^b: "),
        (dict(b=500.0, x=300.0), FloatingPointError, "^gap_time: "),
    ],
)
def test_bad_arguments_of_the_time_are_named(change, error, said):
    arguments = dict(x=1.0, T=4, V=2.0, D=1.0, n=3, r=1, b=0.0) | change
    with pytest.raises(error, match=said):
        growth.gap_time(**arguments)


def test_an_x_whose_exponential_is_no_float_is_named():
    with pytest.raises(ValueError, match="^x: "):
        growth.growth([1.0, -800.0], 4)


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
@pytest.mark.parametrize("b", [None, 0.2])
def test_n_samples_take_n_times_as_long(b):
    """n equal samples with orthogonal noises: each moves at 1/n of the rate."""
    one = growth.gap_time(1.5, 5, 50.0, 1.0, 1, 1, b)
    assert growth.gap_time(1.5, 5, 50.0, 1.0, 3, 1, b) == pytest.approx(3 * one, rel=1e-12)
    gamma = np.tile(one_sample(5, 1, 0.2, 1.0)[1], (3, 1))
    u = np.linspace(0, 8, 5)
    path = flow.flow(50.0 * np.eye(15), gamma, np.ones(3), u, rtol=1e-10)
    for x, at in zip(path.z[:, 1, 0] - path.z[:, 1, -1], u):
        assert np.log(growth.gap_time(x, 5, 50.0, 1.0, 3, 1, 0.2)) == pytest.approx(at - np.log(50 / 3), abs=1e-6)
