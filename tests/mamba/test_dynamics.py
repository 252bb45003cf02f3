"""Lemma 3 and what it is made of: the linear law against the enumerated population and against SGD."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from refimpl.mamba.dynamics import (
    clean_mass,
    diagonal_growth,
    growth_rate,
    laplacian,
    mu_block,
    noise_ratio,
    pattern_attention,
    step_noise,
)
from refimpl.mamba.model import Weights
from refimpl.mamba.prompts import training_prompts
from refimpl.mamba.runs.patterns import batches, encode, gradient
from refimpl.mamba.setting import Setting
from refimpl.mamba.tasks import all_tasks, balanced_tasks, cycle, disjoint_pairs
from refimpl.mamba.training import sgd
from refimpl.statistics import exponent
from tests.mamba.population import SMALL, World
from tests.strategies import seeds


@pytest.mark.states("mamba Lemma 3", "mamba Eqs. 21-22", "mamba Eqs. 16-17")
def test_three_patterns_by_hand():
    """On the cycle of three L = 3/2 (I - 1 1^T / 3), so that L^2 = 3/2 L and (I + L/2)^2 = I + (1 + 3/8) L."""
    L = laplacian(cycle(3), 3)
    assert L.tolist() == [[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]]
    assert clean_mass(0.5, 2) == pytest.approx(3 / 16) and clean_mass(0.5, 2, gated=False) == 1
    assert growth_rate(2.0, 3, 3 / 16) == pytest.approx(1 / 8)  # 4 * 3/16 / 6
    np.testing.assert_allclose(mu_block(L, 0.5, 2), np.eye(3) + 1.375 * L)
    np.testing.assert_allclose(pattern_attention(L, 0.5, 1, 2.0, 0.1), 0.04 * (np.eye(3) + 1.375 * L))
    left, right = diagonal_growth(L, 0.5, 2, 2.0, 0.1)
    np.testing.assert_allclose([*left, right], [0.4 * 1.375] * 3 + [0.4])


SETS = {"cycle": cycle(5), "all": all_tasks(4), "disjoint": disjoint_pairs(4), "even cycle": cycle(6)}


ETA, STEPS = 0.7, 6


@lru_cache
def world(name, **options):
    return World(SETS[name], **options)


@lru_cache
def run(name, gated):
    return world(name).descend(gated, ETA, STEPS)


def law(name, gated):
    s = world(name).setting
    return laplacian(SETS[name], s.M1), ETA * growth_rate(s.beta, s.M1, clean_mass(0.4, 2, gated))


@pytest.mark.states("mamba Lemma 3")
def test_the_laplacian_of_a_task_multigraph():
    k = np.arange(7)
    assert np.allclose(np.linalg.eigvalsh(laplacian(cycle(7), 7)), np.sort(1 - np.cos(2 * np.pi * k / 7)))
    assert np.allclose(laplacian(all_tasks(5), 5), 5 / 4 * (np.eye(5) - 1 / 5))
    assert np.allclose(np.linalg.eigvalsh(laplacian(disjoint_pairs(6), 6)), [0, 0, 0, 2, 2, 2])
    with pytest.raises(ValueError, match="Condition 1"):
        laplacian(cycle(5)[:4], 5)


@pytest.mark.states("mamba Lemma 3")
@given(st.integers(3, 8), seeds, st.data())
def test_it_is_normalised_and_positive(M1, seed, data):
    L = laplacian(balanced_tasks(M1, data.draw(st.integers(1, M1 - 1)), np.random.default_rng(seed)), M1)
    values = np.linalg.eigvalsh(L)
    assert np.allclose(L, L.T) and np.allclose(L.sum(1), 0) and np.allclose(np.diag(L), 1)
    assert values[0] > -1e-12 and values[-1] < 2 + 1e-12


@pytest.mark.states("mamba Lemma 3", "mamba Eqs. 21-22")
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_the_law_is_the_population_descent(name, gated):
    """Exact for G = 1, and for Mamba with w kept at 0.

    Both matrices, six steps, and nothing outside the mu block moves.
    """
    w, (L, rate) = world(name), law(name, gated)
    for t, Psi in enumerate(run(name, gated)):
        block = w.setting.delta * w.setting.beta**2 * mu_block(L, rate, t)
        for W in Psi[:2]:
            rest = w.entries(W) - w.setting.delta * np.diag(w.scale**2)
            assert np.allclose(w.entries(W)[: w.setting.M1, : w.setting.M1], block, rtol=1e-12, atol=1e-14)
            assert np.max(np.abs(rest[w.setting.M1 :])) < 1e-14 and np.max(np.abs(rest[:, w.setting.M1 :])) < 1e-14
            assert np.max(np.abs(W[:, -1])) < 1e-14  # the label's column


@pytest.mark.states("mamba Lemma 3")
@pytest.mark.parametrize("name, tasks", [("cycle", cycle(6)), ("all", all_tasks(6)), ("disjoint", disjoint_pairs(6))])
@pytest.mark.parametrize("gated, eta", [(True, 0.02), (False, 0.0005)])
def test_sgd_follows_the_law_at_the_papers_prompts(name, tasks, gated, eta):
    """l = 20, p_a = 0.6, 200 steps of B = 512, seed 0: within 5 % of the largest entry, Mamba's w trained along."""
    setting = Setting(tasks=tasks, delta=0.02, B=512)
    W = np.eye(19, 20) * setting.delta
    start = Weights(W, W.copy(), np.zeros(20) if gated else None)
    Psi, _ = sgd(start, batches(np.random.default_rng(0), setting), eta, 200, gradient)
    L = laplacian(tasks, 6)
    expected = 0.02 * 9 * mu_block(L, eta * growth_rate(3.0, 6, clean_mass(0.6, 20, gated)), 200)
    assert np.max(expected) > 1.3 * 0.02 * 9  # it has grown
    for W in Psi[:2]:
        assert np.max(np.abs(9 * W[:6, :6] - expected)) < 0.05 * np.max(expected)


