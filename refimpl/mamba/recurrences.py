r"""Section 12: other linear recurrences as linear attention under gates, each with the gradient of its gates.

    recurrence = gated_sum = chunked        all outputs, three ways, for any decay in [0, 1]
    mamba2_decay   retnet_decay   gated_retention_decay   gated_linear_attention_decay
    output                                  F, the label coordinate of o_{l+1}
    ..._gradient                            of F in what the decay is made of

A state h (d0, m) decays and takes in $v_i k_i^\top$; here v = p, k = W_B p, q = W_C p, as in Section 2. A decay
has one number to a step, or one to each row (value side) or column (key side) of h. In F, with its readout of one
row, c is the axis of the decay's columns: c = 1 for a number, c = m on the key side.

In none of the four does $G_{i,t}$ depend on $p_i$: an example cannot close a gate before itself, as in Eq. 3.
"""

import numpy as np

from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays, count, finite, fits, number


def recurrence(decay, v, k, q, h_0=None):
    r"""Section 12. $h_i = \gamma_i \odot h_{i-1} + v_i k_i^\top$, $o_i = h_i q_i$.

    decay : (l,) in [0, 1], or (l, d0, 1) for the rows of h, or (l, 1, m) for its columns.
    v : (l, d0).  k, q : (l, m).  h_0 : (d0, m), zero unless given.
    Returns o (l, d0) and the last state (d0, m).  Raises ValueError for other shapes, or a decay outside [0, 1].

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    decay, v, k, q, h = _sequence(decay, v, k, q, h_0)
    o = []
    for gamma, v_i, k_i, q_i in zip(decay, v, k, q):
        h = gamma * h + np.outer(v_i, k_i)
        o.append(h @ q_i)
    return np.array(o), h


def segment_products(decay):
    r"""Section 12. $G_{i,t} = \prod_{j=i+1}^t \gamma_j$ for i < t, 1 for i = t, 0 for i > t: row t, column i.

    Each column is a running product of its own. As $e^{c_t - c_i}$ with running sums c of $\ln \gamma$, a large
    $c_i$ would take the digits of what comes after it.

    decay : (l, ...).  Returns (l, l, ...).  Raises ValueError for a decay outside [0, 1], or too many steps.

    States: mamba Section 12 (Mamba-2)
    """
    decay = _decay(decay)
    fits("segment_products", len(decay), *decay.shape)
    square = (len(decay), len(decay), *[1] * (decay.ndim - 1))
    later, upto = (np.tri(len(decay), k=k, dtype=bool).reshape(square) for k in (-1, 0))
    return np.cumprod(np.where(later, decay[:, None], 1), axis=0) * upto


def gated_sum(decay, v, k, q, h_0=None):
    r"""Section 12. $h_t = \sum_{i \le t} G_{i,t} \odot v_i k_i^\top + \prod_{j \le t} \gamma_j \odot h_0$, at once.

    The printed text has $v_t k_i^\top q_i$ for the summand of o_t: it is $v_i k_i^\top q_t$.

    Arguments, what is returned and raised : as in recurrence; ValueError too for more steps than memory holds.

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    decay, v, k, q, h_0 = _sequence(decay, v, k, q, h_0)
    fits("gated_sum", len(v), *v.shape, k.shape[1])
    taken = np.sum(segment_products(decay) * (v[:, :, None] * k[:, None, :]), axis=1)
    h = taken + np.cumprod(decay, axis=0) * h_0
    return np.einsum("tam,tm->ta", h, q), h[-1]


def chunked(decay, v, k, q, chunk, h_0=None):
    """Section 12. gated_sum over pieces of `chunk` steps, the last one maybe shorter, the state carried over.

    chunk : at least 1.  The rest : as in recurrence.

    States: mamba Section 12 (Mamba-2)
    """
    decay, v, k, q, h = _sequence(decay, v, k, q, h_0)
    outputs = []
    for first in range(0, len(v), count("chunk", chunk)):
        here = slice(first, first + chunk)
        o, h = gated_sum(decay[here], v[here], k[here], q[here], h)
        outputs.append(o)
    return np.concatenate(outputs), h


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


