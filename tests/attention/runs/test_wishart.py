"""Sampling without d against plain sampling: two-sample Kolmogorov-Smirnov tests on what training and testing see.

All tests together give a false alarm with probability at most 1e-3: each of the 20 statistics is held to 5e-5.
"""

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp, kstest

from refimpl.attention import data
from refimpl.attention.head import linear_head
from refimpl.attention.runs import gram, wishart
from refimpl.attention.setting import Setting

LEVEL = 1e-3 / 20
SETTING = Setting(n=12, T=4, norm=5.0, weak_scale=0.3)  # nT = 48
DRAWS = 300


def statistics(rng, d, compressed):
    """One row a statistic: the noises, the run of 30 steps, one fresh sample."""
    M, gamma, Y, extra, setting = [], [], [], [], SETTING._replace(d=d)
    for _ in range(DRAWS):
        if compressed:
            sample, mu, Sigma = wishart.draw_training(rng, setting)
        else:
            mu, Sigma = data.signals(setting.norm, d), 1.0
            sample = data.draw(rng, setting)
        noise = sample.noise.reshape(setting.n * setting.T, -1)
        products, scores = gram.gram(sample.X, linear_head(mu))
        M, gamma, Y = M + [products], gamma + [scores], Y + [sample.Y]
        fresh = data.draw(rng, setting._replace(n=1, noise_rate=0, Sigma=Sigma), mu)
        determinant = np.linalg.slogdet(noise @ noise.T)[1]
        extra.append((sample, fresh.X[0], determinant, noise[5] @ noise[30], noise[40] @ noise[40]))
    rho = gram.descend(np.array(M), np.array(gamma), np.array(Y), 2.0 / d, 30)
    q = [gram.combine(row[0].X, r) for row, r in zip(extra, rho)]
    logits = np.array([row[1] @ v for row, v in zip(extra, q)])
    return np.array(
        [
            [row[2] for row in extra],
            [row[3] for row in extra],
            [row[4] for row in extra],
            [v @ v for v in q],
            rho[:, 3, 0],
            logits[:, 0],
            logits[:, 3],
        ]
    )


@pytest.mark.states("attention Definition 3.1")
def test_what_is_kept_by_hand():
    """d = 1e16, nT = 12: two coordinates for the signals and one a token, whose noise stands in the first k of them
    and has squared norm d, up to a share of 1e-8; no array of length d is made."""
    setting = Setting(n=3, T=4, d=10**16, norm=1e4, weak_scale=0.02)
    sample, mu, Sigma = wishart.draw_training(np.random.default_rng(0), setting)
    assert sample.X.shape == (3, 4, 14)
    np.testing.assert_array_equal(mu, 1e4 * np.eye(2, 14))
    np.testing.assert_array_equal(Sigma, np.ones(14))
    np.testing.assert_allclose(np.sum(sample.noise**2, axis=-1), 1e16, rtol=1e-6)
    lower = sample.noise.reshape(12, 14)[:, 2:]
    assert np.all(np.triu(lower, 1) == 0) and np.all(np.abs(np.tril(lower, -1)) < 6)


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize("d", [50, 500])
def test_it_agrees_in_law_with_plain_sampling(d):
    plain = statistics(np.random.default_rng([0, d]), d, compressed=False)
    ours = statistics(np.random.default_rng([1, d]), d, compressed=True)
    assert min(ks_2samp(a, b).pvalue for a, b in zip(plain, ours)) > LEVEL


@pytest.mark.states("attention Definition 3.1")
def test_the_determinant_has_its_exact_law():
    """det L L^T has the law of a product of chi-squares with k, k - 1, ... degrees; at N = k = 1 it is one of them."""
    rng = np.random.default_rng(0)
    assert kstest([wishart._factor(rng, 1, 3)[0, 0] ** 2 for _ in range(2000)], chi2(3).cdf).pvalue > LEVEL
    last = [wishart._factor(rng, 4, 6)[3, 3] ** 2 for _ in range(2000)]
    assert kstest(last, chi2(3).cdf).pvalue > LEVEL


@pytest.mark.states("attention Definition 3.1")
def test_blocks_of_different_variance():
    """Sums of products over three blocks, one of them smaller than the number of tokens."""
    rng, dims, variances = np.random.default_rng(0), (20, 3, 30), (4.0, 1.0, 9.0)
    setting = Setting(n=2, T=4, d=53, norm=3.0, weak_scale=0.3, noise_rate=0.5, Sigma=np.repeat(variances, dims))
    clean = setting._replace(n=1, noise_rate=0)
    columns = []
    for compressed in (False, True):
        rows = []
        for _ in range(600):
            if compressed:
                sample, mu, within = wishart.draw_training(rng, setting, tuple(zip(dims, variances)))
                fresh = data.draw(rng, clean._replace(Sigma=within), mu)
            else:
                sample, fresh = data.draw(rng, setting), data.draw(rng, clean)
            a, b = sample.noise[0, 3], sample.noise[1, 2]
            rows.append((a @ a, a @ b, fresh.X[0, 3] @ (a + b), b @ b - a @ a))
        columns.append(np.array(rows).T)
    assert sample.X.shape[-1] == 2 + 8 + 3 + 8
    np.testing.assert_array_equal(within, np.repeat([4.0, 1.0, 9.0], [2 + 8, 3, 8]))  # the signals' are the first's
    assert min(ks_2samp(a, b).pvalue for a, b in zip(*columns)) > LEVEL


@pytest.mark.parametrize(
    "change, blocks, named",
    [
        (dict(d=2), None, "d"),
        (dict(Sigma=-1.0), None, "Sigma"),
        (dict(Sigma=np.ones(10)), None, "Sigma"),
        ({}, ((10, 1.0), (0, 1.0)), "d"),
        ({}, ((2, 1.0), (9, 1.0)), "d"),
        ({}, ((10, 1.0), (9, 0.0)), "Sigma"),
    ],
)
def test_bad_arguments_are_named(change, blocks, named):
    setting = Setting(n=2, T=4, d=10, norm=1.0)._replace(**change)
    with pytest.raises(ValueError, match=f"^{named}: "):
        wishart.draw_training(np.random.default_rng(0), setting, blocks)


@pytest.mark.states("attention Definition 3.1")
def test_each_token_is_its_signals_plus_the_noise_that_is_kept():
    sample, mu, _ = wishart.draw_training(np.random.default_rng(0), SETTING._replace(n=3, d=10**9))
    signal = data.signal_of(sample.Y_star, sample.roles, SETTING.weak_scale) @ mu
    np.testing.assert_allclose(sample.X, signal + sample.noise, rtol=1e-12)


@pytest.mark.states("attention Definition 3.1")
def test_the_factor_entry_by_entry():
    """Squares within 5.3 standard errors of their means: false alarm 1e-7 each."""
    rng, draws, size, degrees = np.random.default_rng(0), 4000, 5, 30
    L = np.array([wishart._factor(rng, size, degrees) for _ in range(draws)])
    mean = np.mean(L**2, axis=0)
    for i, j in np.ndindex(size, size):
        expected = 0 if j > i else 1 if j < i else degrees - i
        assert abs(mean[i, j] - expected) <= 5.3 * np.sqrt(2 * expected / draws)
