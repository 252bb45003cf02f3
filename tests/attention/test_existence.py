"""Theorem 4.1 in its regime: each inequality of Appendix C on good runs, all training labels, the test error.

Every run is drawn without d (wishart.py) in the smallest setting with (A1)-(A3), (A4)-(A6), delta = 0.1. Bounds on
probabilities are Clopper-Pearson's at confidence 0.99 from seed 0: false-alarm rate 0.01 each where p is at its bound.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refimpl.attention import conditions, data, existence, good_run, model
from refimpl.attention.head import linear_head
from refimpl.attention.runs import wishart
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import softmax
from tests.strategies import logits

DELTA = 0.1


class Run(NamedTuple):
    setting: object
    k: object
    sample: object
    mu: object
    Sigma: object
    noisy: object
    tokens: object
    beta: object
    v: object
    R: float


@functools.cache
def runs(C=8.0, place=0.0, T=4, relevant=1, weak=2, times=6, factor=1.0):
    """Good runs with a noisy sample at the smallest setting for C; beta_j = factor / n."""
    n = math.ceil(C * math.log(1 / DELTA))
    s = conditions.smallest_setting(n, T, DELTA, C, place, strong=False)._replace(relevant=relevant, weak=weak)
    k = good_run.constants(s, margin=0.5)
    found = []
    for rng in np.random.default_rng(0).spawn(10 * times):
        sample, mu, Sigma = wishart.draw_training(rng, s)
        noisy, tokens = existence.memorised_tokens(sample)
        good = min(good_run.good_run(sample, mu, s, k).values()) >= 1
        if good and len(noisy) and len(found) < times:
            beta = np.full(len(noisy), factor / n)
            v = existence.direction(mu, sample.noise, noisy, tokens, beta)
            R = max(existence.least_scale(s, beta, k.c2))
            found.append(Run(s, k, sample, mu, Sigma, noisy, tokens, beta, v, R))
    assert len(found) == times
    return found


SETTINGS = [
    dict(C=8.0),
    dict(C=8.0, place=1.0),
    dict(C=12.0, place=0.5, T=8, relevant=2, weak=4),
    dict(C=20.0, times=2),
]


def clean(run, m):
    """The setting of m clean samples in the space that the run was drawn in; data.draw takes its signals."""
    return run.setting._replace(n=m, noise_rate=0, d=len(run.Sigma), Sigma=run.Sigma)


def errors(run, p, m, seed):
    """Wrong signs among m clean test samples, zero counting as wrong."""
    test = data.draw(np.random.default_rng(seed), clean(run, m), run.mu)
    return int(np.sum(test.Y_star * model.output(test.X, p, linear_head(run.mu)) <= 0))


@pytest.mark.states("attention Section C.1")
def test_the_bounds_and_requirements_by_hand():
    """|mu| = 2, rho = 1/2, Tr = 64, log(Tn/delta) = 4, c1 = 1/8, c2 = 1/4, 1/C' = 1/2: S = 1, Q = 4.
    beta = (1, 2): B = 3."""
    s = Setting(n=2, T=3, d=64, norm=2, weak_scale=0.5, delta=6 * math.exp(-4))
    k = good_run.Constants(0.5, 0.125, 0.25, 0.1)
    bounds = existence.logit_bounds(s, [1.0, 2.0], k)
    assert bounds["Eq. 104"] == pytest.approx((4 - 5 - 12, 2))
    assert bounds["Eq. 105"] == pytest.approx((2 + 3.5 + 12, 1))
    np.testing.assert_allclose(bounds["Eq. 116"][0], [2 + 8.5 + 20 - 16, 2 + 8.5 + 16 - 32])
    np.testing.assert_allclose(bounds["Eq. 116"][1], [-8, -16])
    assert existence.requirements(s, [1.0, 2.0], k) == pytest.approx(
        {
            "Eq. 104, signal": 1 / 5,
            "Eq. 104, noise": 1 / 12,
            "Eq. 105": 1 / 17.5,
            "Eq. 116, A1": 8 / 2,
            "Eq. 116, A2": 8 / 8.5,
            "Eq. 116, Eq. 44": 8 / 20,
            "Eq. 116, norm": 0.5,
            "Eq. 120": 2 / 3,
        }
    )
    noisy, clean = existence.least_scale(s, [1.0, 2.0], 0.25)
    assert noisy == pytest.approx(8 / 64 * math.log(2 * 1.5 * 2 / 0.5)) and clean == pytest.approx(
        math.log(2 * 1.5 * 2)
    )
    least, most = existence.memory_attention(s, 0.5, [1.0, 2.0])
    np.testing.assert_allclose(most, [math.exp(-4), math.exp(-8)])
    np.testing.assert_allclose(least, [1 - 2 * math.exp(-4), 1 - 2 * math.exp(-8)])


@pytest.mark.states("attention Section C.1")
def test_eq_101_by_hand():
    """T = 4, one relevant token, gaps 2, 3, 3: 1 - 3 e^-2. Then three relevant ones, all gaps 2: 1 - e^-2 / 3, close to
    1 / (1 + e^-2 / 3)."""
    left, right = existence.relevant_attention([[3.0, 1.0, 0.0, 0.0]], [[2, 1, -1, 0]])
    assert right == pytest.approx(1 - 3 * math.exp(-2)) and left > right
    left, right = existence.relevant_attention([[2.0, 2.0, 2.0, 0.0]], [[2, 2, 2, 0]])
    assert right == pytest.approx(1 - math.exp(-2) / 3) and left == pytest.approx(1 / (1 + math.exp(-2) / 3))


@pytest.mark.states("attention Theorem 4.1")
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("larger", [1, 10, 1e4])
def test_every_label_is_fitted_and_test_samples_are_right(case, larger):
    for seed, run in enumerate(runs(**case)):
        p = existence.solution(run.v, larger * run.R)
        f = model.output(run.sample.X, p, linear_head(run.mu))
        assert np.all(run.sample.Y * f > 0) and np.any(run.sample.Y_star * f < 0)
        m = 60 * run.setting.n  # no error among them puts the upper end below delta / n
        wrong = errors(run, p, m, seed)
        assert stats.beta.ppf(0.99, wrong + 1, m - wrong) <= existence.error_bound(run.setting) == DELTA / run.setting.n


@pytest.mark.states("attention Theorem 4.1")
def test_it_does_so_with_probability_one_minus_delta():
    """50 training samples at C = 8, good or not; a failure is a label not fitted, or one wrong of 60 n test samples."""
    s, failed = runs()[0].setting, 0
    for seed, rng in enumerate(np.random.default_rng(0).spawn(50)):
        sample, mu, Sigma = wishart.draw_training(rng, s)
        v = existence.direction(mu, sample.noise, *existence.memorised_tokens(sample), 1 / s.n)
        p = existence.solution(v, max(existence.least_scale(s, 1 / s.n, math.sqrt(14 / 3))))
        fitted = np.all(sample.Y * model.output(sample.X, p, linear_head(mu)) > 0)
        failed += not fitted or errors(Run(s, None, sample, mu, Sigma, *[None] * 5), p, 60 * s.n, seed) > 0
    assert stats.beta.ppf(0.99, failed + 1, 50 - failed) <= DELTA


@pytest.mark.states("attention Theorem 4.1")
def test_without_memory_the_noisy_are_not_fitted_and_with_too_much_test_samples_are_wrong():
    for seed, run in enumerate(runs()):
        nu, scale = linear_head(run.mu), 1e4 * run.R
        signal_only = model.output(run.sample.X, scale * run.mu.sum(axis=0), nu)
        assert np.all(run.sample.Y_star * signal_only > 0)
        flipped = existence.direction(run.mu, run.sample.noise, run.noisy, run.tokens, -run.beta)
        assert np.all((run.sample.Y * model.output(run.sample.X, scale * flipped, nu))[run.noisy] < 0)
        # beta ten times above |mu|^2 / sqrt(Tr), from where on the products of noises are of the signal's size
        beta = 10 * run.setting.norm**2 / math.sqrt(run.setting.trace)
        harmful = existence.direction(run.mu, run.sample.noise, run.noisy, run.tokens, beta)
        assert errors(run, scale * harmful, 500, seed) > 50


@pytest.mark.states("attention Theorem 4.1")
def test_the_solution_with_an_orthogonal_w_is_the_same_model():
    rng, d, n, T = np.random.default_rng(0), 120, 8, 4
    mu = data.signals(12.0, d)
    sample = data.draw(rng, Setting(n=n, T=T, d=d, norm=12.0, noise_rate=0.4))
    noisy, tokens = existence.memorised_tokens(sample)
    assert len(noisy)
    v = existence.direction(mu, sample.noise, noisy, tokens, np.full(len(noisy), 1.0))
    by_hand = mu[0] + mu[1]
    for j in range(n):
        if sample.Y[j] != sample.Y_star[j]:
            u = min(t for t in range(T) if sample.roles[j, t] == sample.Y[j])
            by_hand = by_hand + 1.0 * sample.noise[j, u]
    np.testing.assert_allclose(v, by_hand, rtol=1e-12)
    W, nu = model.random_orthogonal(rng, d), linear_head(mu)
    plain, turned = existence.solution(v, 0.3), existence.solution(v, 0.3, W)
    np.testing.assert_allclose(
        model.output(sample.X, turned, nu, W), model.output(sample.X, plain, nu), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(plain, 0.3 * v)


@pytest.mark.states("attention Section C.1")
@given(z=logits(bound=700, rows=3, most=6), seed=st.integers(0, 2**32 - 1))
def test_eq_101_for_any_logits(z, seed):
    if z.shape[1] < 2:
        return
    rng = np.random.default_rng(seed)
    roles = rng.choice([2, 1, -1, 0], z.shape)
    roles[:, 0], roles[:, 1] = 2, 0
    left, right = existence.relevant_attention(z, roles)
    np.testing.assert_allclose(left, np.sum(softmax(z) * (roles == 2), axis=1), rtol=1e-12)
    assert np.all(left >= right - 1e-12)


def on_clean(run):
    """Products with v of each clean sample's tokens, and which of them are relevant."""
    clean = run.sample.Y == run.sample.Y_star
    return run.sample.X[clean] @ run.v, run.sample.roles[clean] == data.RELEVANT


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_104_on_every_clean_sample(case):
    for run in runs(**case):
        least, half = existence.logit_bounds(run.setting, run.beta, run.k)["Eq. 104"]
        products, own = on_clean(run)
        assert np.min(products[own]) >= least >= half == run.setting.norm**2 / 2


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_105_on_every_clean_sample(case):
    for run in runs(**case):
        most, quarter = existence.logit_bounds(run.setting, run.beta, run.k)["Eq. 105"]
        products, own = on_clean(run)
        assert np.max(products[~own]) <= most <= quarter == run.setting.norm**2 / 4


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_116_on_every_noisy_sample(case):
    for run in runs(**case):
        bounds = existence.logit_bounds(run.setting, run.beta, run.k)["Eq. 116"]
        for j, u, bound, simple, beta in zip(run.noisy, run.tokens, *bounds, run.beta):
            products = run.sample.X[j] @ run.v
            gaps = np.delete(products - products[u], u)
            assert np.max(gaps) <= bound <= simple == pytest.approx(-beta * run.setting.trace / 8)


