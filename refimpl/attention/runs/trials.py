r"""Theorem 4.2, one trial: a training set without its d, the flow on it, and fresh samples for any moment of it.

trial = run(rng, log_times, setting)
wrong, interval, relevant = generalize(trial, k, rng, size)
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention import data
from refimpl.attention.decomposition import signal_update
from refimpl.attention.head import linear_head
from refimpl.attention.runs import fresh, wishart
from refimpl.attention.runs.flow import Path, flow
from refimpl.attention.runs.gram import gram
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import softmax
from refimpl.statistics import binomial_interval


class Trial(NamedTuple):
    r"""What run returns, K moments.

    setting : the Setting that was asked for.
    sample : data.Sample in the tokens' span.  mu : (2, k).  nu : (k,), of norm $1/\|\mu\|$.  Sigma : (k,).
    M, gamma : of gram.gram.  path : a flow.Path, with totals.
    lam : (K, 2), $\lambda_{+1}, \lambda_{-1}$ of Lemma D.1.  margins : (K, n), $Y_i f_i$.

    States: attention Theorem 4.2 (overfitting)
    """

    setting: Setting
    sample: data.Sample
    mu: np.ndarray
    nu: np.ndarray
    Sigma: np.ndarray
    M: np.ndarray
    gamma: np.ndarray
    path: Path
    lam: np.ndarray
    margins: np.ndarray


def run(rng, log_times, setting, flips=None):
    r"""Theorem 4.2. Trains on n samples of Definition 3.1, $\Sigma = I$, $\|\nu\| = 1/\|\mu\|$, by flow from p = 0.

    rng : numpy Generator.  log_times : (K,), as in flow.flow.  setting : a Setting with Sigma = 1; d may be any size.
    flips : as in data.with_flips; where None, the labels are those of Definition 3.1, each wrong with probability eta.
    Returns a Trial.  Raises ValueError, also for more flips than a class has samples; FloatingPointError as flow does.

    States: attention Theorem 4.2 (overfitting); attention Theorem 4.2 (benign); attention Theorem 4.2 (harmful)
    """
    if setting.variance != 1:
        raise ValueError(f"Sigma: must be 1, got {setting.Sigma}")
    sample, mu, Sigma = wishart.draw_training(rng, setting)
    if flips is not None:
        sample = sample._replace(Y=data.with_flips(rng, sample.Y_star, flips))
    nu = linear_head(mu)
    M, gamma = gram(sample.X, nu)
    path = flow(M, gamma, sample.Y, log_times, sample.roles)
    carried = data.signal_of(sample.Y_star, sample.roles, setting.weak_scale)
    lam = signal_update(path.rho, np.broadcast_to(carried, (len(path.rho), *carried.shape)))
    margins = sample.Y * np.einsum("kit,it->ki", np.exp(path.log_s), gamma)
    return Trial(setting, sample, mu, nu, Sigma, M, gamma, path, lam, margins)


def generalize(trial, k, rng, size):
    r"""Eq. 12. The test error at moment k, and the attention that a fresh sample's relevant tokens get on average.

    trial : from run.  k : an index of its log_times.  rng : numpy Generator.  size : how many fresh samples.
    Returns the share of wrong ones, its 99 % interval, and $\mathrm{E} \sum_{t\in R} s_t$.

    States: attention Eq. 12; attention Section E.2.4
    """
    clean = trial.setting._replace(n=size, noise_rate=0)
    law = fresh.law_from_gram(trial.path.rho[k], trial.M, trial.gamma, trial.sample.X @ trial.mu.T, trial.nu, trial.mu)
    test = data.draw(rng, clean, np.eye(2))  # its roles and labels alone are used
    z, _, f = fresh.draw(rng, test.Y_star, test.roles, clean.weak_scale, *law)
    wrong = int(np.sum(f * test.Y_star <= 0))
    attention = np.mean(np.sum(softmax(z) * (test.roles == data.RELEVANT), axis=-1))
    return wrong / size, binomial_interval(wrong, size), float(attention)
