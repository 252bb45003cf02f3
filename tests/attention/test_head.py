"""The head's first step: exactly, over everything discrete in the data law, and by Monte Carlo."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import data, head, model, multiclass
from refimpl.attention.setting import Setting
from refimpl.calculus.differences import gradient_error
from tests.strategies import attention_problems, seeds

sizes = st.sampled_from([(2, 3), (3, 3), (3, 4), (4, 4)])  # K, |W|
rates = st.integers(0, 20).map(lambda k: Fraction(k, 20))


def exact_direction(K, T, relevant, weak, weak_scale, eta):
    """-grad L of each head row in the signals' coordinates, as fractions: a sum over Y*, Y and the weak classes.

    E[(1{Y = c} - 1/K) mean of the tokens]; the noise has mean zero and is independent of the rest.
    """
    surjections = [w for w in product(range(K), repeat=weak) if set(w) == set(range(K))]
    total = [[Fraction(0)] * K for _ in range(K)]
    for Y_star, Y, w in product(range(K), range(K), surjections):
        chance = (1 - eta if Y == Y_star else eta / (K - 1)) / K / len(surjections)
        tokens = [Fraction(relevant * (c == Y_star), T) + weak_scale * Fraction(w.count(c), T) for c in range(K)]
        for k, c in product(range(K), repeat=2):
            total[k][c] += chance * ((Y == k) - Fraction(1, K)) * tokens[c]
    return np.array([[float(x) for x in row] for row in total])


@pytest.mark.states("attention Section 3.4 (gradient descent)")
def test_linear_head_by_hand():
    mu = np.array([[3.0, 0, 0], [0, 0, 3.0]])
    np.testing.assert_allclose(head.linear_head(mu), np.array([1, 0, -1]) / np.sqrt(2) / 3, rtol=1e-15)
    np.testing.assert_allclose(head.linear_head(mu, norm=2), np.array([1, 0, -1]) * np.sqrt(2), rtol=1e-15)
    for bad in (np.eye(3), [[1.0, np.inf], [0, 1]], np.zeros((2, 0))):
        with pytest.raises(ValueError, match="^mu: "):
            head.linear_head(bad)
    with pytest.raises(ValueError, match="^norm: "):
        head.linear_head(mu, norm=0)


@pytest.mark.states("attention Section 3.4 (gradient descent)")
def test_the_head_has_the_norm_and_direction_of_theorem_4_2():
    mu = np.array([[3.0, 0, 4], [-4, 0, 3]])
    np.testing.assert_allclose(head.linear_head(mu), np.array([7, 0, 1]) / np.sqrt(50) / 5)
    assert np.linalg.norm(head.linear_head(mu, norm=2)) == pytest.approx(2)


@pytest.mark.states("attention Lemma 3.1")
@given(relevant=st.integers(1, 3), weak=st.integers(2, 4), rest=st.integers(0, 3), scale=rates, eta=rates)
def test_lemma_3_1_against_the_exact_expectation(relevant, weak, rest, scale, eta):
    T = relevant + weak + rest
    rows = exact_direction(2, T, relevant, weak, scale, eta)
    binary = (rows[0] - rows[1]) / 2  # Y = 1{Y = 0} - 1{Y = 1}, and a half from the loss
    got = head.population_direction(np.eye(2), relevant / T, float(eta))
    np.testing.assert_allclose(got, binary, rtol=1e-13, atol=1e-16)


@pytest.mark.states("attention Lemma G.1")
@given(size=sizes, relevant=st.integers(1, 3), rest=st.integers(0, 3), eta=rates)
def test_lemma_g_1_against_the_exact_expectation(size, relevant, rest, eta):
    K, weak = size
    T = relevant + weak + rest
    rows = exact_direction(K, T, relevant, weak, Fraction(1, 5), eta)
    got = head.multiclass_direction(np.eye(K), relevant / T, float(eta))
    np.testing.assert_allclose(got, rows, rtol=1e-12, atol=1e-16)


@pytest.mark.states("attention Lemma G.1", "attention Lemma 3.1")
def test_two_classes_give_the_binary_direction():
    mu, both = data.signals(3.0, 5), head.multiclass_direction(data.signals(3.0, 5), 0.25, 0.1)
    np.testing.assert_allclose(both[0], head.population_direction(mu, 0.25, 0.1), rtol=1e-14)
    np.testing.assert_allclose(both[0], -both[1], rtol=1e-14)


@pytest.mark.states("attention Lemma G.1")
@pytest.mark.parametrize("K", [2, 3, 7])
def test_the_directions_form_an_equiangular_tight_frame(K):
    rows = head.multiclass_direction(5 * np.eye(K, K + 2), 0.25, 0.1)
    G = rows @ rows.T / np.sum(rows[0] ** 2)
    np.testing.assert_allclose(G, np.where(np.eye(K), 1, -1 / (K - 1)), atol=1e-14)
    np.testing.assert_allclose(G @ G, K / (K - 1) * G, atol=1e-13)  # tight: a multiple of a projector


@pytest.mark.states("attention Lemma 3.1")
@given(problem=attention_problems())
def test_the_empirical_direction_is_the_risks(problem):
    X, Y, zero = problem["sample"].X, problem["sample"].Y, np.zeros_like(problem["nu"])
    got = head.empirical_direction(X, Y)
    by_hand = sum(y * x for y, tokens in zip(Y, X) for x in tokens) / (2 * X.shape[0] * X.shape[1])
    np.testing.assert_allclose(got, by_hand, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got, -model.loss_gradient_nu(X, Y, zero, zero), rtol=1e-12, atol=1e-14)
    assert gradient_error(lambda nu: -model.loss(X, Y, zero, nu), got, zero) < 1e-6


@pytest.mark.states("attention Lemma 3.1")
def test_lemma_3_1_by_monte_carlo():
    """Each of 6 means of 20,000 within 5 standard errors: false alarm below 4e-6."""
    mu, n = data.signals(2.0, 6), 20_000
    setting = Setting(n=n, T=4, d=6, norm=2.0, weak_scale=0.3, Sigma=np.array([1, 2, 0.5, 1, 1, 3]))
    X, Y, *_ = data.draw(np.random.default_rng(0), setting)
    each = Y[:, None] * X.mean(axis=1) / 2
    gap = head.empirical_direction(X, Y) - head.population_direction(mu, 1 / 4, 0.2)
    assert np.all(np.abs(gap) < 5 * each.std(axis=0) / np.sqrt(n))


@pytest.mark.states("attention Lemma G.1")
def test_lemma_g_1_by_monte_carlo():
    """Each of 15 means of 20,000 within 5 standard errors: false alarm below 1e-5."""
    mu, n, K = 2 * np.eye(3, 5), 20_000, 3
    setting = Setting(n=n, T=5, relevant=2, weak=3, weak_scale=0.3)
    X, Y, *_ = multiclass.draw(np.random.default_rng(0), setting, mu)
    each = ((Y[:, None] == np.arange(K)) - 1 / K)[..., None] * X.mean(axis=1)[:, None]
    got = -multiclass.loss_gradient_nu(X, Y, np.zeros(5), np.zeros((K, 5)))
    np.testing.assert_allclose(got, each.mean(axis=0), rtol=1e-10, atol=1e-12)
    assert np.all(np.abs(got - head.multiclass_direction(mu, 2 / 5, 0.2)) < 5 * each.std(axis=0) / np.sqrt(n))


@pytest.mark.states("attention Lemma 3.1")
@given(norm=st.floats(1, 50), trace=st.floats(1, 1e5), n=st.integers(1, 50), T=st.integers(4, 9), eta=st.floats(0, 0.4))
def test_noise_to_signal_is_the_noise_over_the_population_direction(norm, trace, n, T, eta):
    signal = head.population_direction(data.signals(norm, 2), 2 / T, eta)
    expected = trace / (4 * n * T) / (signal @ signal)
    setting = Setting(n=n, T=T, d=1, norm=norm, relevant=2, noise_rate=eta, Sigma=trace)
    assert head.noise_to_signal(setting) == pytest.approx(expected, rel=1e-9)


@pytest.mark.states("attention Lemma 3.1")
def test_the_empirical_directions_noise_has_the_stated_size():
    """|g|^2 4nT / Tr Sigma without signals is chi^2_d / d: 200 means within 5 standard errors, false alarm 6e-7."""
    n, T, d, runs = 5, 4, 50, 200
    rng, sizes = np.random.default_rng(0), []
    for _ in range(runs):
        g = head.empirical_direction(rng.standard_normal((n, T, d)), rng.choice([-1, 1], n))
        sizes.append(4 * n * T * (g @ g) / d)
    assert abs(np.mean(sizes) - 1) < 5 * np.sqrt(2 / d / runs)


@pytest.mark.erratum("attention-empirical-direction")
def test_the_expected_risk_points_at_the_signals_but_the_empirical_one_does_not():
    """n = 12, T = 4, d = 8000, norm 25, rho = 0.2, eta = 0.05 meet (A1)-(A3) with C = 1, delta = 0.1."""
    n, T, d, norm, eta, log = 12, 4, 8000, 25.0, 0.05, np.log(12 * 4 / 0.1)
    assert d >= n * norm**2 and norm >= d**0.25 * np.sqrt(log) and np.sqrt(log) / norm <= 0.2 <= 1
    setting, mu = Setting(n=n, T=T, d=d, norm=norm, noise_rate=eta), data.signals(norm, d)
    cosines = []
    wanted = (mu[0] - mu[1]) / np.linalg.norm(mu[0] - mu[1])
    for seed in range(10):
        X, Y, *_ = data.draw(np.random.default_rng(seed), setting)
        g = head.empirical_direction(X, Y)
        cosines.append(g @ wanted / np.linalg.norm(g))
    assert max(cosines) < 0.5  # "aligns", as printed, would be near 1
    r = head.noise_to_signal(setting)
    assert r > 2 * T and np.mean(cosines) == pytest.approx(1 / np.sqrt(1 + r), rel=0.2)
    expected = head.population_direction(mu, 1 / T, eta)
    assert expected @ wanted == pytest.approx(np.linalg.norm(expected), rel=1e-14)


@pytest.mark.erratum("attention-g1-noise-rate")
@pytest.mark.parametrize("K", [2, 3])
def test_above_the_chance_rate_of_wrong_labels_the_direction_turns_round(K):
    along = np.eye(K) - 1 / K
    for eta, sign in ((Fraction(1, 2 * K), 1), (Fraction(K - 1, K), 0), (Fraction(9, 10), -1)):
        exact = exact_direction(K, 2 + K, 1, K, Fraction(1, 5), eta)
        assert np.all(np.sign(np.sum(exact * along, axis=1)) == sign)
        np.testing.assert_allclose(head.multiclass_direction(np.eye(K), 1 / (2 + K), float(eta)), exact, atol=1e-15)


@pytest.mark.states("attention Section F")
@given(seed=seeds, K=st.integers(2, 5))
def test_simplex_head_is_the_population_direction_with_unit_scale(seed, K):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((6, K)))[0].T
    nu = head.simplex_head(4 * Q)
    by_hand = [[(mu[j] - sum(4 * q[j] for q in Q) / K) / (16 * np.sqrt(2)) for j in range(6)] for mu in 4 * Q]
    np.testing.assert_allclose(nu, by_hand, rtol=1e-9, atol=1e-13)
    if K == 2:
        np.testing.assert_allclose(nu[0] - nu[1], head.linear_head(4 * Q), rtol=1e-12)
    direction = head.multiclass_direction(4 * Q, 0.5, 0.1)
    np.testing.assert_allclose(nu / np.linalg.norm(nu), direction / np.linalg.norm(direction), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: head.population_direction(np.eye(3), 0.5, 0.1), "mu"),
        (lambda: head.population_direction(np.eye(2), 0.5, 1.1), "noise_rate"),
        (lambda: head.multiclass_direction(np.ones((1, 4)), 0.5, 0.1), "mu"),
        (lambda: head.multiclass_direction(np.eye(3), np.nan, 0.1), "zeta_R"),
        (lambda: head.simplex_head(np.eye(3), norm=-1), "norm"),
        (lambda: head.empirical_direction(np.zeros((2, 0, 4)), [1, -1]), "X"),
        (lambda: head.empirical_direction(np.zeros((2, 3, 4)), [0, 1]), "Y"),
        (lambda: head.noise_to_signal(Setting(T=4, relevant=5)), "T"),
        (lambda: head.noise_to_signal(Setting(noise_rate=0.5)), "noise_rate"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call()
