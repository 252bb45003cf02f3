"""Tail bounds against exact tails, their constants against what gives them, and where the printed one fails."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import beta, binom, norm

from refimpl.mamba.concentration import (
    definition_3,
    exponential_moment,
    hoeffding,
    hoeffding_bound,
    lower_tail,
    printed_range,
    sub_gaussian_norm,
    upper_tail,
)
from tests.strategies import floats, seeds


@pytest.mark.states("mamba Lemma 1")
def test_a_tail_that_is_attained():
    """(1 + gamma) p = 1: all m coins show heads, p^m; the equality counts on both sides."""
    assert upper_tail(7, 0.2, 4.0)[0] == pytest.approx(0.2**7, rel=1e-12)
    assert upper_tail(10, 0.3, 0.0)[0] == pytest.approx(tail(10, 0.3, 3))
    assert lower_tail(10, 0.3, 1.0)[0] == pytest.approx(0.7**10)
    assert lower_tail(10, 0.3, 1.5)[0] == 0


@pytest.mark.states("mamba Definition 3")
def test_norms_by_hand():
    def close(pair, value):
        return pair[0] <= value * (1 + 1e-12) and value <= pair[1] * (1 + 1e-12) and pair[1] < 1.001 * pair[0]

    assert close(sub_gaussian_norm([-1, 1], [0.5, 0.5]), 1.0)  # the moments are 1, p^{-1/2} is largest at 1
    q = 1e-4  # P(X = 3) = q: q^{1/p} p^{-1/2} is largest at p = 2 ln(1/q)
    assert close(sub_gaussian_norm([0, 3], [1 - q, q]), 3 / np.sqrt(2 * np.e * np.log(1 / q)))
    x = norm.ppf((np.arange(20_001) + 0.5) / 20_001)
    assert sub_gaussian_norm(x, np.full(20_001, 1 / 20_001), 50)[0] == pytest.approx(np.sqrt(2 / np.pi), rel=1e-3)
    assert sub_gaussian_norm([0, 5], [1, 0]) == (0.0, 0.0)


@pytest.mark.states("mamba Definition 3")
def test_the_condition_holds_and_fails_by_hand():
    (slack,) = definition_3([-2, 2], [0.5, 0.5], 3.0).values()
    assert slack == pytest.approx(1.5, rel=1e-3)  # the norm is 2
    large, small = (min(definition_3([-2, 2], [0.5, 0.5], K).values()) for K in (2.1, 1.9))
    assert large >= 1 > small
    # Exponential tails are not sub-Gaussian: cut off at larger and larger values the norm grows without end.
    grows = []
    for top in (40, 160, 640):
        x = np.linspace(0, top, 4 * top)
        weights = np.exp(-x) / np.exp(-x).sum()
        grows.append(sub_gaussian_norm(x, weights, 200)[0])
    assert grows[1] > 1.8 * grows[0] and grows[2] > 1.8 * grows[1]


PROBABILITIES = st.floats(0.01, 0.99)


def tail(m, p, least):
    """P(Binomial(m, p) >= least), in exact arithmetic."""
    p = Fraction(p)
    return float(sum(math.comb(m, k) * p**k * (1 - p) ** (m - k) for k in range(max(0, least), m + 1)))


def law(seed, n=4):
    """A random centred law on n values."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n))
    x = rng.standard_normal(n) * rng.choice([0.1, 1, 10])
    x -= weights @ x
    return x, weights


@pytest.mark.states("mamba Lemma 1")
@given(m=st.integers(1, 40), p=PROBABILITIES, gamma=st.floats(0, 12))
def test_both_tails_are_the_exact_ones_and_below_their_bounds(m, p, gamma):
    assume(abs((x := m * (1 + gamma) * p) - round(x)) > 1e-6 and abs((y := m * (1 - gamma) * p) - round(y)) > 1e-6)
    left, right = upper_tail(m, p, gamma)
    assert left == pytest.approx(tail(m, p, math.ceil(m * (1 + gamma) * p)), rel=1e-9, abs=1e-13)
    assert left <= right * (1 + 1e-12)
    left, right = lower_tail(m, p, gamma)
    assert left == pytest.approx(1 - tail(m, p, math.floor(m * (1 - gamma) * p) + 1), rel=1e-9, abs=1e-12)
    assert left <= right * (1 + 1e-12)


