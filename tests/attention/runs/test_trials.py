"""A trial: its fresh samples are those of the data's law, its labels are wrong where they were asked to be."""

import numpy as np
import pytest

from refimpl.attention import data
from refimpl.attention.decomposition import noise_update, signal_update
from refimpl.attention.model import output
from refimpl.attention.runs import gram, trials
from refimpl.attention.setting import Setting


@pytest.mark.states("attention Theorem 4.2 (overfitting)", "attention Eq. 12")
def test_a_moment_before_training_by_hand():
    """At log t = -30 attention is uniform: margins are Y times the mean score, R has 1/4 of it on fresh data, and
    Eq. 129's first step is that of alpha = e^u n / V. At |mu| = 40 no fresh sample is wrong."""
    setting = Setting(n=3, T=4, d=10**6, norm=40.0, noise_rate=0)
    run = trials.run(np.random.default_rng(0), (-30.0,), setting, flips=(1, 0))
    np.testing.assert_allclose(run.margins[0], run.sample.Y * run.gamma.mean(axis=1), rtol=1e-9)
    V = np.max(np.diag(run.M))
    first = noise_update(np.zeros((3, 4)), run.gamma, run.sample.Y, np.exp(-30) * 3 / V)
    carried = data.signal_of(run.sample.Y_star, run.sample.roles, 0.2)
    np.testing.assert_allclose(run.lam[0], signal_update(first, carried), rtol=1e-3)
    wrong, (low, high), attention = trials.generalize(run, 0, np.random.default_rng(1), 500)
    assert (wrong, low) == (0, 0) and (1 - high) ** 500 == pytest.approx(0.005, rel=1e-9)
    assert attention == pytest.approx(1 / 4, rel=1e-6)


SMALL = Setting(n=8, T=4, d=60, norm=2.0, weak_scale=0.3)


@pytest.mark.states("attention Eq. 12")
def test_the_trial_s_law_is_that_of_fresh_samples():
    """Errors in (0, 1): norm 2, d = 300, from the law against samples drawn whole; both within 99.9 % of each other."""
    setting = Setting(n=6, T=4, d=300, norm=2.0, weak_scale=0.3, noise_rate=0.3)
    run = trials.run(np.random.default_rng(0), (4.0,), setting)
    wrong, interval, _ = trials.generalize(run, 0, np.random.default_rng(1), 20_000)
    clean = setting._replace(n=20_000, noise_rate=0, Sigma=run.Sigma)
    test = data.draw(np.random.default_rng(2), clean, run.mu)
    direct = np.mean(output(test.X, gram.combine(run.sample.X, run.path.rho[0]), run.nu) * test.Y_star <= 0)
    assert interval[0] < wrong < interval[1] and abs(wrong - direct) < 3.3 * np.sqrt(2 * wrong * (1 - wrong) / 20_000)
    assert 0.05 < wrong < 0.45


@pytest.mark.states("attention Theorem 4.2 (overfitting)")
def test_the_flips_are_those_of_each_clean_class():
    run = trials.run(np.random.default_rng(0), (0.0,), SMALL, flips=(2, 1))
    wrong = run.sample.Y != run.sample.Y_star
    assert [np.sum(wrong & (run.sample.Y_star == c)) for c in (1, -1)] == [2, 1]
    np.testing.assert_allclose(run.margins[0], run.sample.Y * np.sum(np.exp(run.path.log_s[0]) * run.gamma, axis=-1))


@pytest.mark.parametrize("flips", [9, (9, 0), (1,), (1, 1, 1), (-1, 0)])
def test_flips_that_cannot_be_are_named(flips):
    with pytest.raises(ValueError, match="^flips: "):
        trials.run(np.random.default_rng(0), (0.0,), SMALL, flips)


def test_another_sigma_than_the_identity_is_refused():
    with pytest.raises(ValueError, match="^Sigma: "):
        trials.run(np.random.default_rng(0), (0.0,), SMALL._replace(Sigma=2.0))
