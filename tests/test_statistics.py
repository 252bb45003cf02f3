"""Intervals against exact laws and by their coverage, and the least integer by a threshold that is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refimpl.statistics import binomial_interval, exponent, least
from tests.strategies import seeds


@pytest.mark.states("attention Eq. 12")
def test_an_interval_worked_by_hand():
    """None of 50 wrong: the upper end p has (1 - p)^50 = 0.005, half of the one per cent, and p is 0.1005."""
    low, high = binomial_interval(0, 50)
    assert low == 0 and high == pytest.approx(0.1005, abs=1e-4)
    assert (1 - high) ** 50 == pytest.approx(0.005)
    assert binomial_interval(50, 50) == pytest.approx((1 - high, 1))


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3", "mamba Theorem 4 (prompt length)")
def test_a_slope_worked_by_hand():
    """log2 of x is 0, 1, 2 and of y is 0, 1, 3: the slope 3/2, residuals (1, -2, 1)/6, standard error 1 / sqrt 12.

    The squares of the residuals sum to 1/6; over the one degree of freedom and the spread 2 of x, 1/12. Student's
    quantile at 0.75 with one degree of freedom is tan(pi / 4) = 1.
    """
    slope, low, high = exponent([1, 2, 4], [1, 2, 8], confidence=0.5)
    assert (slope, high - slope, slope - low) == pytest.approx((1.5, 12**-0.5, 12**-0.5))


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 4 (prompt length)")
def test_a_least_integer_worked_by_hand():
    assert least(lambda n: n * n >= 10) == 4 and least(lambda n: True) == 0 and least(lambda n: n >= 1) == 1


@pytest.mark.states("attention Eq. 12")
@pytest.mark.parametrize("wrong, size", [(0, 50), (50, 50), (7, 50)])
def test_the_interval_is_clopper_and_pearson_s(wrong, size):
    exact = binomtest(wrong, size).proportion_ci(0.99, method="exact")
    assert binomial_interval(wrong, size) == pytest.approx((exact.low, exact.high))


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3", "mamba Theorem 4 (prompt length)")
@given(seeds, st.floats(-3, 3))
def test_the_fit_of_an_exponent(seed, slope):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(0, 3, size=6)) * np.arange(1, 7)
    assert exponent(x, 3 * x**slope) == pytest.approx((slope,) * 3, abs=1e-9)


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3", "mamba Theorem 4 (prompt length)")
def test_its_interval_covers():
    """2,000 fits, seed 0: 95 % within 2 points (4 standard errors)."""
    rng, x = np.random.default_rng(0), np.geomspace(1, 10, 5)
    fits = [exponent(x, x**-1.5 * np.exp(0.2 * rng.standard_normal(5))) for _ in range(2000)]
    assert np.mean([low <= -1.5 <= high for _, low, high in fits]) == pytest.approx(0.95, abs=0.02)


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 4 (prompt length)")
@given(st.integers(0, 10**6))
def test_the_least_of_what_is_reached(n):
    assert least(lambda k: k >= n) == n


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: binomial_interval(5, 3), "^wrong: "),
        (lambda: binomial_interval(-1, 3), "^wrong: "),
        (lambda: binomial_interval(0, 0), "^size: "),
        (lambda: binomial_interval(1, 3, confidence=1.5), "^confidence: "),
        (lambda: exponent([1, 2, 3], [1, 0, 1]), "positive"),
        (lambda: exponent([1, 2], [1, 2]), "at least three"),
        (lambda: exponent([2, 2, 2], [1, 2, 3]), "not constant"),
        (lambda: exponent([1, 2, 3], [1, 2, 3], confidence=-0.5), "^confidence: "),
        (lambda: least(lambda n: False), "^reached: "),
    ],
)
def test_what_is_out_of_range_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
