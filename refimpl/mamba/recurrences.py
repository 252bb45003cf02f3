r"""Section 12: what the recurrences are made of, gates as sums of tokens' products, and the gradients under them.

    recurrence = gated_sum = chunked        all outputs, three ways, for any decay in [0, 1]
    final_gates   log_decay_gradient        G of the last output, and dF / d ln gamma
    output   summands   matrix_gradients    F, the label coordinate of o_{l+1}, and its gradients in W_B, W_C

A state h (d0, m) decays and takes in $v_i k_i^\top$; here v = p, k = W_B p, q = W_C p, as in Section 2. A decay
has one number to a step, or one to each row (value side) or column (key side) of h. In F, with its readout of one
row, c is the axis of the decay's columns: c = 1 for a number, c = m on the key side. Which decays: decays.py.
"""

import numpy as np

from refimpl.checks import arrays, count, finite, fits


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

    Arguments as in recurrence.  Returns and raises what it does, ValueError too for more steps than memory holds.

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
    $\sum_c q_c (W_B)_c M_c^\top$: row c of W_B gets $\dot F q_c M_c$, of W_C $\dot F (W_B)_c M_c^\top
    p_{query}^\top$.

    P : (B, l+1, d+1).  W_B, W_C : (m, d+1).  G : (B, l+1, c), c = 1 or m.  dF : (B,).  Returns two (m, d+1).

    States: mamba Section 12 (Mamba-2); mamba Section 12 (gated linear attention)
    """
    P, G, dF, W_B, W_C = arrays(P=(P, "nid"), G=(G, "nic"), dF=(dF, "n"), W_B=(W_B, "md"), W_C=(W_C, "md"))
    M = np.swapaxes(G * P[..., -1:], 1, 2) @ P
    q = dF[:, None] * (P[:, -1] @ W_C.T)
    kept = dF[:, None] * np.sum(M * W_B, axis=2)
    return np.sum(q[..., None] * M, axis=0), kept.T @ P[:, -1]


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