@pytest.mark.states("mamba Eqs. 21-22")
@given(st.sampled_from(sorted(SETS)), st.floats(0, 0.5), st.integers(1, 60), st.floats(1, 4), st.floats(0.01, 0.2))
def test_the_diagonal_grows_at_least_linearly(name, rate, t, beta, delta):
    L = laplacian(SETS[name], SETS[name].max() + 1)
    left, right = diagonal_growth(L, rate, t, beta, delta)
    scale = delta * beta**2
    assert np.all(left >= right * (1 - 1e-9) - 1e-13 * scale)
    first = diagonal_growth(L, rate, 1, beta, delta)  # with equality at t = 1
    assert np.allclose(first[0], rate * scale, atol=1e-13 * scale) and first[1] == rate * scale


@pytest.mark.states("mamba Eqs. 21-22")
def test_the_growth_is_exponential():
    """The logarithm of A_jj grows at log(1 + 2 rate), the top eigenvalue's, where a linear law would make it flat."""
    L, rate = laplacian(cycle(6), 6), 0.05
    a = [mu_block(L, rate, t)[0, 0] for t in (400, 800)]
    assert np.log(a[1] / a[0]) / 400 == pytest.approx(np.log1p(2 * rate), rel=1e-3)
    assert (a[1] - 1) > 1e6 * 800 * rate


@pytest.mark.states("mamba Eqs. 16-17")
@pytest.mark.parametrize("name", SETS)
def test_attention_between_patterns(name):
    """B^T A / beta^2, from the enumerated descent; the sign at a partner's partner is the wrong one for a new task."""
    w, (L, rate) = world(name), law(name, False)
    Psi = run(name, False)[STEPS]
    s = (w.scale[:, None] * Psi.W_B[:, :-1].T @ Psi.W_C[:, :-1] * w.scale)[: w.setting.M1, : w.setting.M1]
    assert np.allclose(s, pattern_attention(L, rate, STEPS, w.setting.beta, w.setting.delta), rtol=1e-12, atol=1e-15)
    assert s[0, 1] < 0
    assert {"cycle": s[0, 2] > 0, "even cycle": s[0, 2] > 0, "all": s[0, 2] < 0, "disjoint": abs(s[0, 2]) < 1e-15}[name]


