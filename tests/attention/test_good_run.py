"""Good runs: the predicates by hand, their probability by Monte Carlo, and the scores on them.

Monte Carlo: seed 0; a probability p <= b is refuted where the Clopper-Pearson lower end at confidence 1 - 1e-4
lies above b, so each such test has a false-alarm rate of at most 1e-4.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refimpl.attention import concentration, conditions, data, good_run
from refimpl.attention.data import Sample
from refimpl.attention.good_run import Constants
from refimpl.attention.head import linear_head
from refimpl.attention.runs import wishart
from tests.strategies import seeds

ALARM = 1e-4
K = Constants(deviation=0.25, c1=0.5, c2=0.25, margin=0.125)
DELTA = 4 * math.exp(-4)  # n = T = 2: log(Tn/delta) = 4


def lower_end(hits, trials):
    return stats.beta.ppf(ALARM, hits, trials - hits + 1) if hits else 0.0


def by_hand(noise=(5, 4, 4, 5), Y=(1, -1), Y_star=(1, -1), tilt=0.0):
    """Four noises along the axes 0 to 3, the signals along 4 and 5; tilt adds to all coordinates of the first noise."""
    eps = np.diag(np.pad(np.float64(noise), (0, 2)))[:4]
    eps[0] += tilt
    return Sample(None, np.float64(Y), np.float64(Y_star), eps.reshape(2, 2, 6), None), 4 * np.eye(6)[4:]


@pytest.mark.states("attention Definition A.1")
@pytest.mark.parametrize(
    "event, changes, trace, noise_rate, expected",
    [
        ("(i) lower", {}, 25, 0, 4 / (0.75 * 5)),
        ("(i) lower", {"noise": (5, 3, 5, 5)}, 25, 0, 3 / (0.75 * 5)),
        ("(i) upper", {}, 25, 0, 1.25 * 5 / 5),
        ("(i) upper", {"noise": (5, 10, 5, 5)}, 25, 0, 1.25 * 5 / 10),
        ("(ii)", {}, 25, 0, math.inf),
        ("(ii)", {"tilt": 1.0}, 25, 0, 0.5 * 5 * 4 / 5),  # 1 * 5, against c1 sqrt(25) * 4
        ("(ii)", {"tilt": 4.0}, 25, 0, 0.5 * 5 * 4 / 20),
        ("(iii)", {"tilt": 0.25}, 25, 0, 0.25 * 4 * 2 / 1),  # 4 * tilt, against c2 * 4 * sqrt(4)
        ("(iii)", {"tilt": -1.0}, 25, 0, 0.25 * 4 * 2 / 4),
        ("(iv) C lower", {}, 25, 0, 1 / 0.75),  # one of each in 2 * (1/2 - 1/8, 1/2 + 1/8)
        ("(iv) C lower", {"Y": (1, 1), "Y_star": (1, 1)}, 25, 0, 0),
        ("(iv) C upper", {}, 25, 0, 1.25),
        ("(iv) C upper", {"Y": (1, 1), "Y_star": (1, 1)}, 25, 0, 0.625),
        ("(iv) N lower", {}, 25, 0.2, math.inf),  # 2 * (0.1 - 0.125) < 0
        ("(iv) N lower", {}, 25, 0.5, 0),  # none, against 2 * (0.25 - 0.125)
        ("(iv) N upper", {}, 25, 0, math.inf),
        ("(iv) N upper", {"Y": (1, -1), "Y_star": (-1, -1)}, 25, 0.75, 1),  # one, against 2 * (0.375 + 0.125)
        ("(iv) N upper", {"Y": (1, -1), "Y_star": (-1, -1)}, 25, 0.25, 0.5),
    ],
)
def test_each_event_by_hand_where_it_holds_and_where_it_fails(event, changes, trace, noise_rate, expected):
    sample, mu = by_hand(**changes)
    assert good_run.good_run(sample, mu, trace, noise_rate, DELTA, K)[event] == pytest.approx(expected, rel=1e-12)


@pytest.mark.states("attention Definition C.1")
def test_each_event_of_a_test_sample_by_hand():
    training, mu = by_hand()
    eps = np.zeros((3, 2, 6))
    eps[0, :, :2] = [[0, 0], [4, 0]]  # 4 * 5 with a training noise
    eps[0, 0, 5] = 3.0  # 3 * 4 with a signal
    eps[1] = 2.0  # norms sqrt 24; the sample's own product is 24
    eps[2, 0, 4] = eps[2, 1, 5] = 0.25
    slack = good_run.good_test(eps, training.noise, mu, 25, DELTA, K, beyond=[[7, 0], [0, 1], [36, 36]])
    norms = [[4, 4], [math.sqrt(24), 5], [math.sqrt(36 + 1 / 16)] * 2]
    expected = {
        "(i) lower": [min(row) / 3.75 for row in norms],
        "(i) upper": [6.25 / max(row) for row in norms],
        "(ii)": [10 / 20, 10 / 24, math.inf],
        "(iii)": [2 / 12, 2 / 8, 2 / 1],
    }
    assert list(slack) == list(expected)
    for event, values in expected.items():
        np.testing.assert_allclose(slack[event], values, rtol=1e-12, err_msg=event)


@pytest.mark.states("attention Lemma A.1")
def test_the_constants_by_hand():
    k = good_run.constants(trace=400, sigma_max=4, n=20, T=4, delta=0.4, margin=0.4)
    t = 2 * math.sqrt(4 * math.log(8 * 200))
    assert k == pytest.approx((1 - (math.sqrt(396) - t) / 20, 12, math.sqrt(56 / 3), 0.4), rel=1e-12)
    with pytest.raises(ValueError, match="delta: needs Tn/delta >= 8"):
        good_run.constants(400, 4, 2, 3, 0.9, 0.9)
    with pytest.raises(ValueError, match="margin: needs n >= 13.69"):
        good_run.constants(400, 4, 13, 3, 0.4, 0.4)


@pytest.mark.states("attention Lemma A.1")
@pytest.mark.parametrize("Sigma", [np.ones(200), np.repeat([4.0, 0.25], [40, 160])])
def test_a_good_run_has_the_promised_probability(Sigma):
    n, T, delta, eta, trials, bad = 12, 3, 0.9, 0.2, 300, 0
    mu = data.signals(5.0, len(Sigma))
    k = good_run.constants(Sigma.sum(), Sigma.max(), n, T, delta, margin=0.4)
    for rng in np.random.default_rng(0).spawn(trials):
        sample = data.draw(rng, n, mu, T, 1, 2, 0.1, eta, Sigma)
        bad += min(good_run.good_run(sample, mu, Sigma.sum(), eta, delta, k).values()) < 1
    assert lower_end(bad, trials) <= delta


@pytest.mark.states("attention Lemma A.1")
def test_a_good_run_inside_the_assumptions():
    # (A'1)-(A'3), (A4)-(A6), Eq. 45 at C = 5, d = 1.05e12: 50 runs, an upper end of the failures below delta with
    # confidence 0.99
    s = conditions.smallest_setting(12, 4, 0.1, 5)
    k = good_run.constants(s.trace, 1.0, s.n, s.T, s.delta, margin=0.5)
    bad = 0
    for rng in np.random.default_rng(0).spawn(50):
        sample, mu, _ = wishart.draw_training(rng, s.n, s.norm, s.trace, s.T, 1, 2, s.weak_scale, s.noise_rate)
        slack = good_run.good_run(sample, mu, s.trace, s.noise_rate, s.delta, k)
        bad += min(slack.values()) < 1
    assert k.deviation < 1e-5
    assert stats.beta.ppf(0.99, bad + 1, 50 - bad) <= s.delta


def test_a_tenth_of_the_bounds_is_never_kept():
    n, T, delta, d, rng = 12, 3, 0.9, 200, np.random.default_rng(0)
    mu = data.signals(5.0, d)
    k = good_run.constants(d, 1.0, n, T, delta, margin=0.4)
    samples = [data.draw(rng, n, mu, T, 1, 2, 0.1, 0.2) for _ in range(50)]
    slacks = [good_run.good_run(sample, mu, d, 0.2, delta, k) for sample in samples]
    for event in ("(i) lower", "(i) upper", "(ii)", "(iii)"):
        assert np.mean([slack[event] < 10 for slack in slacks]) == 1, event


@pytest.mark.states("attention Lemma C.1")
def test_the_event_has_the_promised_probability():
    n, T, d, delta, m, bad, trials = 4, 3, 60, 0.9, 100, 0, 100
    mu = data.signals(5.0, d)
    lower, upper = concentration.norm_range(d, 1.0, n, T, delta)
    k = Constants(max(upper / math.sqrt(d) - 1, 1 - lower / math.sqrt(d)), 6.0, math.sqrt(14 / 3), margin=1.0)
    for rng in np.random.default_rng(0).spawn(trials):  # a new training sample for every hundred test samples
        test, training = rng.standard_normal((m, T, d)), rng.standard_normal((n, T, d))
        slack = good_run.good_test(test, training, mu, d, delta, k)
        bad += int(np.sum(np.min(list(slack.values()), axis=0) < 1))
    assert lower_end(bad, m * trials) <= delta / n


@pytest.mark.states("attention Lemma C.1")
@given(n=st.integers(1, 1000), T=st.integers(2, 1000), delta=st.floats(1e-6, 0.999))
def test_the_parts_sum_to_less_than_delta_over_n(n, T, delta):
    parts = good_run.failure_bounds(n, T, delta)
    assert sum(parts.values()) < delta / n
    N, L, pairs = T * n, math.log(8 * (T * n) ** 2 / delta), T * n * T + T * (T - 1) // 2
    assert parts["(ii)"] == pytest.approx(pairs * 4 * math.exp(-L))
    assert parts["(iii)"] == pytest.approx(2 * T * 2 * math.exp(-math.log(16 * N / delta)))
    assert parts["(i)"] == pytest.approx(T * 2 * math.exp(-2 * math.log(8 * N / delta)))


@pytest.mark.states("attention Lemma C.1", "attention Section C.2")
@given(n=st.integers(1, 1000), T=st.integers(2, 1000), delta=st.floats(1e-6, 0.999), sigma=st.floats(0.01, 100))
def test_given_a_good_run_the_event_has_the_promised_probability_too(n, T, delta, sigma):
    if T * n >= 8 * delta:
        k = Constants(1.0, 6 * math.sqrt(sigma), math.sqrt(14 * sigma / 3), 1.0)  # C' >= 1
        assert good_run.failure_given_good_run(n, T, delta, k, sigma) <= delta / n


@pytest.mark.states("attention Lemma C.1", "attention Section C.2")
def test_the_conditional_bound_by_hand():
    # n = T = 2, log = 4, c1 = 1/2, 1/C' = 1/4, sigma_max = 2: 16 exp(-1.6^2 / 4), one own pair, two norms, four
    # products
    parts = 16 * math.exp(-0.64) + DELTA / 32 + 4 * (DELTA / 32) ** 2 + 4 * DELTA / 32
    assert good_run.failure_given_good_run(2, 2, DELTA, K, 2.0) == pytest.approx(parts, rel=1e-12)
    # of Lemma B.4: given eps' with |eps'| = 1.25 r, the product is N(0, 2 * (1.25 r)^2), against c1 r log = 2 r
    assert 2 * stats.norm.sf(2 / (1.25 * math.sqrt(2))) <= 2 * math.exp(-0.64)


@pytest.mark.states("attention Lemma C.2")
@given(seed=seeds, weak_scale=st.floats(0.01, 1), norm=st.floats(0.1, 100), head=st.floats(0.01, 100))
def test_every_score_of_a_good_run_lies_in_its_range(seed, weak_scale, norm, head):
    n, T, d, delta, rng = 6, 5, 30, 0.5, np.random.default_rng(seed)
    log = math.log(T * n / delta)
    mu = data.signals(norm, d)
    nu = linear_head(mu, head)
    sample = data.draw(rng, n, mu, T, 2, 2, weak_scale, 0.4)
    c2 = np.max(np.abs(sample.noise @ mu.T)) / (norm * math.sqrt(log))  # the run is good for this c2, with equality
    low, high = good_run.token_score_range(sample.Y, sample.Y_star, sample.roles, weak_scale, mu, nu, log, c2)
    scores = sample.Y[:, None] * (sample.X @ nu)
    a, slop = head * norm / math.sqrt(2), 1e-9 * head * (norm + 10)
    assert np.all(low - slop <= scores) and np.all(scores <= high + slop)
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
    low, high = good_run.token_score_range([1.0], [1.0], [[2, 1, -1]], 0.1, mu, nu, 4.0, c / 2)
    assert (X @ nu)[0, 0] == pytest.approx(high[0, 0], rel=1e-12)


@pytest.mark.states("attention Lemma C.2", "attention Assumption A4")
def test_the_bound_on_the_spread_of_scores():
    s = conditions.smallest_setting(9, 10, 0.2, 1)
    mu = data.signals(s.norm, 2)
    low, high = good_run.token_score_range(
        [1.0], [1.0], [[2, 1, -1, 0]], s.weak_scale, mu, linear_head(mu), math.log(90 / 0.2), 0.7
    )
    assert conditions.score_spread(s, 0.7) == pytest.approx(high.max() - low.min(), rel=1e-12)
