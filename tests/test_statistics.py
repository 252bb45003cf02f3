"""The statistics of both papers' experiments, by hand and against their definitions."""

import pytest
from scipy.stats import binom, binomtest

from refimpl.statistics import binomial_interval


@pytest.mark.states("attention Eq. 12")
def test_the_interval_by_hand():
    """None of 10 wrong, 19 of 20 sure: the upper end p has (1 - p)^10 = 1/40. All wrong: the same from above."""
    low, high = binomial_interval(0, 10, 0.95)
    assert low == 0 and (1 - high) ** 10 == pytest.approx(1 / 40, rel=1e-9)
    assert binomial_interval(10, 10, 0.95) == pytest.approx((1 - high, 1), rel=1e-9)


@pytest.mark.states("attention Eq. 12")
@pytest.mark.parametrize("wrong, size", [(0, 50), (50, 50), (7, 50)])
def test_the_interval_is_clopper_and_pearson_s(wrong, size):
    exact = binomtest(wrong, size).proportion_ci(0.99, method="exact")
    assert binomial_interval(wrong, size) == pytest.approx((exact.low, exact.high))


@pytest.mark.states("attention Eq. 12")
@pytest.mark.parametrize("wrong, size, confidence", [(7, 50, 0.99), (1, 3, 0.5)])
def test_at_each_end_what_was_seen_has_half_of_what_is_left(wrong, size, confidence):
    low, high = binomial_interval(wrong, size, confidence)
    assert binom(size, low).sf(wrong - 1) == pytest.approx((1 - confidence) / 2, rel=1e-6)
    assert binom(size, high).cdf(wrong) == pytest.approx((1 - confidence) / 2, rel=1e-6)


def test_more_than_all_cannot_be_wrong():
    with pytest.raises(ValueError, match="^wrong: "):
        binomial_interval(5, 3)