@pytest.mark.states("mamba Eqs. 16-17")
def test_on_an_even_cycle_patterns_two_apart_become_alike():
    """The top eigenvector alternates: attention at distance 2 over the own goes to 1.

    On all pairs it stays negative.
    """
    ratio = [
        (s := pattern_attention(laplacian(cycle(6), 6), 0.05, t, 3.0, 0.02))[0, 2] / s[0, 0] for t in (10, 50, 400)
    ]
    assert ratio[0] < 0.2 < ratio[1] < ratio[2] and ratio[2] == pytest.approx(1, abs=1e-3)
    s = pattern_attention(laplacian(all_tasks(6), 6), 0.05, 400, 3.0, 0.02)
    assert s[0, 2] / s[0, 0] == pytest.approx(-1 / 5, abs=1e-3)


@pytest.mark.states("mamba Lemma 3")
@pytest.mark.parametrize("gated", [False, True])
def test_the_noise_of_the_first_step(gated):
    """Standard deviations of W_C's entries of mean 0, prompt by prompt over the enumerated population."""
    w = World(all_tasks(3), M2=2, V=2, p_a=0.3, delta=0.1)
    prompts, P = w.prompts, w.P
    G = np.array([1 / 8, 1 / 4]) if gated else np.ones(2)
    context = np.einsum("ni,nid->nd", G * prompts.y[:, :2], P[:, :2, :-1]) * prompts.z[:, None]
    step = 0.1 * context[:, :, None] * P[:, -1, None, :-1] * w.scale[:, None] * w.scale  # x^T (-dl / dW_C) x'
    mean = np.einsum("n,nab->ab", w.probability, step)
    sd = np.sqrt(np.einsum("n,nab->ab", w.probability, (step - mean) ** 2))
    noise = step_noise(G, w.setting)
    mu, nu, v = 0, 3, 5
    for name, (row, column) in {"v mu": (v, mu), "nu mu": (nu, mu), "mu nu": (mu, nu), "nu nu": (nu, nu)}.items():
        assert abs(mean[row, column]) < 1e-15
        assert noise[name] == pytest.approx(sd[row, column], rel=1e-12)
    assert noise["nu nu"] == pytest.approx(sd[nu, nu + 1], rel=1e-12)


@pytest.mark.states("mamba Eq. 15")
def test_the_noise_ratio_by_hand():
    assert noise_ratio([[1.0, 0.0], [3.0, 0.0]]) == pytest.approx(0.5)  # variance 2 over the squared mean 4


def gradients(n, p_a=0.6, M1=6, seed=0):
    """W_C's gradients, prompt by prompt, at the start and w = 0: (n, D, D)."""
    setting = Setting(M1=M1, p_a=p_a)
    p = training_prompts(np.random.default_rng(seed), n, setting)
    P = encode(p, setting)
    G = 0.5 ** np.arange(21, 1, -1)
    context = np.einsum("ni,nid->nd", G * p.y[:, :-1], P[:, :-1, :-1]) * p.z[:, None]
    return -0.2 * context[:, :, None] * P[:, -1, None, :-1]


@pytest.mark.states("mamba Eq. 15")
@pytest.mark.erratum("mamba-gradient-noise")
def test_a_batch_gradient_needs_the_noise_ratio_of_its_prompts():
    """E of the squared relative deviation is rho^2 / B, and not below Eq. 15's epsilon.

    Chebyshev against 400 batches, seed 0: within 15 % (about 4 standard errors); Eq. 15's B = eps^-2 log(1/eps) with
    probability <= eps fails for all batches.
    """
    eps, g = 0.3, gradients(20_000)
    rho2 = noise_ratio(g)
    B = int(np.ceil(eps**-2 * np.log(1 / eps)))
    mean = g.mean(0)
    batches = gradients(400 * B, seed=1).reshape(400, B, *mean.shape).mean(1)
    away = np.sum((batches - mean) ** 2, axis=(1, 2)) / np.sum(mean**2)
    assert away.mean() == pytest.approx(rho2 / B, rel=0.15)
    assert np.mean(away >= eps**2) == 1 > eps  # printed: at most eps
    large = gradients(20 * 2000, seed=2).reshape(20, 2000, *mean.shape).mean(1)
    assert np.mean(np.sum((large - mean) ** 2, axis=(1, 2)) >= 4 * rho2 / 2000 * np.sum(mean**2)) <= 1 / 4
    assert noise_ratio(gradients(20_000, 0.9)) > 2 * rho2 and noise_ratio(gradients(20_000, 0.6, 24)) > 2 * rho2


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-growth-constant")
def test_the_first_step_is_delta_beta_4_and_not_beta():
    """A_jj first grows by eta (1 - p_a) delta beta^4 / (4 M_1), and not by eta (1 - p_a) beta / (4 M_1).

    Printed with its 1/4, for w = 0 (xi = 0). At delta = 0.2, beta = 1 it is 1/5 of it.
    """
    for beta, delta in ((1.0, 0.2), (2.0, 0.05)):
        w = World(cycle(5), beta=beta, delta=delta)
        step = -w.entries(w.gradient(w.start(True)).W_C)[0, 0]
        right = delta * beta**4 * (1 - 0.4) / (4 * 5) * (1 - 0.5**2)
        assert step == pytest.approx(right, rel=1e-12)
        assert step < (1 - 0.4) * beta / (4 * 5) * (1 - 0.5**2) * 0.5


