"""Good runs: the predicates by hand, and their probability by Monte Carlo.

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
from refimpl.attention.runs import wishart
from refimpl.attention.setting import Setting

ALARM = 1e-4
K = Constants(deviation=0.25, c1=0.5, c2=0.25, margin=0.125)
SIZES = Setting(n=2, T=3, d=8, norm=4, Sigma=25 / 8, delta=6 * math.exp(-4))  # log(Tn/delta) = 4, Tr(Sigma) = 25


def lower_end(hits, trials):
    return stats.beta.ppf(ALARM, hits, trials - hits + 1) if hits else 0.0


def by_hand(noise=(5, 4, 4, 5, 5, 5), Y=(1, -1), Y_star=(1, -1), tilt=0.0):
    """Six noises along the axes 0 to 5, the signals along 6 and 7; tilt adds to all coordinates of the first noise."""
    eps = np.diag(np.pad(np.float64(noise), (0, 2)))[:6]
    eps[0] += tilt
    return Sample(None, np.float64(Y), np.float64(Y_star), eps.reshape(2, 3, 8), None), 4 * np.eye(8)[6:]


@pytest.mark.states("attention Definition A.1")
@pytest.mark.parametrize(
    "event, changes, noise_rate, expected",
    [
        ("(i) lower", {}, 0, 4 / (0.75 * 5)),
        ("(i) lower", {"noise": (5, 3, 5, 5, 5, 5)}, 0, 3 / (0.75 * 5)),
        ("(i) upper", {}, 0, 1.25 * 5 / 5),
        ("(i) upper", {"noise": (5, 10, 5, 5, 5, 5)}, 0, 1.25 * 5 / 10),
        ("(ii)", {}, 0, math.inf),
        ("(ii)", {"tilt": 1.0}, 0, 0.5 * 5 * 4 / 5),  # 1 * 5, against c1 sqrt(25) * 4
        ("(ii)", {"tilt": 4.0}, 0, 0.5 * 5 * 4 / 20),
        ("(iii)", {"tilt": 0.25}, 0, 0.25 * 4 * 2 / 1),  # 4 * tilt, against c2 * 4 * sqrt(4)
        ("(iii)", {"tilt": -1.0}, 0, 0.25 * 4 * 2 / 4),
        ("(iv) C lower", {}, 0, 1 / 0.75),  # one of each in 2 * (1/2 - 1/8, 1/2 + 1/8)
        ("(iv) C lower", {"Y": (1, 1), "Y_star": (1, 1)}, 0, 0),
        ("(iv) C upper", {}, 0, 1.25),
        ("(iv) C upper", {"Y": (1, 1), "Y_star": (1, 1)}, 0, 0.625),
        ("(iv) N lower", {}, 0.2, math.inf),  # 2 * (0.1 - 0.125) < 0
        ("(iv) N lower", {}, 0.5, 0),  # none, against 2 * (0.25 - 0.125)
        ("(iv) N upper", {}, 0, math.inf),
        ("(iv) N upper", {"Y": (1, -1), "Y_star": (-1, -1)}, 0.75, 1),  # one, against 2 * (0.375 + 0.125)
        ("(iv) N upper", {"Y": (1, -1), "Y_star": (-1, -1)}, 0.25, 0.5),
    ],
)
def test_each_event_by_hand_where_it_holds_and_where_it_fails(event, changes, noise_rate, expected):
    sample, mu = by_hand(**changes)
    slack = good_run.good_run(sample, mu, SIZES._replace(noise_rate=noise_rate), K)
    assert slack[event] == pytest.approx(expected, rel=1e-12)


@pytest.mark.states("attention Definition C.1")
def test_each_event_of_a_test_sample_by_hand():
    training, mu = by_hand()
    eps = np.zeros((3, 3, 8))  # the third token of each has no noise in these coordinates
    eps[0, :2, :2] = [[0, 0], [4, 0]]  # 4 * 5 with a training noise
    eps[0, 0, 7] = 3.0  # 3 * 4 with a signal
    eps[1, :2, 2:] = 2.0  # norms sqrt 24; the sample's own product is 24
    eps[2, 0, 6] = eps[2, 1, 7] = 0.25
    slack = good_run.good_test(eps, training.noise, mu, SIZES, K, beyond=[[7, 0, 16], [0, 1, 25], [36, 36, 36]])
    norms = [[4, 4, 4], [math.sqrt(24), 5, 5], [math.sqrt(36 + 1 / 16)] * 2 + [6]]
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
    setting = Setting(n=20, T=4, d=100, Sigma=4.0, delta=0.4)
    k = good_run.constants(setting, margin=0.4)
    t = 2 * math.sqrt(4 * math.log(8 * 200))
    assert k == pytest.approx((1 - (math.sqrt(396) - t) / 20, 12, math.sqrt(56 / 3), 0.4), rel=1e-12)
    with pytest.raises(ValueError, match="delta: needs Tn/delta >= 8"):
        good_run.constants(setting._replace(n=2, T=3, delta=0.9), 0.9)
    with pytest.raises(ValueError, match="margin: needs n >= 13.69"):
        good_run.constants(setting._replace(n=13, T=3), 0.4)


@pytest.mark.states("attention Lemma A.1")
@pytest.mark.parametrize("Sigma", [np.ones(200), np.repeat([4.0, 0.25], [40, 160])])
def test_a_good_run_has_the_promised_probability(Sigma):
    setting = Setting(n=12, T=3, d=len(Sigma), norm=5.0, weak_scale=0.1, delta=0.9, Sigma=Sigma)
    mu, trials, bad = data.signals(5.0, len(Sigma)), 300, 0
    k = good_run.constants(setting, margin=0.4)
    for rng in np.random.default_rng(0).spawn(trials):
        bad += min(good_run.good_run(data.draw(rng, setting), mu, setting, k).values()) < 1
    assert lower_end(bad, trials) <= setting.delta


@pytest.mark.states("attention Lemma A.1")
def test_a_good_run_inside_the_assumptions():
    """(A'1)-(A'3), (A4)-(A6), Eq. 45 at C = 5, d = 1.05e12: of 50 runs, the share of failures is below delta with
    confidence 0.99."""
    s = conditions.smallest_setting(12, 4, 0.1, 5)
    k = good_run.constants(s, margin=0.5)
    bad = 0
    for rng in np.random.default_rng(0).spawn(50):
        sample, mu, _ = wishart.draw_training(rng, s)
        slack = good_run.good_run(sample, mu, s, k)
        bad += min(slack.values()) < 1
    assert k.deviation < 1e-5
    assert stats.beta.ppf(0.99, bad + 1, 50 - bad) <= s.delta


def test_a_tenth_of_the_bounds_is_never_kept():
    setting, rng = Setting(n=12, T=3, d=200, norm=5.0, weak_scale=0.1, delta=0.9), np.random.default_rng(0)
    mu, k = data.signals(5.0, 200), good_run.constants(setting, margin=0.4)
    slacks = [good_run.good_run(data.draw(rng, setting), mu, setting, k) for _ in range(50)]
    for event in ("(i) lower", "(i) upper", "(ii)", "(iii)"):
        assert np.mean([slack[event] < 10 for slack in slacks]) == 1, event


@pytest.mark.states("attention Lemma C.1")
def test_the_event_has_the_promised_probability():
    n, T, d, delta, m, bad, trials = 4, 3, 60, 0.9, 100, 0, 100
    setting, mu = Setting(n=n, T=T, d=d, norm=5.0, delta=delta), data.signals(5.0, d)
    lower, upper = concentration.norm_range(setting)
    k = Constants(max(upper / math.sqrt(d) - 1, 1 - lower / math.sqrt(d)), 6.0, math.sqrt(14 / 3), margin=1.0)
    for rng in np.random.default_rng(0).spawn(trials):  # a new training sample for every hundred test samples
        test, training = rng.standard_normal((m, T, d)), rng.standard_normal((n, T, d))
        slack = good_run.good_test(test, training, mu, setting, k)
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
@given(n=st.integers(1, 1000), T=st.integers(3, 1000), delta=st.floats(1e-6, 0.999), sigma=st.floats(0.01, 100))
def test_given_a_good_run_the_event_has_the_promised_probability_too(n, T, delta, sigma):
    if T * n >= 8 * delta:
        k = Constants(1.0, 6 * math.sqrt(sigma), math.sqrt(14 * sigma / 3), 1.0)  # C' >= 1
        assert good_run.failure_given_good_run(Setting(n=n, T=T, d=1, Sigma=sigma, delta=delta), k) <= delta / n


@pytest.mark.states("attention Lemma C.1", "attention Section C.2")
def test_the_conditional_bound_by_hand():
    """n = 2, T = 3, log = 4, c1 = 1/2, 1/C' = 1/4, sigma_max = 2: 36 exp(-1.6^2 / 4) for 18 pairs with a training
    noise; three own pairs, three norms, six products with a signal."""
    setting, delta = SIZES._replace(Sigma=2.0), SIZES.delta
    parts = 36 * math.exp(-0.64) + 3 * delta / 72 + 6 * (delta / 48) ** 2 + 6 * delta / 48
    assert good_run.failure_given_good_run(setting, K) == pytest.approx(parts, rel=1e-12)
    # of Lemma B.4: given eps' with |eps'| = 1.25 r, the product is N(0, 2 * (1.25 r)^2), against c1 r log = 2 r
    assert 2 * stats.norm.sf(2 / (1.25 * math.sqrt(2))) <= 2 * math.exp(-0.64)


@pytest.mark.parametrize("sizes", [dict(n=3), dict(T=4)])
def test_a_sample_of_other_sizes_than_the_setting_s_is_named(sizes):
    sample, mu = by_hand()
    with pytest.raises(ValueError, match="^sample: "):
        good_run.good_run(sample, mu, SIZES._replace(**sizes), K)
    with pytest.raises(ValueError, match="^training_noise: "):
        good_run.good_test(sample.noise, sample.noise, mu, SIZES._replace(**sizes), K)