@pytest.mark.states("mamba Lemma 1")
@given(gamma=st.floats(1e-3, 0.999), p=st.floats(1e-3, 0.5), m=st.integers(1, 300))
def test_the_bounds_come_from_markovs_inequality(gamma, p, m):
    """Per unit of mp: the least exponent over s of Markov for a Poisson law, which no coin exceeds, in closed form."""
    for sign, (_, right), c in ((1, upper_tail(m, p, gamma), 1 / 2), (-1, lower_tail(m, p, gamma), 1 / 2)):
        s = np.log1p(sign * gamma)
        best = s * (1 + sign * gamma) - np.expm1(s)
        exponent = -np.log(right) / (m * p)
        assert exponent <= best * (1 + 1e-9) + 1e-12
        assert exponent == pytest.approx(c * gamma**2 / (1 + (sign > 0) * gamma / 2), rel=1e-6)
    assert np.exp(-m * p * gamma**2 / 3) >= upper_tail(m, p, gamma)[1]  # the printed one follows for gamma <= 1


@pytest.mark.states("mamba Lemma 1")
def test_other_laws_on_the_unit_interval_by_monte_carlo():
    """20,000 means of m variables of mean p stay below both bounds.

    A bound is refuted where the Clopper-Pearson 1e-4 lower limit is above it.
    """
    rng, n = np.random.default_rng(0), 20_000
    for draw, p in ((lambda size: rng.beta(0.5, 2, size), 0.2), (lambda size: rng.random(size) ** 4, 0.2)):
        for m in (5, 20):
            mean = draw((n, m)).mean(axis=1)
            for gamma in (0.3, 0.8, 1.5, 2.5):
                for hits, (_, right) in (
                    (np.sum(mean >= (1 + gamma) * p), upper_tail(m, p, gamma)),
                    (np.sum(mean <= (1 - gamma) * p), lower_tail(m, p, gamma)),
                ):
                    assert beta.ppf(1e-4, hits, n - hits + 1) <= right if hits else True


@pytest.mark.states("mamba Definition 3")
def test_the_condition_takes_the_upper_number():
    law = [0, 3], [0.99, 0.01]
    low, high = sub_gaussian_norm(*law)
    (slack,) = definition_3(*law, high).values()
    assert low < high and slack == pytest.approx(1, abs=1e-14)  # at K between the two it is not known to hold


@pytest.mark.states("mamba Lemma 1", "mamba Lemma 2")
def test_what_leaves_the_floats_is_zero_or_infinite():
    with np.errstate(all="raise", under="ignore"):
        for gamma in (1e160, 1e308):
            assert upper_tail(1000, 1.0, gamma) == lower_tail(1000, 1.0, gamma) == (0.0, 0.0)
        assert exponential_moment(1e200, [-1, 1], [0.5, 0.5]) == (np.inf, np.inf)


@pytest.mark.states("mamba Definition 3")
@given(seed=seeds)
def test_the_moments_stay_below_the_norm(seed):
    x, weights = law(seed)
    low, high = sub_gaussian_norm(x, weights, 2000)
    p = np.concatenate([np.linspace(1, 20, 40), [50, 200]])
    moments = np.array([(weights @ np.abs(x) ** power) ** (1 / power) for power in p]) / np.sqrt(p)
    assert np.all(moments <= high * (1 + 1e-12)) and low <= high <= 1.02 * low
    assert moments.max() > 0.95 * low


@pytest.mark.states("mamba Lemma 2")
@given(seed=seeds, s=floats(5), N=st.integers(1, 4), t=st.floats(0, 20))
def test_exponential_moment_and_tail_are_below_their_bounds(seed, s, N, t):
    x, weights = law(seed)
    scale = s / np.abs(x).max()
    left, right = exponential_moment(scale, x, weights)
    assert left == pytest.approx(sum(w * math.exp(scale * v) for v, w in zip(x, weights))) and left <= right + 1e-12
    a = np.random.default_rng(seed).standard_normal(N)
    left, right = hoeffding(t * np.abs(x).max(), a, x, weights)
    assert 0 <= left <= right