@pytest.mark.erratum("mamba-partner-rate")
@pytest.mark.parametrize("name, share", [("cycle", 1 / 2), ("all", 1 / 3), ("disjoint", 1)])
def test_a_partner_falls_by_its_share_of_the_diagonal(name, share):
    """A partner falls by M_1 N_jk / (2 |T_tr|) of what the diagonal grows; the shares of all partners sum to 1.

    Printed: at least as much as the diagonal grows.
    """
    w = world(name)
    step = w.entries(run(name, True)[1].W_C - run(name, True)[0].W_C)
    assert step[0, 1] == pytest.approx(-share * step[0, 0], rel=1e-12)
    assert step[0, : w.setting.M1].sum() == pytest.approx(0, abs=1e-15)
    assert (step[0, 1] <= -step[0, 0] * (1 - 1e-12)) == (name == "disjoint")
    assert laplacian(cycle(3), 3)[0, 1] == pytest.approx(-0.5) and laplacian(cycle(2), 2)[0, 1] == pytest.approx(-1)


@pytest.mark.erratum("mamba-partner-zero")
def test_an_entry_of_a_pair_that_forms_a_task_is_not_zero():
    """Section 11.2 prints = 0 for a j' that forms a task; that is the first step of those that form none."""
    step = run("cycle", True)[1].W_C - run("cycle", True)[0].W_C
    assert step[0, 1] < 0.4 * -step[0, 0] and abs(step[0, 2]) < 1e-16


@pytest.mark.erratum("mamba-non-partners")
def test_pairs_that_form_no_task_move_from_the_second_step_on():
    """Zero stays only where no path of tasks joins the two; at distance 2 it is (eta r)^2 / 4.

    Printed: = 0 throughout.
    """
    w, (_, rate) = world("even cycle"), law("even cycle", True)
    entry = [w.entries(Psi.W_C)[0, 2] for Psi in run("even cycle", True)]
    assert abs(entry[1]) < 1e-16
    assert entry[2] == pytest.approx(w.setting.delta * w.setting.beta**2 * rate**2 / 4, rel=1e-9)
    assert entry[6] > 10 * entry[2]
    shares = [mu_block(laplacian(cycle(M1), M1), 0.1, 2)[0, 2] for M1 in (4, 5, 6, 7)]
    assert shares == pytest.approx(0.1**2 * np.array([0.5, 0.25, 0.25, 0.25]))  # two ways round a cycle of four
    assert max(abs(world("disjoint").entries(Psi.W_C)[0, 2]) for Psi in run("disjoint", True)) < 1e-15


@pytest.mark.erratum("mamba-outlier-attention")
def test_an_outlier_adds_nothing_to_the_mean_attention():
    """v is orthogonal to mu and its label fair: v^T W_B^T W_C mu = 0, always.

    Eq. 16 prints beta^2 (1 + kappa_a 1[outlier]).
    """
    w = world("cycle")
    for Psi in run("cycle", False):
        s = w.scale[:, None] * Psi.W_B[:, :-1].T @ Psi.W_C[:, :-1] * w.scale
        assert np.max(np.abs(s[-1, : w.setting.M1])) < 1e-15
        bare, carrying = s[0, 0], s[0, 0] + 1.3 * s[-1, 0]
        assert carrying == pytest.approx(bare) and carrying < bare + 0.5 * 1.3 * 0.05**2 * w.setting.beta**2


