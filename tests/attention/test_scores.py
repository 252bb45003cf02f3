"""Lemma C.2: the scores by hand, on every drawn sample, and where the noise attains its bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import conditions, data, scores
from refimpl.attention.head import linear_head
from refimpl.attention.setting import Setting
from tests.strategies import seeds


@pytest.mark.states("attention Lemma C.2")
def test_the_scores_by_hand():
    """|mu| = 2, |nu| = 1/2, rho = 1/4: kappa = 1 / 4 sqrt 2, a = 1 / sqrt 2. log = 4 and c2 = 1/2: e = 4 kappa = a."""
    a = math.sqrt(0.5)
    setting = Setting(n=2, T=3, norm=2.0, weak_scale=0.25, delta=6 * math.exp(-4))
    assert scores.good_run_scale(setting, 0.5) == pytest.approx((a, a), rel=1e-14)
    assert scores.good_run_scale(setting, 0.25, head=2.0) == pytest.approx((4 * a, 2 * a), rel=1e-14)
    assert scores.score_spread(setting, 0.5) == pytest.approx(1.25 * a + 2 * a, rel=1e-14)
    mu, noise = data.signals(2.0, 3), np.array([[[1.0, -1, 5], [0, 2, 0]]])
    nu = linear_head(mu)  # (1, -1, 0) / 2 sqrt 2
    assert scores.score_scale(noise, mu, nu) == pytest.approx((a, a), rel=1e-14)
    scale, roles = scores.ScoreScale(8.0, 1.0), [[2, 1, -1, 0]] * 3
    low, high = scores.token_score_range([1, -1, -1], [1, -1, 1], roles, 0.25, scale)
    np.testing.assert_array_equal((low + high) / 2, [[8, 2, -2, 0], [8, -2, 2, 0], [-8, -2, 2, 0]])
    np.testing.assert_array_equal(high - low, np.full((3, 4), 2.0))


@pytest.mark.states("attention Lemma C.2")
@given(seed=seeds, weak_scale=st.floats(0.01, 1), norm=st.floats(0.1, 100), head=st.floats(0.01, 100))
def test_every_score_of_a_good_run_lies_in_its_range(seed, weak_scale, norm, head):
    n, T, d, delta, rng = 6, 5, 30, 0.5, np.random.default_rng(seed)
    log = math.log(T * n / delta)
    sizes = dict(n=n, T=T, d=d, norm=norm, relevant=2, weak_scale=weak_scale)
    setting = Setting(**sizes, noise_rate=0.4, delta=delta)
    mu = data.signals(norm, d)
    nu = linear_head(mu, head)
    sample = data.draw(rng, setting)
    c2 = np.max(np.abs(sample.noise @ mu.T)) / (norm * math.sqrt(log))  # the run is good for this c2, with equality
    scale = scores.good_run_scale(setting, c2, head)
    low, high = scores.token_score_range(sample.Y, sample.Y_star, sample.roles, weak_scale, scale)
    seen = sample.Y[:, None] * (sample.X @ nu)
    a, slop = head * norm / math.sqrt(2), 1e-9 * head * (norm + 10)
    assert np.all(low - slop <= seen) and np.all(seen <= high + slop)
    for i in range(n):
        for t in range(T):
            role, own = sample.roles[i, t], 0.0
            if role == data.RELEVANT:
                own = a if sample.Y[i] == sample.Y_star[i] else -a
            elif role:
                own = weak_scale * a if role == sample.Y[i] else -weak_scale * a
            assert (low[i, t] + high[i, t]) / 2 == pytest.approx(own, abs=1e-9 * a)
    assert high - low == pytest.approx(np.full((n, T), 4 * c2 * (head / math.sqrt(2) / norm) * norm * math.sqrt(log)))


@pytest.mark.states("attention Lemma C.2")
def test_the_error_is_attained_by_a_noise_along_the_head():
    mu = data.signals(3.0, 4)
    nu, c = linear_head(mu, 1.0), 0.5
    noise = np.zeros((1, 3, 4))
    noise[0, 0, :2] = c, -c  # <eps, mu_c> = +- 3c: (iii) with equality at c2 sqrt(log) = c
    X = data.signal_of([1.0], [[2, 1, -1]], 0.1) @ mu + noise
    setting = Setting(n=2, T=3, d=4, norm=3.0, delta=6 * math.exp(-4))  # log(Tn/delta) = 4
    scale = scores.good_run_scale(setting, c / 2, head=1.0)
    low, high = scores.token_score_range([1.0], [1.0], [[2, 1, -1]], 0.1, scale)
    assert scores.score_scale(noise, mu, nu) == pytest.approx(scale, rel=1e-12)
    assert (X @ nu)[0, 0] == pytest.approx(high[0, 0], rel=1e-12)


@pytest.mark.states("attention Lemma C.2", "attention Assumption A4")
def test_the_bound_on_the_spread_of_scores():
    s = conditions.smallest_setting(9, 10, 0.2, 1)
    scale = scores.good_run_scale(s, 0.7)
    low, high = scores.token_score_range([1.0], [1.0], [[2, 1, -1, 0]], s.weak_scale, scale)
    assert scores.score_spread(s, 0.7) == pytest.approx(high.max() - low.min(), rel=1e-12)


@pytest.mark.parametrize("c2, head, named", [(0.0, None, "c2"), (1.0, 0.0, "head")])
def test_a_constant_that_is_not_positive_is_named(c2, head, named):
    with pytest.raises(ValueError, match=f"^{named}: "):
        scores.good_run_scale(Setting(), c2, head)