@pytest.mark.states("mamba Lemma 2")
@given(t=st.floats(0.01, 30), K=st.floats(0.1, 3), seed=seeds)
def test_the_constant_is_the_least_over_s(t, K, seed):
    a = np.random.default_rng(seed).standard_normal(3)
    x = np.array([-1.0, 1.0])

    def exponent(s):  # through the exponential moment of signs, of norm 1: s stands for s K |a|
        return -s * t / (K * np.linalg.norm(a)) + np.log(exponential_moment(s, x, [0.5, 0.5])[1])

    assume(t / (K * np.linalg.norm(a)) < 100)  # the bound would overflow on the way
    best = minimize_scalar(exponent, bounds=(0, 10), method="bounded", options=dict(xatol=1e-10)).fun
    assert np.log(hoeffding_bound(t, a, K)) == pytest.approx(1 + best, rel=2e-3, abs=2e-3)


@pytest.mark.states("mamba Lemma 2")
def test_the_steps_of_its_proof_and_what_no_constant_can_pass():
    for k in range(1, 200):  # (2k)^k k! / (2k)! <= (e/2)^k; 2.7182 < e
        assert Fraction((2 * k) ** k * math.factorial(k), math.factorial(2 * k)) <= Fraction(27182, 20000) ** k
    # Three signs: P(|X1 + X2 + X3| >= 3) = 1/4, by hand.
    left, right = hoeffding(3.0, [1, 1, 1], [-1, 1], [0.5, 0.5])
    assert left == pytest.approx(0.25) and right == pytest.approx(np.exp(1 - 3 / (8 * np.e)), rel=1e-3)
    # A normal X has norm sqrt(2 / pi): with c = 1/2 the bound would fail at t = 4, with 1/(8e) it holds.
    K = np.sqrt(2 / np.pi)
    tail_of_normal = 2 * norm.sf(4.0)
    assert np.exp(1 - 0.5 * 16 / K**2) < tail_of_normal <= hoeffding_bound(4.0, [1.0], K)


@pytest.mark.states("mamba Lemma 1")
@pytest.mark.erratum("mamba-chernoff-range")
def test_the_printed_upper_tail_fails_past_its_range():
    printed = lambda m, p, gamma: np.exp(-m * p * gamma**2 / 3)
    # One coin of mean .01 at gamma = 99, inside the printed [0, 1/p - 1]: heads has probability .01, the bound is 6e-15
    left, right = upper_tail(1, 0.01, 99.0)
    assert left == pytest.approx(0.01) and printed(1, 0.01, 99.0) < 1e-13 and left <= right
    # A hundred coins: P(Binomial(100, .01) >= 7) = 7.1e-5 against 6.1e-6.
    left, right = upper_tail(100, 0.01, 6.0)
    assert printed(100, 0.01, 6.0) < left / 10 and left <= right
    for p in (1e-4, 0.01, 0.1, 0.125):
        last = printed_range(p)
        assert 1.8 < last < 1 / p - 1
        for m in (int(20 / p), int(200 / p)):
            assert upper_tail(m, p, 0.999 * last)[0] <= printed(m, p, 0.999 * last)
        m, k = 10**7, np.ceil(10**7 * p * (1 + 1.02 * last))  # 2 percent past it one term of the tail is too much
        assert binom.logpmf(k, m, p) > -m * p * (1.02 * last) ** 2 / 3
    gamma = printed_range(1e-7)
    assert gamma == pytest.approx(1.817, abs=1e-3)
    assert (1 + gamma) * np.log1p(gamma) - gamma == pytest.approx(gamma**2 / 3, rel=1e-5)
    assert printed_range(0.13) == 1 / 0.13 - 1 and printed_range(0.129) < 1 / 0.129 - 1
    assert printed_range(0.3) == 1 / 0.3 - 1


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: upper_tail(0, 0.5, 1), "m"),
        (lambda: upper_tail(1, 0.0, 1), "p"),
        (lambda: lower_tail(1, 0.5, -1), "gamma"),
        (lambda: sub_gaussian_norm([1, 2], [0.5, 0.6]), "weights"),
        (lambda: exponential_moment(1, [1, 2], [0.5, 0.5]), "x"),
        (lambda: hoeffding(1, [0.0], [-1, 1], [0.5, 0.5]), "a"),
        (lambda: hoeffding(1, np.ones(30), [-1, 1], [0.5, 0.5]), "a"),
        (lambda: hoeffding_bound(1, [1.0], 0), "K"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