@pytest.mark.erratum("mamba-noise-order")
def test_the_noise_falls_with_the_root_of_the_number_of_patterns():
    """The exponents, fitted over a decade, are half of the printed ones.

    Printed 1/(M_1 V), 1/(M_1 M_2) and, for nu_k and nu_k', 1/M_2^2.
    """

    def noise(M1, M2, V):
        return step_noise(0.5 ** np.arange(21, 1, -1), Setting(M1=M1, M2=M2, V=V))

    x = np.array([4, 10, 20, 40])
    assert exponent(x, [noise(k, 10, 3)["v mu"] for k in x])[0] == pytest.approx(-0.5)
    assert exponent(x, [noise(6, 10, k)["v mu"] for k in x])[0] == pytest.approx(-0.5)
    assert exponent(x, [noise(6, k, 3)["nu mu"] for k in x])[0] == pytest.approx(-0.5)
    assert exponent(x, [noise(6, k, 3)["nu nu"] for k in x])[0] == pytest.approx(-1)
    # So the printed right side is passed: at M_1 = 40, V = 3, B = 1000 a third of a standard deviation is more.
    B, M1, V = 1000, 40, 3
    printed = 3.0 * 0.6 * 2.0 / (M1 * V) * np.sqrt(np.log(B) / B)
    assert noise(M1, 10, V)["v mu"] / np.sqrt(B) > 3 * printed


@pytest.mark.erratum("mamba-kappa-squared")
def test_an_outliers_noise_in_attention_grows_as_kappa_a_squared():
    """Theorem 1(ii) bounds kappa_a^2: kappa_a times v^T W_B^T W_C mu stands in the attention.

    Eq. 16 prints p_a kappa_a epsilon / ((1 - p_a) V beta) for a token with kappa_a v, which is v^T W_B^T W_C mu alone;
    Section 10.2 has it right (kappa_a kappa_a').
    """

    def share(kappa_a):
        w = World(disjoint_pairs(2), kappa_a=kappa_a)
        context = np.einsum("ni,nid->nd", w.prompts.y[:, :2], w.P[:, :2, :-1]) * w.prompts.z[:, None]
        step = (
            w.setting.delta * context[:, -1] * (w.P[:, -1, :-1] @ w.P[0, -1, :-1])
        )  # v^T (-dl / dW_C) of one prompt, at one query
        return np.sqrt(
            w.probability @ (kappa_a * 2.0 * w.setting.delta * step) ** 2
        )  # p_i^T W_B^T W_C p_q, the part of kappa_a v

    assert share(2.0) == pytest.approx(4 * share(1.0))  # printed: 2 times
    noise = [step_noise(np.ones(2), SMALL._replace(M1=2, kappa_a=kappa_a))["v mu"] for kappa_a in (1.0, 2.0)]
    assert 2 * noise[1] == pytest.approx(4 * noise[0])


@pytest.mark.erratum("mamba-share-of-a-pattern")
def test_an_example_shows_a_pattern_in_one_prompt_of_m_1():
    """The share of examples with one pattern and no outlier is near (1 - p_a) / M_1.

    Section 11.2 prints Pr(share - (1 - p_a) <= -c (1 - p_a) / M_1) <= eps, which is 1.
    """
    B, M1, p_a, c = 400, 6, 0.6, 0.5
    p = (1 - p_a) / M1
    assert binom.cdf(np.floor(B * (1 - p_a) * (1 - c / M1)), B, p) > 1 - 1e-9
    assert binom.cdf(np.floor(B * p * (1 - c)), B, p) <= np.exp(-B * p * c**2 / 2)
    draws = training_prompts(np.random.default_rng(0), 20_000, Setting(M1=M1, p_a=p_a, l=1))
    assert np.mean((draws.j[:, 0] == 0) & (draws.s[:, 0] < 0)) == pytest.approx(p, abs=4 * np.sqrt(p / 20_000))
