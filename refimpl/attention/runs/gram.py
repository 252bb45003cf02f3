r"""Ours: the same descent in the tokens' Gram matrix, at a cost that does not depend on d.

By Lemma D.1 the iterate is $p = W X^\top \rho$, a combination of the tokens themselves, so with W orthogonal
the logits are $z = X W^\top p = M \rho$, $M = X X^\top$ over all nT tokens. A step adds $\Delta\rho$ to $\rho$ and
$M \Delta\rho$ to z: (nT)^2 multiplications, for several settings at once.

    M, gamma = gram(X, nu)
    rho = descend(M, gamma, Y, alpha, steps)
    p = combine(X, rho)                         the p of descent.descend_p, up to rounding
"""

import numpy as np

from refimpl.checks import Diverged, arrays, count, fits, labels, matrix, number


def gram(X, nu):
    r"""Ours. $M = X X^\top$ over all tokens, in the order (i, t), and the scores $\gamma = X\nu$.

    X : (n, T, d).  nu : (d,).  Returns M : (nT, nT), gamma : (n, T).  Raises ValueError where the axes do not agree.

    States: attention Lemma D.1
    """
    X, nu = arrays(X=(X, "nTd"), nu=(nu, "d"))
    tokens = X.reshape(-1, X.shape[-1])
    fits("M", len(tokens), len(tokens))
    return tokens @ tokens.T, X @ nu


def combine(X, rho, W=None):
    r"""Lemma D.1. $p = W \sum_{i,t} \rho_{i,t} x^{(i)}_t$.

    X : (n, T, d).  rho : (n, T).  W : (d, d), the identity where None.  Returns (d,).

    States: attention Lemma D.1
    """
    X, rho = arrays(X=(X, "nTd"), rho=(rho, "nT"))
    q = np.tensordot(rho, X, axes=2)
    return q if W is None else matrix(W, q=q) @ q


def descend(M, gamma, Y, alpha, steps, rho=None, record=None):
    r"""Lemma D.1. Descent on p from $\rho$: $\Delta\rho_{i,t} = \frac\alpha n (-\ell'_i) Y_i s_t (\gamma_t - f_i)$.

    M : (..., nT, nT).  gamma : (..., n, T).  Y : (..., n).  The leading axes run over settings, together.
    alpha : > 0.  steps : >= 0.  rho : (..., n, T) to start from, 0 where None.
    record : called as record(tau, rho, s) for tau = 0 ... steps, with arrays of their own.
    Returns rho : (..., n, T).  Raises ValueError; Diverged (step, last finite rho) where logits pass 1e154.

    States: attention Lemma D.1
    """
    M, gamma, Y, rho, z, alpha, steps = _checked(M, gamma, Y, alpha, steps, rho)
    rows, n, T = np.arange(Y.size), *gamma.shape[-2:]
    scores = Y[..., None] * gamma  # Y enters only here: as Y f and as Y gamma
    flat_scores = scores.reshape(-1, T)
    with np.errstate(over="ignore", invalid="ignore"):
        for tau in range(steps + 1):
            flat = z.reshape(-1, T)
            top = flat.argmax(axis=-1)
            s = np.exp(z - flat[rows, top].reshape(*Y.shape, 1))
            s /= s.sum(axis=-1, keepdims=True)
            if record is not None:
                record(tau, rho.copy(), s.copy())
            if tau == steps:
                return rho
            best = flat_scores[rows, top].reshape(Y.shape)
            h = scores - best[..., None]  # scores from the top token's: nothing cancels when attention is one-hot
            mean = np.einsum("...t,...t->...", s, h)
            slope = alpha / n / (1 + np.exp(best + mean))
            h -= mean[..., None]
            h *= s
            h *= slope[..., None]
            z = z + (M @ h.reshape(*h.shape[:-2], n * T, 1)).reshape(z.shape)
            if not np.vdot(z, z) < np.inf:
                raise Diverged(f"diverged: logits beyond 1e154 at step {tau + 1} (a smaller alpha?)", tau + 1, rho)
            rho = rho + h


def _checked(M, gamma, Y, alpha, steps, rho):
    gamma, Y = arrays(gamma=(gamma, "...nT"), Y=(Y, "...n"))
    M, _ = arrays(M=(M, "...NN"), gamma=(gamma, "...nT"))
    n, T = gamma.shape[-2:]
    if M.shape[-1] != n * T:
        raise ValueError(f"M: must have shape (..., {n * T}, {n * T}), got {M.shape}")
    rho = np.zeros(gamma.shape) if rho is None else arrays(rho=(rho, "...nT"), gamma=(gamma, "...nT"))[0].copy()
    z = (M @ rho.reshape(*rho.shape[:-2], n * T, 1)).reshape(gamma.shape)
    return M, gamma, labels("Y", Y), rho, z, number("alpha", alpha, above=0), count("steps", steps, least=0)
