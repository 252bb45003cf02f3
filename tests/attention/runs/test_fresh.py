"""Fresh samples as two numbers a token: the law exactly, and the outputs against plain sampling."""

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from refimpl.attention.data import draw_experiment, experiment_roles, signals
from refimpl.attention.model import output
from refimpl.attention.runs import fresh
from refimpl.attention.runs.gram import combine, gram
from refimpl.attention.setting import Setting
from tests.strategies import attention_problems, seeds


@pytest.mark.states("attention Definition 3.1", "attention Lemma D.1")
def test_the_law_by_hand():
    """Signals 2 e_1 and 2 e_2, q = (1, 2, 3), nu = (1, -1, 0), Sigma = (1, 2, 4): means 2 q_c, 2 nu_c.

    A law without noise: a token carries 1 of its class, or rho = 1/4 of it; f is the mean of the scores weighted by
    softmax of the logits."""
    mu = 2 * np.eye(2, 3)
    means, covariance = fresh.law([1, 2, 3], [1, -1, 0], mu, [1, 2, 4])
    np.testing.assert_array_equal(means, [[2, 2], [4, -2]])
    np.testing.assert_array_equal(covariance, [[1 + 8 + 36, 1 - 4], [1 - 4, 1 + 2]])
    X = np.array([[[1.0, 0, 3], [0, 1, 0]]])  # q = X^T (1, 2)
    by_gram = fresh.law_from_gram([[1, 2]], *gram(X, [1.0, -1, 0]), X @ mu.T, [1, -1, 0], mu)
    np.testing.assert_array_equal(by_gram[0], means)
    np.testing.assert_array_equal(by_gram[1], [[14, -1], [-1, 2]])
    z, gamma, f = fresh.draw(np.random.default_rng(0), [1, -1], [[2, 1, -1, 0]] * 2, 0.25, means, np.zeros((2, 2)))
    np.testing.assert_array_equal(z, [[2, 0.5, 1, 0], [4, 0.5, 1, 0]])
    np.testing.assert_array_equal(gamma, [[2, 0.5, -0.5, 0], [-2, 0.5, -0.5, 0]])
    np.testing.assert_allclose(f, np.sum(np.exp(z) * gamma, axis=1) / np.sum(np.exp(z), axis=1), rtol=1e-14)


@pytest.mark.states("attention Definition 3.1")
@given(problem=attention_problems(), seed=seeds)
def test_the_law_is_that_of_two_linear_forms(problem, seed):
    rng = np.random.default_rng(seed)
    nu, mu = problem["nu"], problem["mu"]
    q, Sigma = rng.standard_normal(len(nu)), rng.uniform(0.1, 2, len(nu))
    means, covariance = fresh.law(q, nu, mu, Sigma)
    np.testing.assert_allclose(means, [[m @ q, m @ nu] for m in mu], rtol=1e-9, atol=1e-10)
    by_hand = [[a @ np.diag(Sigma) @ b for b in (q, nu)] for a in (q, nu)]
    np.testing.assert_allclose(covariance, by_hand, rtol=1e-9, atol=1e-10)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(), seed=seeds)
def test_the_law_from_gram_form_is_the_law_of_the_combined_p(problem, seed):
    sample, nu, mu = problem["sample"], problem["nu"], problem["mu"]
    M, gamma = gram(sample.X, nu)
    rho = np.random.default_rng(seed).standard_normal(gamma.shape)
    got = fresh.law_from_gram(rho, M, gamma, sample.X @ mu.T, nu, mu)
    for a, b in zip(got, fresh.law(combine(sample.X, rho), nu, mu)):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * np.max(np.abs(b)))


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
def test_outputs_against_plain_sampling(scale):
    """Kolmogorov-Smirnov, false alarm 1e-4 each at a seed chosen blindly."""
    rng, d, n = np.random.default_rng(0), 40, 4000
    mu, nu = signals(2.0, d), rng.standard_normal(d) / 3
    q = scale * (rng.standard_normal(d) / 3 + nu)
    plain = draw_experiment(rng, Setting(n=n, d=d, norm=2.0), 0)
    Y_star = rng.choice([-1.0, 1], n)
    z, gamma, f = fresh.draw(rng, Y_star, experiment_roles(Y_star), 0.2, *fresh.law(q, nu, mu))
    for ours, theirs in (
        (f, output(plain.X, q, nu)),
        (f * Y_star, output(plain.X, q, nu) * plain.Y_star),
        (gamma[:, 0] * Y_star, (plain.X @ nu)[:, 0] * plain.Y_star),
        ((z * gamma)[:, 2], ((plain.X @ q) * (plain.X @ nu))[:, 2]),
        (z[:, 0] - z[:, 1], (plain.X @ q)[:, 0] - (plain.X @ q)[:, 1]),
    ):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize("sd_z, correlation", [(1.5, 0.0), (1.5, 0.9), (1.5, -1.0), (0.0, 0.0)])
def test_logits_and_scores_have_the_means_and_the_covariance_of_the_law(sd_z, correlation):
    """Each entry within 5.3 standard errors: false alarm 1e-7."""
    n, sd = 20_000, np.array([sd_z, 0.4])
    covariance = np.outer(sd, sd) * [[1, correlation], [correlation, 1]]
    Y_star, means = np.tile([1.0, -1.0], n // 2), np.array([[2.0, -1], [0.5, 3]])
    z, gamma, _ = fresh.draw(np.random.default_rng(0), Y_star, experiment_roles(Y_star), 0.2, means, covariance)
    both = np.stack((z, gamma), axis=-1)
    own, other = (
        np.where(Y_star[:, None] == 1, means[:1], means[1:]),
        np.where(Y_star[:, None] == 1, means[1:], means[:1]),
    )
    for t, mean in ((0, own), (1, 0.2 * own), (2, 0.2 * other), (3, 0 * own), (7, 0 * own)):
        noise = both[:, t] - mean
        assert np.all(np.abs(noise.mean(axis=0)) <= 5.3 * sd / np.sqrt(n))
        error = np.sqrt((np.outer(sd, sd) ** 2 + covariance**2) / n)
        assert np.all(np.abs(noise.T @ noise / n - covariance) <= 5.3 * error)


@pytest.mark.parametrize("Sigma", [-1.0, np.ones(5), [[1, 0.5], [0.5, 1]]])
def test_a_sigma_that_is_no_diagonal_is_refused(Sigma):
    with pytest.raises(ValueError, match="^Sigma: "):
        fresh.law(np.ones(2), np.ones(2), np.eye(2), Sigma)


def test_a_law_that_is_none_is_refused_and_rounding_makes_none():
    for covariance in ([[1, 2], [3, 1]], [[-1, 0], [0, 1]]):
        with pytest.raises(ValueError, match="^covariance: "):
            fresh.draw(np.random.default_rng(0), [1.0], [[2, 1, -1]], 0.2, np.eye(2), covariance)
    X = 1e9 + np.random.default_rng(0).standard_normal((1, 3, 4)) / 100
    M, gamma = gram(X, np.ones(4))
    means, covariance = fresh.law_from_gram([[1, -2.0, 1]], M, gamma, X @ np.eye(4, 2), np.ones(4), np.eye(2, 4))
    assert covariance[0, 0] >= 0
