r"""Lemma D.1: p as signals and noises, with the recursion of the coefficients.

$p(\tau) = \lambda_{+1} W\mu_{+1} + \lambda_{-1} W\mu_{-1} + \sum_{i,t} \rho_{i,t} W\epsilon_t^{(i)}$.

    delta_rho = noise_update(z, gamma, Y, alpha)          Delta rho_{i,t}
    delta_lam = signal_update(delta_rho, carried)         Delta lam_c
    lam, rho  = recursion(sample, mu, nu, ...)            both, from zero
    p         = reconstruct(lam, rho, mu, noise, W)       the sum above
    parts     = decompose(p, mu, noise, W)                and back
"""

import warnings
from typing import NamedTuple

import numpy as np

from refimpl.attention.data import signal_of
from refimpl.attention.model import token_slopes
from refimpl.checks import Diverged, arrays, count, fits, matrix, number

ILL_CONDITIONED = 1e8  # above this, coefficients keep less than half of their digits


class Decomposition(NamedTuple):
    """What decompose returns.

    lam : (2,) and rho : (n, T), the coefficients; the smallest in norm where they are not unique
    rank, condition : of the directions' matrix; condition over the singular values that count
    cutoff : singular values at or below it were taken for zero
    unique : whether the directions are independent
    residual : |p - reconstruction| / |p|, above rounding only where p lies outside the span

    States: attention Lemma D.1
    """

    lam: np.ndarray
    rho: np.ndarray
    rank: int
    condition: float
    cutoff: float
    unique: bool
    residual: float


def noise_update(z, gamma, Y, alpha):
    r"""Lemma D.1. $\Delta\rho_{i,t} = \frac\alpha n (-\ell'_i) Y_i s^{(i)}_t (\gamma^{(i)}_t - f_i)$.

    Each row sums to zero: $\sum_t s_t(\gamma_t - f) = f - f$.

    z, gamma : (n, T) logits and scores.  Y : (n,).  alpha : > 0.  Returns (n, T).

    States: attention Lemma D.1
    """
    return -number("alpha", alpha, above=0) * token_slopes(z, gamma, Y)


def signal_update(rho, carried):
    r"""Lemma D.1. $\lambda_c = \sum_{i: Y^*_i = c} \sum_R \rho_{i,t} + \rho \sum_i \sum_{W_c^{(i)}} \rho_{i,u}$.

    $x_t$ enters p with the coefficient of its noise, and carries its share of each signal with it. Linear,
    so the same for the updates $\Delta\rho$ and for the coefficients themselves.

    rho : (..., n, T).  carried : (..., n, T, 2) from data.signal_of.  Returns (..., 2), classes +1, -1.

    States: attention Lemma D.1
    """
    rho, carried = arrays(rho=(rho, "...nT"), carried=(carried, "...nT2"))
    return np.einsum("...it,...itc->...c", rho, carried)


def recursion(sample, mu, nu, weak_scale, alpha, steps, record=None):
    r"""Lemma D.1. Gradient descent from p = 0 in the coefficients $\lambda, \rho$ alone.

    The logits are $z_t = \sum_c \lambda_c \langle x_t, \mu_c\rangle + \sum_{j,u} \rho_{j,u} \langle x_t,
    \epsilon_u^{(j)}\rangle$: W is orthogonal and drops out.

    sample : a data.Sample.  mu : (2, d).  nu : (d,).  weak_scale : rho, as it was drawn with.
    alpha : > 0.  steps : >= 0.
    record : called as record(tau, lam, rho) for tau = 0 ... steps, with arrays of their own.
    Returns lam : (2,), rho : (n, T).  Raises ValueError where the axes do not agree; Diverged with the step and
    the last finite (lam, rho).

    States: attention Lemma D.1
    """
    X, noise, Y = arrays(X=(sample.X, "nTd"), noise=(sample.noise, "nTd"), Y=(sample.Y, "n"))
    mu, nu, X = arrays(mu=(mu, "2d"), nu=(nu, "d"), X=(X, "nTd"))
    alpha = number("alpha", alpha, above=0)
    fits("products of tokens and noises", *X.shape[:2], *X.shape[:2])
    x_mu = X @ mu.T
    x_noise = np.tensordot(X, noise, axes=(2, 2))
    gamma, carried = X @ nu, signal_of(sample.Y_star, sample.roles, weak_scale)
    lam, rho = np.zeros(2), np.zeros(Y.shape + gamma.shape[1:])
    for tau in range(count("steps", steps, least=0) + 1):
        if record is not None:
            record(tau, lam.copy(), rho.copy())
        if tau == steps:
            return lam, rho
        with np.errstate(over="ignore", invalid="ignore"):
            z = x_mu @ lam + np.tensordot(x_noise, rho, axes=2)
        if not np.all(np.isfinite(z)):
            raise Diverged(f"diverged: step {tau + 1} overflows (a smaller alpha?)", tau + 1, (lam, rho))
        delta_rho = noise_update(z, gamma, Y, alpha)
        lam, rho = lam + signal_update(delta_rho, carried), rho + delta_rho


