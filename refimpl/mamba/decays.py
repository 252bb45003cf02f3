r"""Section 12: the decays of the listed recurrences, each with the gradient of what it is made of.

    mamba2_decay   retnet_decay   gated_retention_decay   gated_linear_attention_decay
    ..._gradient                            of F, from t = G x, the summands of F (recurrences.py)
    own_gate                                gated linear attention as printed, no decay at all

In none of the four does $G_{i,t}$ depend on $p_i$: an example cannot close a gate before itself, as in Eq. 3.
"""

import numpy as np

from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays, number
from refimpl.mamba.recurrences import log_decay_gradient


def mamba2_decay(P, w, a):
    r"""Section 12. Mamba-2: $\gamma(w, a; i) = e^{-\mathrm{softplus}(w^\top p_i) e^a}$.

    P : (..., l, d+1).  w : (d+1,).  a : a number.  Returns (..., l, 1), in [0, 1].

    States: mamba Section 12 (Mamba-2)
    """
    P, w = arrays(P=(P, "...id"), w=(w, "d"))
    return np.exp(-np.logaddexp(0, P @ w) * _rate(a))[..., None]


def mamba2_gradient(P, w, a, t):
    r"""Section 12. $\partial_w = -e^a \sum_j \sigma(w^\top p_j) L_j p_j$ and $\partial_a = \sum_j \ln \gamma_j \, L_j$.

    $\ln \gamma_j = -\mathrm{softplus}(w^\top p_j) e^a$, and $L_j = \sum_{i<j} t_i$ is the derivative in it.

    P : (B, l, d+1).  w : (d+1,).  a : a number.  t : (B, l, 1), $t_i = G_i x_i$.  Returns (d+1,), and a float.

    States: mamba Section 12 (Mamba-2)
    """
    P, w = arrays(P=(P, "nid"), w=(w, "d"))
    z = P @ w
    L = log_decay_gradient(t)[..., 0]
    by_w = -_rate(a) * np.einsum("ni,nid->d", sigmoid(z) * L, P)
    return by_w, float(-_rate(a) * np.sum(np.logaddexp(0, z) * L))


def retnet_decay(P, gamma):
    r"""Section 12. RetNet: $\gamma_i = \gamma$, the same at every step, so that $G_{i,t} = \gamma^{t-i}$.

    P : (..., l, d+1).  gamma : in [0, 1].  Returns (..., l, 1).

    States: mamba Section 12 (RetNet)
    """
    return np.full((*arrays(P=(P, "...id")).shape[:-1], 1), number("gamma", gamma, 0, 1))


def retnet_gradient(P, gamma, x):
    r"""Section 12. $\partial F / \partial \gamma = \sum_i (t - i) \gamma^{t-i-1} x_i$, a polynomial.

    P : (B, l, d+1).  gamma : in [0, 1].  x : (B, l, 1).  Returns a float.

    States: mamba Section 12 (RetNet)
    """
    P, x = arrays(P=(P, "nid"), x=(x, "ni1"))
    after = np.arange(P.shape[1])[::-1]
    return float(x[..., 0].sum(axis=0) @ (after * number("gamma", gamma, 0, 1) ** np.maximum(after - 1, 0)))


def gated_retention_decay(P, w, tau=1.0):
    r"""Section 12. Gated retention: $\gamma(w; i) = \sigma(w^\top p_i)^{1/\tau}$ with $\tau > 0$.

    The printed $\tau \in \mathbb R$ would let the state grow where it is negative.

    P : (..., l, d+1).  w : (d+1,).  tau : > 0.  Returns (..., l, 1), in [0, 1].

    States: mamba Section 12 (gated retention)
    """
    P, w = arrays(P=(P, "...id"), w=(w, "d"))
    return gated_linear_attention_decay(P, w[None], tau)


