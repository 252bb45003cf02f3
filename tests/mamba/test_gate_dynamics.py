"""Lemmas 4 and 5: the first step of w against the enumerated population, the two phases against SGD."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.stats import binom

from refimpl.mamba.dynamics import clean_mass, growth_rate, laplacian, pattern_attention
from refimpl.mamba.gate_dynamics import clean_rest, drive, first_phase, gate_step, logarithmic, logarithmic_bounds
from refimpl.mamba.model import Weights
from refimpl.mamba.prompts import training_prompts
from refimpl.mamba.runs.patterns import batches, encode, gradient, start
from refimpl.mamba.setting import Setting
from refimpl.mamba.tasks import all_tasks, cycle, disjoint_pairs
from refimpl.mamba.training import sgd
from tests.mamba.population import World


@pytest.mark.states("mamba Lemma 4", "mamba Eqs. 25-26", "mamba Eqs. 23-24")
def test_the_first_step_of_w_by_hand():
    """l = 2, G_1 = 1/8: E tau_1 = 1/2 * 1/2 * 1/8 = 1/32 stands before the second token, whose factor is -1/2.

    It carries v with probability 1/2, kappa_a |v|^2 = 6, and shows mu_j with probability 1/2, beta^2 = 4.
    """
    setting = Setting(M1=2, V=1, beta=2.0, kappa_a=1.5, outlier_norm=2.0, p_a=0.5, l=2, delta=0.1, eta=0.5)
    assert gate_step(setting, 1.0) == pytest.approx((-1 / 2 * 1 / 2 * 6 / 32, -1 / 2 * 1 / 2 * 4 / 32))
    # After one step of eta = 1/2 at the drive delta^2 beta^2 = 0.04: clean tokens, then those that add kappa_a v.
    clean, outlier = first_phase(setting, laplacian(cycle(2), 2), 0.25, 1)
    assert (clean, outlier) == pytest.approx((-0.02 / 32, -0.02 / 32 - 1.5 * 0.02 * 3 / 64))


@pytest.mark.states("mamba Eqs. 28-31", "mamba Eq. 32", "mamba Lemma 5", "mamba Eqs. 33-34")
def test_the_drive_and_the_logarithm_by_hand():
    """Two patterns have eigenvalues 0 and 2: the drive is delta^2 beta^2 (1 + 2 rate)^2t. u = 1 solves u + e^u = 1 + e.

    At rest 1 = x^2 + 2 x^2 for two clean examples: x = 1 / sqrt(3).
    """
    assert drive(laplacian(cycle(2), 2), 0.25, 1, 2.0, 0.1) == pytest.approx((0.04 * 1.5**2, 0.04 * (1 + 1 / 16)))
    assert logarithmic(np.e, 1.0) == pytest.approx(1.0) and logarithmic(1.0, 0.0) == pytest.approx(0, abs=1e-15)
    assert logarithmic_bounds(1.0, 2.0) == pytest.approx((np.log(2), np.log(3)))
    assert clean_rest(0.0, 2) == pytest.approx(np.log(np.sqrt(3) - 1)) and clean_rest(0.5, 1) == pytest.approx(0)


WORLDS = {
    "cycle": dict(tasks=cycle(5), l=2, p_a=0.4),
    "all": dict(tasks=all_tasks(3), l=2, p_a=0.7, V=2),
    "longer": dict(tasks=disjoint_pairs(2), l=3, p_a=0.2),
    "one example": dict(tasks=cycle(3), l=1, p_a=0.5, M2=2),
}


@pytest.mark.states("mamba Lemma 4", "mamba Eqs. 25-26", "mamba Eqs. 23-24")
@pytest.mark.parametrize("name", WORLDS)
def test_the_first_step_of_w_is_the_population_gradient(name):
    options = WORLDS[name]
    w = World(**options)
    step = -w.gradient(w.start(True)).w
    D = w.setting.delta**2 * w.setting.beta**2
    along_v, along_mu = gate_step(w.setting, D)
    assert np.allclose(w.scale[: w.setting.M1] * step[: w.setting.M1], along_mu, rtol=1e-12, atol=1e-18)
    assert np.allclose((w.scale * step[:-1])[-w.setting.V :], along_v, rtol=1e-12, atol=1e-18)
    nu = step[w.setting.M1 : w.setting.M1 + w.setting.M2]
    assert np.max(np.abs(nu)) < 1e-17 and abs(step[-1]) < 1e-17  # nu and the label: nothing
    assert (along_v < 0 and along_mu < 0) or options["l"] == 1


@pytest.mark.states("mamba Lemma 4")
def test_the_drive_is_the_attention_on_the_own_pattern_less_the_partners():
    """With W_B, W_C after four steps of descent, w still at 0."""
    w = World(cycle(5))
    Psi = w.descend(True, 0.7, 4)[-1]
    L, rate = laplacian(cycle(5), 5), 0.7 * growth_rate(w.setting.beta, 5, clean_mass(0.4, 2))
    along_v, along_mu = gate_step(w.setting, drive(L, rate, 4, w.setting.beta, w.setting.delta)[0])
    step = -w.gradient(Psi).w
    assert w.setting.beta * step[0] == pytest.approx(along_mu, rel=1e-11)
    assert 2.0 * step[6] == pytest.approx(along_v, rel=1e-11)


@pytest.mark.states("mamba Eqs. 28-31", "mamba Eq. 32")
@given(st.sampled_from([cycle(5), all_tasks(4), disjoint_pairs(6)]), st.floats(1e-6, 0.5), st.integers(0, 50))
def test_the_drive_grows_at_least_as_printed(tasks, rate, t):
    L = laplacian(tasks, tasks.max() + 1)
    left, right = drive(L, rate, t, 2.0, 0.1)
    assert left >= right * (1 - 1e-12) and right == pytest.approx(0.04 * (1 + (t * rate) ** 2))
    s = pattern_attention(L, rate, t, 2.0, 0.1)
    apart = [s[a, a] - s[a, b] for a, b in tasks]  # the mean over tasks, by hand
    assert left == pytest.approx(np.mean(apart), rel=1e-9)


@pytest.mark.states("mamba Lemma 4", "mamba Eq. 27", "mamba Eq. 32")
@pytest.mark.parametrize("tasks", [cycle(6), all_tasks(6), disjoint_pairs(6)])
def test_sgd_follows_the_first_phase(tasks):
    """l = 20, B = 512, 250 steps, seed 0, w from 0: both within 5 %; an outlier's below a clean one's, both below 0."""
    setting = Setting(tasks=tasks, delta=0.02, eta=0.02, B=512)
    W, drawn = np.eye(19, 20) * setting.delta, batches(np.random.default_rng(0), setting)
    Psi, _ = sgd(Weights(W, W.copy(), np.zeros(20)), drawn, setting.eta, 250, gradient)
    clean = np.mean(3 * Psi.w[:6])
    outlier = clean + 2 * np.mean(3 * Psi.w[16:19])
    rate = setting.eta * growth_rate(3.0, 6, clean_mass(0.6, 20))
    expected = first_phase(setting, laplacian(tasks, 6), rate, 250)
    assert (clean, outlier) == pytest.approx(expected, rel=0.05)
    assert outlier < clean < 0 and outlier > -0.3  # the phase in which all gates are near their start


@pytest.mark.states("mamba Lemma 4", "mamba Eq. 27", "mamba Eq. 32")
def test_the_first_phase_begins_with_one_step():
    L, setting = laplacian(cycle(6), 6), Setting(eta=0.7, delta=0.02)
    assert first_phase(setting, L, 0.1, 0) == (0, 0)
    along_v, along_mu = gate_step(setting, 0.02**2 * 9)
    expected = 0.7 * along_mu, 0.7 * (along_mu + 2 * along_v)
    assert first_phase(setting, L, 0.1, 1) == pytest.approx(expected)


@pytest.mark.states("mamba Lemma 5")
@pytest.mark.parametrize("x", [1e-3, 1.0, 250.0, 298.5, 299.5, 400.0, 1e4])
def test_the_logarithm_solves_its_equation(x):
    u = logarithmic(1.0, x)
    assert u + np.exp(u) == pytest.approx(1 + x, rel=1e-13)


@pytest.mark.states("mamba Lemma 5")
def test_linear_and_then_logarithmic():
    c = 0.3
    flow = solve_ivp(lambda t, u: c / (1 + np.exp(u)), (0, 500), [0.0], t_eval=[1, 20, 500], rtol=1e-10, atol=1e-12)
    assert logarithmic(c, flow.t) == pytest.approx(flow.y[0], rel=1e-8)
    assert logarithmic(1e-6, 1.0) == pytest.approx(0.5e-6, rel=1e-5)  # c t / 2
    u = logarithmic(c, np.array([1e6, 1e200, 1e305]))
    assert u == pytest.approx(np.log(c) + np.log([1e6, 1e200, 1e305]), rel=1e-3)
    assert logarithmic(c, 0) == pytest.approx(0, abs=1e-15)


@lru_cache
def gate_alone(eta=30.0, B=256, steps=800, l=20):
    """w trained with the attention kept at its start, disjoint pairs: (t, 2) mean clean and outlier pre-activations."""
    rng, W, seen = np.random.default_rng(0), np.eye(19, 20) * 0.02, []
    Psi, setting = Weights(W, W, np.zeros(20)), Setting(tasks=disjoint_pairs(6), l=l)
    for _ in range(steps):
        p = training_prompts(rng, B, setting)
        by, F = gradient(encode(p, setting), p.z, Psi)
        assert np.max(np.abs(F)) < 1
        Psi = Psi._replace(w=Psi.w - eta * by.w)
        clean = 3 * np.mean(Psi.w[:6])
        seen.append((clean, clean + 2 * 3 * np.mean(Psi.w[16:19])))
    return np.array(seen)


@pytest.mark.states("mamba Lemma 5")
def test_the_two_phases_of_w_under_a_fixed_attention():
    """Linear within 15 % at step 3; from t = 80 to 800 u = -w^T p has slope 1 within 0.25 against log t."""
    seen = gate_alone()
    along_v, along_mu = gate_step(Setting(), 0.02**2 * 9)
    assert seen[2, 1] == pytest.approx(3 * 30 * (along_mu + 2 * along_v), rel=0.15)
    t = np.geomspace(80, 800, 12).astype(int)
    slope = np.polyfit(np.log(t), -seen[t - 1, 1], 1)[0]
    assert slope == pytest.approx(1, abs=0.25)
    assert seen[-1, 1] < -np.log(6) and seen[-1, 0] > -1.5


@pytest.mark.states("mamba Lemma 5")
def test_clean_tokens_come_to_rest_at_a_level_that_depends_on_l():
    """Where outliers are shut, within 5 % of the closed form; its Theta(1) grows with l like log(n / log n)."""
    assert np.mean(gate_alone()[400:800, 0]) == pytest.approx(clean_rest(0.6, 20), rel=0.05)
    x = np.linspace(1e-4, 1 - 1e-4, 20001)
    mass = np.sum(binom.pmf(np.arange(21), 20, 0.4)[:, None] * (x - x ** (np.arange(21)[:, None] + 1)), axis=0)
    best = x[np.argmax(mass)]
    assert clean_rest(0.6, 20) == pytest.approx(np.log((1 - best) / best), abs=2e-3)
    n = 0.4 * 10**6
    assert clean_rest(0.6, 10**6) == pytest.approx(-np.log(n / np.log(n)), rel=0.05)


@pytest.mark.states("mamba Lemma 5")
@pytest.mark.parametrize("M1", [4, 13, 40])
def test_after_training_outliers_are_below_minus_log_m_1(M1):
    """The highest outlier token is below -log M_1, and clean ones are above -1.5.

    M_1 over a decade, 30 M_1 steps (27 T_M), the constants 1.
    """
    setting, rng = Setting(M1=M1, d=60, B=64), np.random.default_rng(0)
    Psi, _ = sgd(start(setting, rng), batches(rng, setting), 1.0, 30 * M1, gradient)
    clean, v = 3 * Psi.w[:M1], 3 * Psi.w[M1 + 10 : M1 + 13]
    assert np.max(clean) + 2 * np.max(v) < -np.log(M1)
    assert np.min(clean) > -1.5


@pytest.mark.states("mamba Eqs. 33-34")
@pytest.mark.erratum("mamba-gamma-1")
@pytest.mark.parametrize("c", [1.0, 0.3, 0.01])
def test_logarithmic_bounds_of_the_induction(c):
    u, seen = 0.0, [0.0]
    for _ in range(3000):
        u += c / (1 + np.exp(u))
        seen.append(u)
    lower, upper = logarithmic_bounds(c, np.arange(3001))
    assert np.all(lower <= np.array(seen) + 1e-12) and np.all(np.array(seen) <= upper + 1e-12)
    assert seen[1] == pytest.approx(c / 2) and lower[1] > 0.8 * seen[1] and upper[-1] < seen[-1] + 0.3
    # The rate along v is c = eta (1 - p_a) beta^2 kappa_a / V up to constants. With the printed gamma_1 <= c V /
    # kappa_a the step (i) asks c / (3 + t gamma) >~ log(1 + gamma / (2 + t gamma)): at V / kappa_a = 30 it is short
    # 20-fold; gamma_1 = 2c/3 holds.
    t = np.arange(3000)
    for gamma, holds in ((2 * c / 3, True), (30 * c, False)):
        ratio = c / (3 + t * gamma) / np.log1p(gamma / (2 + t * gamma))
        assert np.all(ratio >= 1 - 1e-9) if holds else np.max(ratio) < 1 / 4 and ratio[-1] < 1 / 20


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: logarithmic(-1, 5), "c, t"),
        (lambda: logarithmic(1, [2.0, -5.0]), "c, t"),
        (lambda: gate_step(Setting(M1=0), 1.0), "M1"),
        (lambda: gate_step(Setting(V=0), 1.0), "V"),
        (lambda: gate_step(Setting(outlier_norm=np.nan), 1.0), "outlier_norm"),
        (lambda: gate_step(Setting(), -1.0), "drive"),
        (lambda: first_phase(Setting(), laplacian(cycle(6), 6), 0.1, -1), "t"),
    ],
)
def test_numbers_out_of_range_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-rate-without-p-a")
@pytest.mark.erratum("mamba-upper-27")
def test_the_rates_hold_the_factor_that_each_needs():
    """Along v the rate has p_a (1 - p_a), along mu 1 - p_a.

    Along v printed kappa_a (1 - p_a) beta^2 / V, without p_a: at p_a = 0.01 it should be near its largest, and is 1/17
    of the one at 0.2. Eq. 27's upper side -eta beta^2 / M_1 lacks 1 - p_a: passed by any factor as p_a -> 1.
    """

    def rates(p_a):
        w = World(cycle(3), p_a=p_a)
        step = -w.gradient(w.start(True)).w
        return 2.0 * step[-2], w.setting.beta * step[0]

    assert rates(0.01)[0] / rates(0.2)[0] == pytest.approx(0.01 * 0.99 / (0.2 * 0.8), rel=1e-9)
    assert rates(0.01)[0] / rates(0.2)[0] < 0.1 < 0.99 / 0.8  # printed: 0.99 / 0.8
    assert rates(0.99)[1] / rates(0.5)[1] == pytest.approx(0.01 / 0.5, rel=1e-9)  # printed upper side: 1


@pytest.mark.erratum("mamba-outlier-token-rate")
def test_an_outlier_token_falls_by_kappa_a_squared_over_v():
    """kappa_a v^T w of Lemma 4's own rate is kappa_a^2 / V.

    Eq. 13 and the display before Eq. 28 print kappa_a (1 - p_a) without 1/V.
    """

    def rate(kappa_a, V):
        w = World(disjoint_pairs(2), kappa_a=kappa_a, V=V)
        step = -w.gradient(w.start(True)).w
        return kappa_a * 2.0 * step[-2]

    assert rate(2.0, 1) == pytest.approx(4 * rate(1.0, 1), rel=1e-9)  # printed: 2 times
    assert rate(1.0, 3) == pytest.approx(rate(1.0, 1) / 3, rel=1e-9)  # printed: the same


@pytest.mark.erratum("mamba-28-without-v")
def test_each_outlier_direction_has_its_share_of_the_steps():
    """Eq. 28 starts from v*^T w = -eta beta^2 t_0 kappa_a (1 - p_a), the same for every V; it is 1/V of that."""
    steps = [-World(disjoint_pairs(2), V=V).gradient(World(disjoint_pairs(2), V=V).start(True)).w for V in (1, 2, 3)]
    along = np.array([step[-2] for step in steps])
    assert along[0] < 0 and along == pytest.approx(along[0] / np.array([1, 2, 3]), rel=1e-9)


@pytest.mark.erratum("mamba-index-shift")
def test_the_sum_of_the_first_step_of_v():
    """With i -> l+1-i the sum is sum_i i 2^{-(1+i)}, twice the printed one; the outliers' is half of it.

    Printed: sum_i 2^{-(l+2-i)} (l-i+1) = sum_i i 2^{-(2+i)}. And the query carries no outlier: the s > i that can are
    l - i, which leaves 1/2 (1 - (l+1) 2^-l).
    """
    l = 9
    i = np.arange(1, l + 1)
    printed_left, printed_right = np.sum(0.5 ** (l + 2 - i) * (l - i + 1)), np.sum(i * 0.5 ** (2 + i))
    assert printed_left == pytest.approx(np.sum(i * 0.5 ** (1 + i))) == pytest.approx(2 * printed_right)
    assert np.sum(0.5 ** (l + 2 - i) * (l - i)) == pytest.approx(0.5 * (1 - (l + 1) * 0.5**l))


@pytest.mark.erratum("mamba-noise-part")
def test_the_part_that_averages_out_is_that_of_the_outliers():
    """The mean over examples with an outlier is 0; that over those without is the whole step.

    Section 11.3 (t = 1) prints the sum over examples WITHOUT an outlier as the one of order sqrt(log B / B).
    """
    w = World(cycle(3))
    p, half = w.prompts, np.array([1 / 8, 1 / 4, 1 / 2])
    tau = p.z[:, None] * p.y * half * w.setting.delta**2 * np.einsum("nid,nd->ni", w.P[..., :-1], w.P[:, -1, :-1])
    parts = []
    for keep in (p.s < 0, p.s >= 0):
        t = tau * keep
        u = t / 2 - (np.cumsum(t, axis=1) - t) / 2
        parts.append(np.einsum("n,ns,nsd->d", w.probability, u, w.P))
    assert np.max(np.abs(parts[1])) < 1e-18
    assert np.allclose(parts[0], -w.gradient(w.start(True)).w, atol=1e-18) and np.max(np.abs(parts[0])) > 1e-6
