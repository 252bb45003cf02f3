r"""Theorem 4.2, one trial: a training set without its d, the flow on it, and fresh samples for any moment of it.

trial = run(rng, log_times, n, norm, d, T, relevant, weak, weak_scale, noise_rate)
wrong, interval, relevant = generalize(trial, k, rng, size)
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention import data, generalization
from refimpl.attention.decomposition import signal_update
from refimpl.attention.head import linear_head
from refimpl.attention.runs import fresh, wishart
from refimpl.attention.runs.flow import Path, flow
from refimpl.attention.runs.gram import gram
from refimpl.calculus.softmax import softmax
from refimpl.checks import count


class Trial(NamedTuple):
    r"""What run returns, K moments.

    sample : data.Sample in the tokens' span.  mu : (2, k).  nu : (k,), of norm 1/|mu|.  Sigma : (k,).
    weak_scale : rho.
    M, gamma : of gram.gram.  path : a flow.Path, with totals.
    lam : (K, 2), $\lambda_{+1}, \lambda_{-1}$ of Lemma D.1.  margins : (K, n), $Y_i f_i$.

    States: attention Theorem 4.2 (overfitting)
    """

    sample: data.Sample
    mu: np.ndarray
    nu: np.ndarray
    Sigma: np.ndarray
    weak_scale: float
    M: np.ndarray
    gamma: np.ndarray
    path: Path
    lam: np.ndarray
    margins: np.ndarray


def run(rng, log_times, n, norm, d, T, relevant, weak, weak_scale, noise_rate=0.0, flips=None):
    r"""Theorem 4.2. Trains on n samples of Definition 3.1, $\Sigma = I$, $\|\nu\| = 1/\|\mu\|$, by flow from p = 0.

    rng, n, norm, d, T, relevant, weak, weak_scale, noise_rate : as in wishart.draw_training.  log_times : as in flow.
    flips : with noise_rate 0, how many labels are wrong of the samples with Y* = +1 and with Y* = -1; None for no more.
    Returns a Trial.  Raises ValueError, also for more flips than a class has samples; FloatingPointError as flow does.

    States: attention Theorem 4.2 (overfitting); attention Theorem 4.2 (benign); attention Theorem 4.2 (harmful)
    """
    if flips is not None and (np.shape(flips) != (2,) or noise_rate != 0):
        raise ValueError("flips: must be two numbers, with noise_rate 0")
    sample, mu, Sigma = wishart.draw_training(rng, n, norm, d, T, relevant, weak, weak_scale, noise_rate)
    if flips is not None:
        sample = sample._replace(Y=_flipped(sample.Y_star, flips))
    nu = linear_head(mu)
    M, gamma = gram(sample.X, nu)
    path = flow(M, gamma, sample.Y, log_times, sample.roles)
    carried = data.signal_of(sample.Y_star, sample.roles, weak_scale)
    lam = signal_update(path.rho, np.broadcast_to(carried, (len(path.rho), *carried.shape)))
    margins = sample.Y * np.einsum("kit,it->ki", np.exp(path.log_s), gamma)
    return Trial(sample, mu, nu, Sigma, weak_scale, M, gamma, path, lam, margins)


def _flipped(Y_star, flips):
    """The labels: the clean ones, but for the first so many of each class."""
    Y = Y_star.copy()
    for c, k in zip((1, -1), flips):
        members = np.flatnonzero(Y_star == c)
        if count("flips", k, least=0) > len(members):
            raise ValueError(f"flips: {k} of the {len(members)} samples with Y* = {c}")
        Y[members[:k]] = -c
    return Y


def generalize(trial, k, rng, size):
    r"""Eq. 12. The test error at moment k, and the attention that a fresh sample's relevant tokens get on average.

    rng : numpy Generator.  size : how many fresh samples.
    Returns the share of wrong ones, its 99 % interval, and $\mathrm{E} \sum_{t\in R} s_t$.

    States: attention Eq. 12; attention Section E.2.4
    """
    X, roles = trial.sample.X, trial.sample.roles
    law = fresh.law_from_gram(trial.path.rho[k], trial.M, trial.gamma, X @ trial.mu.T, trial.nu, trial.mu)
    relevant, weak = np.sum(roles[0] == data.RELEVANT), np.sum(np.abs(roles[0]) == 1)
    T, rho = roles.shape[1], trial.weak_scale
    test = data.draw(rng, size, np.eye(2), T, int(relevant), int(weak), rho, 0.0)  # its roles and labels alone are used
    z, _, f = fresh.draw(rng, test.Y_star, test.roles, rho, *law)
    wrong = int(np.sum(f * test.Y_star <= 0))
    attention = np.mean(np.sum(softmax(z) * (test.roles == data.RELEVANT), axis=-1))
    return wrong / size, generalization.binomial_interval(wrong, size), float(attention)