def gated_retention_gradient(P, w, tau, t):
    r"""Section 12. $\partial F / \partial w = \frac1\tau \sum_j (1 - \sigma(w^\top p_j)) L_j p_j$, one row of Eq. 35's.

    P : (B, l, d+1).  w : (d+1,).  tau : > 0.  t : (B, l, 1), $t_i = G_i x_i$.  Returns (d+1,).

    States: mamba Section 12 (gated retention)
    """
    P, w = arrays(P=(P, "nid"), w=(w, "d"))
    return gated_linear_attention_gradient(P, w[None], tau, t)[0]


def gated_linear_attention_decay(P, W, tau=1.0):
    r"""Section 12. Gated linear attention: $\gamma_i = \sigma(W p_i)^{1/\tau}$, a number to each row of W.

    Printed is $\sigma(W p_i)^{1/\tau} 1_m^\top$, the value side, W (d0, d0): F reads one row of h, and so is gated
    retention with the last row of W. On the key side, $1_{d_0} (\sigma(W p_i)^{1/\tau})^\top$, W is (m, d0).

    P : (..., l, d+1).  W : (c, d+1).  tau : > 0.  Returns (..., l, c), in [0, 1].

    States: mamba Section 12 (gated linear attention)
    """
    P, W = arrays(P=(P, "...id"), W=(W, "cd"))
    z = P @ W.T
    return np.exp((np.minimum(z, 0) - np.log1p(np.exp(-np.abs(z)))) / number("tau", tau, above=0))


def gated_linear_attention_gradient(P, W, tau, t):
    r"""Eq. 35, repaired. $\partial F / \partial W = \frac1\tau \sum_j ((1 - \sigma(W p_j)) \odot L_j) p_j^\top$.

    $\partial_z \ln \sigma(z)^{1/\tau} = (1 - \sigma(z)) / \tau$, and $L_{jc} = \sum_{i<j} t_{ic}$. Printed is
    the gradient with the token's own gate in place of all later ones: own_gate_gradient.

    P : (B, l, d+1).  W : (c, d+1).  tau : > 0.  t : (B, l, c), $t_{ic} = G_{ic} x_{ic}$.  Returns (c, d+1).

    States: mamba Eq. 35; mamba Section 12 (gated linear attention)
    """
    P, W, t = arrays(P=(P, "nid"), W=(W, "cd"), t=(t, "nic"))
    return _outer(sigmoid(-(P @ W.T)) * log_decay_gradient(t), P) / number("tau", tau, above=0)


def own_gate(P, W, tau=1.0):
    r"""Section 12, gated linear attention as printed: $G_i = \sigma(W p_i)^{1/\tau}$ on the keys, no product.

    It is no recurrence's gate: nothing forgets, and each example, the last one too, is weighed by itself.

    P : (..., l, d+1).  W : (m, d+1).  tau : > 0.  Returns G : (..., l, m).

    States: mamba Eq. 35
    """
    return gated_linear_attention_decay(P, W, tau)


def own_gate_gradient(P, W, tau, t):
    r"""Eq. 35, as printed. $\frac1\tau \sum_i (t_i \odot (1 - \sigma(W p_i))) p_i^\top$.

    $t_i = y_i (W_K p_i \odot W_Q p_{query}) \odot \sigma(W p_i)^{1/\tau}$. It is the derivative of the printed
    $F = \sum_i y_i (W_K p_i \odot \sigma(W p_i)^{1/\tau})^\top W_Q p_{query}$.

    P : (B, l, d+1).  W : (m, d+1).  tau : > 0.  t : (B, l, m).  Returns (m, d+1).

    States: mamba Eq. 35
    """
    P, W, t = arrays(P=(P, "nid"), W=(W, "cd"), t=(t, "nic"))
    return _outer(t * sigmoid(-(P @ W.T)), P) / number("tau", tau, above=0)


def _outer(u, P):
    """Sum over prompts and tokens of u p^T."""
    return u.reshape(-1, u.shape[-1]).T @ P.reshape(-1, P.shape[-1])


def _rate(a):
    return np.exp(min(number("a", a), 690.0))  # a finite e^a; beyond, only a softplus below 1e-299 would tell
