r"""Ours: gradient flow $\dot p = -\nabla_p \hat L$ in logarithmic time, in Gram form.

Descent with step $\alpha$ is at $\tau$ near the flow at time $t = \alpha\tau$. Logits grow like $\log t$: what training
ends in is out of any descent's reach, but the logarithm is an ordinary variable. With V the largest $\|x\|^2$,
$u = \log(t V / n)$ and $v = V \rho$, it is $\frac{dz}{du} = \frac1V M \frac{dv}{du}$, with no number in it that
depends on the size of d or of t.

    path  = flow(M, gamma, Y, log_times, roles)
    q     = flow_in_q(X, Y, gamma, logs)                W^T p at the times e^logs, without the Gram form
    rates = late_direction(M, tokens)                   d rho / du once the tokens are picked
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from refimpl.attention.data import RELEVANT
from refimpl.attention.uncertainty import Totals
from refimpl.calculus.losses import logistic_derivative
from refimpl.calculus.softmax import log_softmax
from refimpl.checks import arrays, labels, number

LARGEST_PAIR = 700.0  # the exponent up to which a product e^u s_t s_w is a float
STIFF = 300  # tokens up to which an implicit method pays: its steps grow with u, an explicit one's do not


class Path(NamedTuple):
    """What flow returns, K moments.

    log_times : (K,), the u.  rho : (K, n, T), coefficients as in gram.  z : (K, n, T), logits.
    log_s : (K, n, T), logarithms of the attention weights.
    totals : uncertainty.Totals of $V/n$ times the integrals over t, (K, n) and (K, n, T); None without roles.
    evaluations : how often the right side was computed.

    States: attention Section 3.4 (gradient descent)
    """

    log_times: np.ndarray
    rho: np.ndarray
    z: np.ndarray
    log_s: np.ndarray
    totals: Totals
    evaluations: int


def flow(M, gamma, Y, log_times, roles=None, rtol=1e-8, z=None):
    r"""Section 3.4, the step going to zero. $\dot\rho_{i,t} = \frac1n (-\ell'_i) Y_i s_t (\gamma_t - f_i)$, from p = 0.

    With roles, the sums of Definition 4.1 and Eq. 9 as integrals of $\mathfrak S^{(i)}$ and of $s_t (1 - s_t)$.

    M : (nT, nT), gamma : (n, T) from gram.gram.  Y : (n,).  log_times : (K,) u, increasing, below 1e6.
    roles : (n, T) or None.  rtol : of the integrator, in [1e-13, 0.1].
    z : (n, T), the logits at another start p_0; rho is then that of p - p_0.  Returns a Path.
    Raises ValueError; FloatingPointError where the integrator gives up, and with roles where a product of weights
    times e^u is still beyond e^700 (a tie that outlasts u = 700), since the sums would be wrong.

    States: attention Section 3.4 (gradient descent)
    """
    M, gamma, Y, u = arrays(M=(M, "NN"), gamma=(gamma, "nT"), Y=(labels("Y", Y), "n"), log_times=(log_times, "K"))
    if M.shape[0] != gamma.size or np.any(np.diff(u) <= 0) or u[-1] > 1e6:
        raise ValueError("M, log_times: M must be (nT, nT), log_times increase and stay below 1e6")
    V, rtol = number("M: the largest |x|^2", np.max(np.diag(M)), above=0), number("rtol", rtol, 1e-13, 0.1)
    M, (n, T), N = M / V, gamma.shape, gamma.size
    z_0 = arrays(z=(np.zeros((n, T)) if z is None else z, "nT"), gamma=(gamma, "nT"))[0]
    relevant = np.zeros((n, T), bool)
    if roles is not None:
        relevant = arrays(roles=(roles, "nT"), gamma=(gamma, "nT"))[0] == RELEVANT

    def rates(u, y):
        log_s = log_softmax(z_0 + (M @ y[:N]).reshape(n, T))
        pairs = _pair_products(log_s, u)
        slope = -Y * logistic_derivative(Y * np.sum(np.exp(log_s) * gamma, axis=-1))
        v = slope[:, None] * _score_gaps(pairs, gamma)
        if roles is None:
            return v.ravel()
        undecided = np.einsum("it,itu,iu->i", relevant, pairs, ~relevant)
        return np.concatenate((v.ravel(), undecided, pairs.sum(axis=-1).ravel()))

    def room(u, y):  # positive where the clip in _pair_products does not bind
        log_s = log_softmax(z_0 + (M @ y[:N]).reshape(n, T))
        return LARGEST_PAIR - u - np.max(np.partition(log_s, T - 2)[:, -2:].sum(axis=-1))

    room.terminal = True
    # before u_0 the state moves by about e^{u_0}: one Euler step, its error of the order e^{2 u_0}
    start = min(u[0], np.log(rtol) / 2 - 1)
    y = rates(start, np.zeros(N))
    method = "LSODA" if N <= STIFF else "DOP853"
    events = [room] if roles is not None and T > 1 and u[-1] > LARGEST_PAIR else None
    span = (start, max(u[-1], start + 1e-9))
    done = solve_ivp(rates, span, y, method, t_eval=u, rtol=rtol, atol=rtol, events=events)
    if done.status == 1:
        raise FloatingPointError(f"flow: two tokens tied beyond log time {LARGEST_PAIR:g}, the sums leave the floats")
    if not done.success:
        raise FloatingPointError(f"flow: {done.message}")
    v, undecided, variance = np.split(done.y.T, (N, N + n), axis=1)
    z, shape = z_0 + (v @ M).reshape(-1, n, T), (-1, n, T)
    totals = None if roles is None else Totals(undecided, variance.reshape(shape))
    return Path(u, v.reshape(shape) / V, z, log_softmax(z), totals, done.nfev)


def flow_in_q(X, Y, gamma, logs, q=None):
    r"""Section 4.3. Gradient flow in $q = W^\top p$, in log time $u = \log\tau$: $dq/du = -e^u \nabla\hat L(q)$.

    The scores are an argument, so that they can be set apart from the tokens. It is flow, to 1e-9, whose clock is
    $u + \log(V/n)$, V the largest $\|x\|^2$: from q, $q + \sum \rho_{i,t} x_t^{(i)}$.

    X : (n, T, d).  Y : (n,).  gamma : (n, T).  logs : (k,) the u, increasing.  q : (d,) to start from, 0 where None.
    Returns (k, d).  Raises ValueError where the axes do not agree, FloatingPointError where the integrator stops.

    States: attention Section 4.3 (max-margin obstacles)
    """
    X, Y, gamma, logs = arrays(X=(X, "nTd"), Y=(Y, "n"), gamma=(gamma, "nT"), logs=(logs, "k"))
    if np.any(np.diff(logs) <= 0):
        raise ValueError("logs: must increase")
    q = np.zeros(X.shape[-1]) if q is None else arrays(q=(q, "d"), X=(X, "nTd"))[0]
    tokens = X.reshape(-1, X.shape[-1])
    M = tokens @ tokens.T
    clock = np.log(number("X: the largest |x|^2", np.max(np.diag(M)), above=0) / len(Y))
    return q + np.tensordot(flow(M, gamma, Y, logs + clock, rtol=1e-9, z=X @ q).rho, X, axes=2)


def late_direction(M, tokens):
    r"""Lemma A.5, sharpened: $d\rho/du$ for $u \to \infty$, given the tokens $t^*_i$ that attention picks.

    Once $s_{t^*} \to 1$, token t loses $|\ell'_i| e^u s_t (\gamma_{t^*} - \gamma_t)$ per unit of u. That is neither 0
    nor infinite in the limit only if $\log s_t + u$ has one: every $z_{t^*} - z_t$ grows by 1 per unit of u. With
    $\sum_t \rho_{i,t} = 0$ these are nT equations for nT rates: the max-margin direction for the $t^*_i$
    (Section H) with all constraints active. It is the flow's where no other token's rate is positive; a token with a
    positive one would be slack.

    For orthogonal tokens of squared norm V it is $V \frac{d\rho_{i,t}}{du} = 1\{t = t^*_i\} - \frac1T$. The signals'
    coefficients then have, with data.signal_of and $\zeta = |R|/T$,
    $V \frac{d\lambda_c}{du} = (1 - \zeta) |C_c| - \zeta |N_{-c}| + \rho (|N_c| - \frac1T \sum_i |W_c^{(i)}|)$.
    So $\lambda_c$ ends positive about where $|N_{-c}| / |C_c| < (1 - \zeta)/\zeta$, whatever the start was.

    M : (nT, nT).  tokens : (n,), integers in 0 ... T - 1.  Returns d rho/du : (n, T).
    Raises ValueError where these equations are dependent, as they are for tokens in too few dimensions.

    States: attention Lemma A.5; attention Theorem 4.2 (harmful)
    """
    M, tokens = arrays(M=(M, "NN"), tokens=(tokens, "n"))
    N, n, V = len(M), len(tokens), number("M: the largest |x|^2", np.max(np.diag(M)), above=0)
    T, picked = N // n, tokens.astype(int)
    if N % n or np.any((picked != tokens) | (picked < 0) | (picked >= T)):
        raise ValueError(f"tokens: must be integers in 0 ... T - 1, one for each n of the nT = {N} rows of M")
    rows = M.reshape(n, T, N) / V
    equations = rows[np.arange(n), picked][:, None] - rows
    right = np.ones((n, T))
    equations[np.arange(n), picked] = np.kron(np.eye(n), np.ones(T))  # the picked token's row: sum_t rho_t = 0
    right[np.arange(n), picked] = 0
    equations = equations.reshape(N, N)
    if np.linalg.cond(equations) > 1e11:
        raise ValueError("M: the tokens are linearly dependent")
    return np.linalg.solve(equations, right.ravel()).reshape(n, T) / V


def _pair_products(log_s, u=0.0):
    r"""Eq. 18. (..., T, T): $e^u s_t s_w$ for every pair of different tokens, 0 for t = w: finite though $e^u$ is not.

    From them, without cancellation: $s_t (1 - s_t) = \sum_w s_t s_w$ and
    $s_t (\gamma_t - f) = \sum_w s_t s_w (\gamma_t - \gamma_w)$.

    Beyond e^700 it is e^700: z is then driven too slowly for a moment, and the product's integral is wrong.
    """
    pairs = np.exp(np.minimum(log_s[..., :, None] + log_s[..., None, :] + u, LARGEST_PAIR))
    return pairs * (1 - np.eye(pairs.shape[-1]))


def _score_gaps(pairs, gamma):
    r"""Eq. 18. (..., T): $\sum_w P_{tw} (\gamma_t - \gamma_w)$, which for $P_{tw} = s_t s_w$ is $(J(s)\gamma)_t$."""
    return np.einsum("...tw,...tw->...t", pairs, gamma[..., :, None] - gamma[..., None, :])