def final_gates(decay):
    r"""Section 12. $G_{i,l+1} = \prod_{j>i} \gamma_j$: the last row of segment_products, in O(l).

    decay : (..., l, c).  Returns (..., l, c).  Raises ValueError for a decay outside [0, 1].

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    decay = _decay(decay)
    G = np.ones_like(decay)
    np.multiply.accumulate(decay[..., :0:-1, :], axis=-2, out=G[..., -2::-1, :])
    return G


def log_decay_gradient(t):
    r"""Section 12. $L_j = \partial F / \partial \ln \gamma_j = \sum_{i<j} t_i$, as $\gamma_j$ is in $G_i$ for j > i.

    t : (..., l, c), $t_i = G_i x_i$, the summands of F.  Returns (..., l, c).

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    t = arrays(t=(t, "...ic"))
    before = np.zeros_like(t)
    np.add.accumulate(t[..., :-1, :], axis=-2, out=before[..., 1:, :])
    return before


def summands(P, W_B, W_C, channels=1):
    r"""Section 12. $x_{ic} = y_i (W_B p_i)_c (W_C p_{query})_c$, or their sum over c for channels = 1.

    P : (..., l+1, d+1), the query last.  W_B, W_C : (m, d+1).  channels : 1 or m.  Returns (..., l+1, channels).

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    P, W_B, W_C = arrays(P=(P, "...id"), W_B=(W_B, "md"), W_C=(W_C, "md"))
    y, q = P[..., -1:], (P[..., -1, :] @ W_C.T)[..., None, :]
    if channels == 1:
        return y * (P @ np.swapaxes(q @ W_B, -1, -2))
    return y * (P @ W_B.T) * q


def output(P, W_B, W_C, G):
    r"""Section 12. $F = \sum_i \sum_c G_{ic} \, y_i (W_B p_i)_c (W_C p_{query})_c$, the label coordinate of $o_{l+1}$.

    P : (..., l+1, d+1).  W_B, W_C : (m, d+1).  G : (..., l+1, c), c = 1 or m.  Returns (...).

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    return np.sum(G * summands(P, W_B, W_C, np.shape(G)[-1]), axis=(-2, -1))


def matrix_gradients(P, W_B, W_C, G, dF):
    r"""Section 11.2 under any gates. The gradients of $\sum_n \dot F_n F_n$ in W_B and W_C.

    With $M_c = \sum_i G_{ic} y_i p_i^\top$, what channel c lets through, and $q = W_C p_{query}$, the output is
    $\sum_c q_c (W_B)_c M_c^\top$: row c of W_B gets $\dot F q_c M_c$, of W_C $\dot F (W_B)_c M_c^\top p_{query}^\top$.

    P : (B, l+1, d+1).  W_B, W_C : (m, d+1).  G : (B, l+1, c), c = 1 or m.  dF : (B,).  Returns two (m, d+1).

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    P, G, dF, W_B, W_C = arrays(P=(P, "nid"), G=(G, "nic"), dF=(dF, "n"), W_B=(W_B, "md"), W_C=(W_C, "md"))
    M = np.swapaxes(G * P[..., -1:], 1, 2) @ P
    q = dF[:, None] * (P[:, -1] @ W_C.T)
    kept = dF[:, None] * np.sum(M * W_B, axis=2)
    return np.sum(q[..., None] * M, axis=0), kept.T @ P[:, -1]


def _outer(u, P):
    """Sum over prompts and tokens of u p^T."""
    return u.reshape(-1, u.shape[-1]).T @ P.reshape(-1, P.shape[-1])


def _rate(a):
    return np.exp(min(number("a", a), 690.0))  # a finite e^a; beyond, only a softplus below 1e-299 would tell


def _decay(decay):
    decay = finite("decay", decay)
    if decay.ndim == 0 or decay.min() < 0 or decay.max() > 1:
        raise ValueError("decay: must be numbers in [0, 1] along the steps")
    return decay


def _sequence(decay, v, k, q, h_0):
    v, k, q = arrays(v=(v, "la"), k=(k, "lm"), q=(q, "lm"))
    state = (v.shape[1], k.shape[1])
    h_0 = np.zeros(state) if h_0 is None else arrays(h_0=(h_0, "am"))
    decay = _decay(decay)
    decay = decay[:, None, None] if decay.ndim == 1 else decay
    if decay.shape not in {(len(v), a, m) for a in (1, state[0]) for m in (1, state[1])} or h_0.shape != state:
        raise ValueError(f"decay, h_0: must fit {len(v)} steps of a state {state}, got {decay.shape}, {h_0.shape}")
    return decay, v, k, q, h_0
