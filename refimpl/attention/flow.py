r"""Ours: gradient flow $\dot p = -\nabla_p \hat L$ in logarithmic time, and the law by which a logit gap grows.

Descent with step alpha is at tau near the flow at time $t = \alpha\tau$. Logits grow like log t: what training
ends in is out of any descent's reach, but log t is an ordinary variable,

    u = log(t V / n),    V the largest |x|^2,    dz/du = M (dv/du) / V,    v = V rho,

with no number in it that depends on the size of d or of t.

    path = flow(M, gamma, Y, log_times, roles)
    t    = gap_time(x, T, ...)                  when one sample's logit gap is x
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import quad, solve_ivp

from refimpl.attention.data import RELEVANT
from refimpl.attention.uncertainty import Totals
from refimpl.calculus.losses import logistic_derivative
from refimpl.checks import arrays, finite, labels, number


class Path(NamedTuple):
    """What flow returns, K moments.

    log_times : (K,) u.  rho : (K, n, T), coefficients as in gram.  z : (K, n, T), logits.
    log_s : (K, n, T), logarithms of the attention weights.
    totals : uncertainty.Totals of $V/n$ times the integrals over t, (K, n) and (K, n, T); None without roles.
    evaluations : how often the right side was computed
    """

    log_times: np.ndarray
    rho: np.ndarray
    z: np.ndarray
    log_s: np.ndarray
    totals: Totals
    evaluations: int


def flow(M, gamma, Y, log_times, roles=None, rtol=1e-8):
    r"""Section 3.4, with a step that goes to zero. $\dot\rho_{i,t} = \frac1n (-\ell'_i) Y_i s_t (\gamma_t - f_i)$ from p = 0.

    With roles, the sums of Definition 4.1 and Eq. 9 as integrals of $\mathfrak S^{(i)}$ and of $s_t (1 - s_t)$.

    M : (nT, nT), gamma : (n, T) from gram.gram.  Y : (n,).  log_times : (K,) u, increasing, below 1e4.
    roles : (n, T) or None.  rtol : of the integrator.  Returns a Path.
    Raises ValueError; FloatingPointError where the integrator gives up.

    States: attention Section 3.4 (gradient descent)
    """
    M, gamma, Y, u = arrays(M=(M, "NN"), gamma=(gamma, "nT"), Y=(labels("Y", Y), "n"), log_times=(log_times, "K"))
    if M.shape[0] != gamma.size or np.any(np.diff(u) <= 0) or u[-1] > 1e4:
        raise ValueError("M, log_times: M must be (nT, nT), log_times increase and stay below 1e4")
    V = np.max(np.diag(M))
    M, (n, T), N = M / V, gamma.shape, gamma.size
    relevant = np.zeros((n, T), bool) if roles is None else arrays(roles=(roles, "nT"), gamma=(gamma, "nT"))[0] == RELEVANT

    def rates(u, y):
        log_s = log_softmax((M @ y[:N]).reshape(n, T))
        pairs = pair_products(log_s, u)
        slope = -Y * logistic_derivative(Y * np.sum(np.exp(log_s) * gamma, axis=-1))
        v = slope[:, None] * score_gaps(pairs, gamma)
        undecided = np.einsum("it,itu,iu->i", relevant, pairs, ~relevant)
        return np.concatenate((v.ravel(), undecided, pairs.sum(axis=-1).ravel()))

    # before u_0 the state moves by about e^{u_0}: one Euler step, its error of the order e^{2 u_0}
    start = min(u[0], np.log(rtol) / 2 - 1)
    y = rates(start, np.zeros(N + n + N))
    done = solve_ivp(rates, (start, max(u[-1], start + 1e-9)), y, "LSODA", t_eval=u, rtol=rtol, atol=rtol)
    if not done.success:
        raise FloatingPointError(f"flow: {done.message}")
    v, undecided, variance = np.split(done.y.T, (N, N + n), axis=1)
    z, shape = (v @ M).reshape(-1, n, T), (-1, n, T)
    totals = None if roles is None else Totals(undecided, variance.reshape(shape))
    return Path(u, v.reshape(shape) / V, z, log_softmax(z), totals, done.nfev)


def log_softmax(z):
    r"""Section 3.1. $\log s_t = z_t - \log\sum_u e^{z_u}$: what is left of a weight that underflows.

    z : (..., T), finite.  Returns (..., T).

    States: attention Section 3.1 (softmax)
    """
    z = finite("z", z)
    z = z - np.max(z, axis=-1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))


def pair_products(log_s, u=0.0):
    r"""Eq. 18. $e^u s_t s_w$ for every pair of different tokens, 0 for t = w: finite though $e^u$ is not.

    From them, without cancellation: $s_t (1 - s_t) = \sum_w s_t s_w$ and $s_t (\gamma_t - f) = \sum_w s_t s_w (\gamma_t - \gamma_w)$.

    log_s : (..., T).  u : a number.  Returns (..., T, T).

    States: attention Eq. 18
    """
    pairs = np.exp(np.minimum(log_s[..., :, None] + log_s[..., None, :] + u, 700.0))
    return pairs * (1 - np.eye(pairs.shape[-1]))


def score_gaps(pairs, gamma):
    r"""Eq. 18. $\sum_w P_{tw} (\gamma_t - \gamma_w)$, for $P_{tw} = s_t s_w$ the token's part $s_t (\gamma_t - f)$ of $J(s)\gamma$.

    pairs : (..., T, T).  gamma : (..., T).  Returns (..., T).

    States: attention Eq. 18
    """
    return np.einsum("...tw,...tw->...t", pairs, gamma[..., :, None] - gamma[..., None, :])


def growth(x, T, r=1):
    r"""Section 4.3. $g(x) = 2x + 2\sinh(x - \log\frac{T - r}{r})$: linear at first, then exponential in the logit gap x.

    One sample, noise of squared norm V without overlaps, no signals; r tokens of score b + D with logits x above
    the T - r others, of score b. With $Z = r e^x + T - r$, $S = r e^x / Z$ and $s_t = e^x / Z$, $s_u = 1 / Z$,

        dx/dt = (V |l'| D / n) [s_t (1 - S) + s_u S] = (V |l'| D / n) T e^x / Z^2,

    and $Z^2 e^{-x} = r (T - r) g'(x)$: so g grows at the rate $\frac{V |\ell'| D}{n} \cdot \frac{T}{r (T - r)}$,
    constant where l' is, and x only like log t.

    x : any shape.  T : tokens.  r : 1 ... T - 1.  Returns the shape of x.

    States: attention Section 4.3 (diminishing updates)
    """
    x = finite("x", x)
    shift = np.log(number("T", T, least=2) - number("r", r, 1, T - 1)) - np.log(r)
    return 2 * x + 2 * np.sinh(x - shift)


def growth_derivative(x, T, r=1):
    r"""Section 4.3. $g'(x) = 2 + 2\cosh(x - \log\frac{T - r}{r}) = \frac{(r e^x + T - r)^2}{r (T - r) e^x}$.

    Arguments as in growth.

    States: attention Section 4.3 (diminishing updates)
    """
    x = finite("x", x)
    shift = np.log(number("T", T, least=2) - number("r", r, 1, T - 1)) - np.log(r)
    return 2 + 2 * np.cosh(x - shift)


def gap_time(x, T, V, D, n, r=1, b=None):
    r"""Section 4.3. The time at which the gap is x: $\frac{V D}{n} \cdot \frac{T}{r (T - r)}\, t = \int_0^x (1 + e^{b + D S(y)})\, dg(y)$.

    $1 / |\ell'| = 1 + e^f$ with $f = b + D S(x)$, Y = +1. With b = None, l' is frozen at -1/2 and t is
    $2 (g(x) - g(0))$ over the same rate.

    x : >= 0.  V : squared norm of a noise.  D : > 0, the scores' difference.  n : samples.  Returns t.

    States: attention Section 4.3 (diminishing updates)
    """
    x, D = number("x", x, least=0), number("D", D, above=0)
    rate = number("V", V, above=0) * D / n * T / (r * (T - r))
    if b is None:
        return float(2 * (growth(x, T, r) - growth(0.0, T, r)) / rate)

    def integrand(y):
        S = 1 / (1 + (T - r) / r * np.exp(-y))
        return (1 + np.exp(b + D * S)) * growth_derivative(y, T, r)

    return quad(integrand, 0, x, epsrel=1e-11, limit=200)[0] / rate