def relevant_floor(run):
    """Eq. 101 through Eqs. 104 and 105: R m^2/4 is the least gap of logits on a clean sample."""
    zeta = run.setting.relevant / run.setting.T
    return 1 - (1 - zeta) / zeta * math.exp(-run.R * run.setting.norm**2 / 4)


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_101_on_every_clean_sample(case):
    for run in runs(**case):
        products, own = on_clean(run)
        mass, right = existence.relevant_attention(run.R * products, np.where(own, data.RELEVANT, data.IRRELEVANT))
        assert np.all(mass >= right) and np.all(right >= relevant_floor(run) - 1e-9)


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eqs_113_and_114_on_every_noisy_sample(case):
    for run in runs(**case):
        least, most = existence.memory_attention(run.setting, run.R, run.beta)
        attention = softmax(run.R * (run.sample.X[run.noisy] @ run.v))
        own = np.arange(run.setting.T) == run.tokens[:, None]
        assert np.all(attention[own] >= least)
        assert np.all(np.where(own, 0, attention) <= most[:, None])


def outputs(run):
    """Y f of every sample at R, and Lemma C.2's a and e."""
    nu = linear_head(run.mu)
    a = nu @ run.mu[0]
    e = 2 * run.k.c2 * a / run.setting.norm * math.sqrt(math.log(run.setting.n * run.setting.T / DELTA))
    return run.sample.Y * model.output(run.sample.X, run.R * run.v, nu), a, e


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_111_every_clean_label_is_fitted_through_lemma_c_2(case):
    for run in runs(**case):
        f, a, e = outputs(run)
        lower = a - e - (1 - relevant_floor(run)) * a * (1 + run.setting.weak_scale)
        assert np.all(f[run.sample.Y == run.sample.Y_star] >= lower) and lower > 0


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("case", SETTINGS)
def test_eq_120_every_noisy_label_is_fitted_through_lemma_c_2(case):
    for run in runs(**case):
        (f, a, e), s, c2 = outputs(run), run.setting, run.k.c2
        root, rho = math.sqrt(math.log(s.n * s.T / DELTA)), s.weak_scale
        lost = 1 - existence.memory_attention(s, run.R, run.beta)[0]
        lower = a * rho - e - lost * a * (1 + rho)
        assert np.all(f[run.noisy] >= lower) and np.all(lower > 0)
        assert np.all(lost * s.norm * (1 + rho) <= c2 * root * (1 + 1e-6))
        assert np.all(lower >= a / s.norm * (rho * s.norm - 3 * c2 * root) * (1 - 1e-6))