def reconstruct(lam, rho, mu, noise, W=None):
    r"""Lemma D.1. $p = W(\sum_c \lambda_c \mu_c + \sum_{i,t} \rho_{i,t} \epsilon^{(i)}_t)$.

    lam : (2,).  rho : (n, T).  mu : (2, d).  noise : (n, T, d).  W : (d, d), the identity where None.  Returns (d,).

    States: attention Lemma D.1
    """
    lam, mu, rho, noise = arrays(lam=(lam, "2"), mu=(mu, "2d"), rho=(rho, "nT"), noise=(noise, "nTd"))
    q = lam @ mu + np.tensordot(rho, noise, axes=2)
    return q if W is None else matrix(W, q=q) @ q


def decompose(p, mu, noise, W=None, rcond=None):
    r"""Lemma D.1. The coefficients of a given p; unique where signals and noises are independent ($d \ge nT + 2$).

    Least squares in the directions $(\mu_{+1}, \mu_{-1}, \epsilon)$ against $q = W^\top p$.

    p : (d,).  mu : (2, d).  noise : (n, T, d).  W : (d, d) orthogonal, the identity where None.
    rcond : singular values up to rcond times the largest count as zero; None: machine epsilon times the longer side.
    Returns a Decomposition, whatever the rank.  Warns above a condition number of 1e8.  Raises ValueError for shapes.

    States: attention Lemma D.1
    """
    p, mu, noise = arrays(p=(p, "d"), mu=(mu, "2d"), noise=(noise, "nTd"))
    q = p if W is None else p @ matrix(W, p=p)
    n, T, d = noise.shape
    parts = _span_coefficients(np.vstack((mu, noise.reshape(n * T, d))), q, rcond)
    return Decomposition(parts[0][:2], parts[0][2:].reshape(n, T), *parts[1:])


def _span_coefficients(directions, q, rcond=None):
    """The least-norm least-squares coefficients of q in the directions, from their singular values.

    directions : (m, d).  q : (d,).  Returns (coefficients, rank, condition, cutoff, unique, residual).
    """
    directions, q = arrays(directions=(directions, "md"), q=(q, "d"))
    rcond = max(directions.shape) * np.finfo(float).eps if rcond is None else number("rcond", rcond, 0, 1)
    U, sigma, V = np.linalg.svd(directions.T, full_matrices=False)
    cutoff = float(rcond * sigma[0])
    rank = int(np.sum(sigma > cutoff))
    condition = float(sigma[0] / sigma[rank - 1]) if rank else 1.0
    if condition > ILL_CONDITIONED:
        message = f"condition number {condition:.1e}: coefficients may be rounding alone"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    coefficients = V[:rank].T @ ((U[:, :rank].T @ q) / sigma[:rank])
    gap, size = np.linalg.norm(q - coefficients @ directions), np.linalg.norm(q)
    residual = float(gap / size) if size > 0 else 0.0
    return coefficients, rank, condition, cutoff, rank == len(directions), residual
