"""A trial: its fresh samples are those of the data's law, its labels are wrong where they were asked to be."""

import numpy as np
import pytest

from refimpl.attention import data
from refimpl.attention.model import output
from refimpl.attention.runs import gram, trials


@pytest.mark.states("attention Eq. 12")
def test_the_trial_s_law_is_that_of_fresh_samples():
    """Errors in (0, 1): norm 2, d = 300, from the law against samples drawn whole; both within 99.9 % of each other."""
    run = trials.run(np.random.default_rng(0), (4.0,), 6, 2.0, 300, 4, 1, 2, 0.3, 0.3)
    wrong, interval, _ = trials.generalize(run, 0, np.random.default_rng(1), 20_000)
    test = data.draw(np.random.default_rng(2), 20_000, run.mu, 4, 1, 2, 0.3, 0.0, run.Sigma)
    direct = np.mean(output(test.X, gram.combine(run.sample.X, run.path.rho[0]), run.nu) * test.Y_star <= 0)
    assert interval[0] < wrong < interval[1] and abs(wrong - direct) < 3.3 * np.sqrt(2 * wrong * (1 - wrong) / 20_000)
    assert 0.05 < wrong < 0.45


@pytest.mark.states("attention Theorem 4.2 (overfitting)")
def test_the_flips_are_those_of_each_clean_class():
    run = trials.run(np.random.default_rng(0), (0.0,), 8, 2.0, 60, 4, 1, 2, 0.3, flips=(2, 1))
    wrong = run.sample.Y != run.sample.Y_star
    assert [np.sum(wrong & (run.sample.Y_star == c)) for c in (1, -1)] == [2, 1]
    np.testing.assert_allclose(run.margins[0], run.sample.Y * np.sum(np.exp(run.path.log_s[0]) * run.gamma, axis=-1))


@pytest.mark.parametrize("flips", [(1, 1), (9, 0), (1,), (1, 1, 1), (-1, 0)])
def test_flips_that_cannot_be_are_named(flips):
    noise_rate = 0.1 if flips == (1, 1) else 0.0
    with pytest.raises(ValueError, match="^flips: "):
        trials.run(np.random.default_rng(0), (0.0,), 8, 2.0, 60, 4, 1, 2, 0.3, noise_rate, flips)