@pytest.mark.states("attention Section C.1")
@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("C", [8.5, 16.0, 64.0])
def test_the_assumptions_grant_what_the_proof_requires_from_c_8_on(C, place):
    """beta_j = 1/n, |N| <= n/4. The tightest is (A1): Tr / (8n) >= (1 - rho) |mu|^2."""
    n = math.ceil(C * math.log(1 / DELTA))
    s = conditions.smallest_setting(n, 4, DELTA, C, place, strong=False)
    k = good_run.constants(s, 0.5)
    slacks = existence.requirements(s, np.full(n // 4, 1 / n), k)
    assert min(slacks.values()) >= 1
    assert slacks["Eq. 116, A1"] == pytest.approx(C / 8 / (1 - s.weak_scale), rel=1e-6)
    if place == 0:
        assert slacks["Eq. 120"] == pytest.approx(C / (3 * k.c2), rel=1e-6)  # c2 = 2.16: C >= 6.5


@pytest.mark.states("attention Section C.1")
def test_each_bound_is_attained_by_the_worst_noise():
    """One noisy sample, beta = 1: noises built so that every product of (i)-(iii) is at its limit, Tr = |eps|^2,
    1/C' = 0. The coordinates are the two signals', then one axis a token."""
    m, S, Q, rho, trace = 10.0, 3.0, 2.0, 0.25, 5000.0
    noise = np.zeros((3, 6))  # the clean sample's R and W tokens, and u_j
    x = S / m
    memory = np.array([-x, -x, math.sqrt(trace - 2 * x**2), 0, 0, 0])
    noise[0, :2], noise[0, 2] = -x, (-Q - 2 * x**2) / memory[2]
    noise[1, :2], noise[1, 2] = x, (Q + 2 * x**2) / memory[2]
    mu = data.signals(m, 6)
    v = existence.direction(mu, memory[None, None], np.array([0]), np.array([0]), 1.0)
    s = Setting(n=2, T=3, d=5000, norm=m, weak_scale=rho, delta=6 * math.exp(-4))
    k = good_run.Constants(0.0, Q / math.sqrt(trace) / 4, S / m / 2, 0.1)
    bounds = existence.logit_bounds(s, [1.0], k)
    assert (mu[0] + noise[0]) @ v == pytest.approx(bounds["Eq. 104"][0], rel=1e-12)
    assert (rho * mu[0] + noise[1]) @ v == pytest.approx(
        bounds["Eq. 105"][0] - 2 * rho * S, rel=1e-12
    )  # <mu, eps> = -S here: the two signs cannot meet in one memory


@pytest.mark.states("attention Section C.1")
@pytest.mark.erratum("attention-c1-scale-clean")
def test_the_scale_that_fits_the_noisy_samples_need_not_fit_the_clean():
    """C = 8, |mu| = 1e6, (A2) and rho <= 1/C with equality: Tr is 6e4 times (A1)'s, and the R of Eq. 120 leaves
    attention on clean samples uniform. T = 16, one relevant token; a clean sample has 14 weak tokens against its label,
    one for it."""
    n, T, C, m, rng = 19, 16, 8.0, 1e6, np.random.default_rng(0)
    d = int((m / (C * math.sqrt(math.log(n * T / DELTA)))) ** 4 * (1 - 1e-9))
    s = Setting(n=n, T=T, d=d, norm=m, weak=15, weak_scale=1 / C, noise_rate=1 / C, delta=DELTA)
    assert min(conditions.assumptions(s, C).values()) >= 1 and n >= C * math.log(1 / DELTA)
    sample, mu, _ = wishart.draw_training(rng, s)
    i = int(np.flatnonzero(sample.Y == sample.Y_star)[0])
    roles = sample.roles.copy()
    roles[i, 1:] = np.where(np.arange(15) == 0, sample.Y[i], -sample.Y[i])
    sample = sample._replace(roles=roles, X=data.signal_of(sample.Y_star, roles, 1 / C) @ mu + sample.noise)
    k = good_run.constants(s, 0.5)
    assert min(good_run.good_run(sample, mu, s, k).values()) >= 1
    noisy, tokens = existence.memorised_tokens(sample)
    beta = np.full(len(noisy), 1 / n)
    v, nu = existence.direction(mu, sample.noise, noisy, tokens, beta), linear_head(mu)
    assert min(existence.requirements(s, beta, k).values()) >= 1
    for_noisy, for_clean = existence.least_scale(s, beta, k.c2)
    f = sample.Y * model.output(sample.X, existence.solution(v, for_noisy), nu)
    assert np.all(f[noisy] > 0) and f[i] < 0
    # uniform attention: (1 + (1 - 14) / 8) / 16 of a = 1 / sqrt 2
    assert f[i] == pytest.approx((1 - 13 / 8) / 16 / math.sqrt(2), rel=0.01)
    assert for_clean > for_noisy
    assert np.all(sample.Y * model.output(sample.X, existence.solution(v, for_clean), nu) > 0)


@pytest.mark.states("attention Section C.2")
@pytest.mark.parametrize("case", SETTINGS[:3])
def test_on_the_event_a_test_sample_has_the_same_bounds_and_the_event_is_likely(case):
    m, missed = 500, 0
    for seed, run in enumerate(runs(**case)):
        s, k, rng = run.setting, run.k, np.random.default_rng(seed)
        test = data.draw(rng, clean(run, m), run.mu)
        beyond = rng.chisquare(s.trace - len(run.Sigma), (m, s.T))  # the norm off the training's space
        slack = good_run.good_test(test.noise, run.sample.noise, run.mu, s, k, beyond)
        event = np.min(list(slack.values()), axis=0) >= 1
        missed += m - int(event.sum())
        products, own = test.X @ run.v, test.roles == data.RELEVANT
        bounds = existence.logit_bounds(s, run.beta, k)
        assert np.min(products[event][own[event]]) >= bounds["Eq. 104"][0]
        assert np.max(products[event][~own[event]]) <= bounds["Eq. 105"][0]
        f = test.Y_star * model.output(test.X, run.R * run.v, linear_head(run.mu))
        assert np.all(f[event] > 0)  # Eq. 124: the error is the event's complement's
    trials = m * len(runs(**case))
    assert stats.beta.ppf(0.99, missed + 1, trials - missed) <= existence.error_bound(runs(**case)[0].setting)


@pytest.mark.states("attention Section C.2")
def test_the_error_bound_by_hand():
    assert existence.error_bound(runs()[0].setting._replace(n=20, delta=0.1)) == pytest.approx(0.005)


def test_no_noisy_sample_leaves_the_signals_alone():
    mu = data.signals(2.0, 3)
    sample = data.draw(np.random.default_rng(0), Setting(n=3, T=4, d=3, norm=2.0, noise_rate=0))
    noisy, tokens = existence.memorised_tokens(sample)
    np.testing.assert_array_equal(existence.direction(mu, sample.noise, noisy, tokens, 0.1), mu.sum(axis=0))


@pytest.mark.erratum("attention-c2-transpose")
def test_without_its_transpose_the_model_has_no_value_or_another_one():
    rng = np.random.default_rng(0)
    X, p, nu = rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5)
    with pytest.raises(ValueError):
        nu @ X  # as printed: nu has d entries, X has T rows
    s = softmax(X @ p)
    assert model.output(X, p, nu) == pytest.approx(nu @ X.T @ s)
    square = rng.standard_normal((5, 5))
    s = softmax(square @ p)
    assert model.output(square, p, nu) == pytest.approx(nu @ square.T @ s)
    assert abs(nu @ square @ s - nu @ square.T @ s) > 0.1


def test_a_noisy_sample_without_a_token_for_its_label_and_a_sample_of_relevant_tokens_alone_are_named():
    X = np.zeros((1, 3, 2))
    sample = data.Sample(X, np.array([1.0]), np.array([-1.0]), X, np.array([[2, -1, 0]]))
    with pytest.raises(ValueError, match="^sample: "):
        existence.memorised_tokens(sample)
    with pytest.raises(ValueError, match="^T: "):
        existence.least_scale(Setting(T=8, relevant=8), [0.1], 1.0)
