r"""Ours. Pattern coordinates: the same model where training lives, at a cost that does not depend on d.

A token is a combination of D = M1 + M2 + V orthogonal patterns and the label, and so is every gradient
(Sections 11.2, 11.3: sums of p_i, p_query and their images). With the unit patterns as axes, a token has
D + 1 coordinates, W_B and W_C act as (D, D+1) and w as (D+1,) arrays, and Eq. 3 with its gradients stays as
it is: an orthogonal change of coordinates, in which SGD takes the same steps. It needs m >= d, for the
initial W_B to map each pattern to delta times itself. A test outlier's u outside the span meets no attention
($u^\top W_B^\top W_C p_{query} = \delta u^\top W_C p_{query} = 0$) and enters only through $w^{(0)} \cdot u$ in the
gate: one axis more.

    Psi, seen = sgd(start(setting, rng), batches(rng, setting), setting.eta, steps, gradient)
"""

import numpy as np

from refimpl.checks import arrays, count, finite
from refimpl.mamba.model import Weights
from refimpl.mamba.prompts import stream
from refimpl.mamba.training import initial


def axes(patterns, u=None):
    """Ours. The unit patterns, and after them the unit u: (D, d) with orthonormal rows, in the order mu, nu, v.

    patterns : tasks.Patterns.  u : (d,), orthogonal to all of them, or None.
    Raises ValueError where the rows are not orthogonal.

    States: mamba Section 3.2 (patterns and tasks)
    """
    rows = [*patterns, *([] if u is None else [finite("u", u)[None]])]
    E = np.concatenate([row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows])
    if np.max(np.abs(E @ E.T - np.eye(len(E)))) > 1e-9:
        raise ValueError("patterns: must be orthogonal to each other")
    return E


def to_coordinates(Psi, E):
    """Ours. Weights in the axes: W_B, W_C (D, D+1), w (D+1,).

    Psi : Weights (m, d+1), (m, d+1), (d+1,) or None.  E : (D, d), from axes.  Returns Weights.
    Raises ValueError for m < d.

    States: mamba Section 8.3 (algorithm)
    """
    W_B, W_C = arrays(W_B=(Psi.W_B, "md"), W_C=(Psi.W_C, "md"))
    tokens, d = _with_label(E), E.shape[1]
    if len(W_B) < d:
        raise ValueError(f"W_B: pattern coordinates need a state size of at least {d}, got {len(W_B)}")
    inside = [E @ W[:d] @ tokens.T for W in (W_B, W_C)]
    return Weights(*inside, None if Psi.w is None else tokens @ Psi.w)


def from_coordinates(Psi, Psi_0, E):
    """Ours. The weights that training reaches from Psi_0: the change of the coordinates, lifted from the axes E.

    Psi : Weights in coordinates.  Psi_0 : the initial Weights, (m, d+1), (d+1,).  E : (D, d), from axes.
    Returns Weights shaped like Psi_0.

    States: mamba Section 8.3 (algorithm)
    """
    tokens, start = _with_label(E), to_coordinates(Psi_0, E)
    lifted = [W.copy() for W in Psi_0[:2]]
    for W, now, before in zip(lifted, Psi, start):
        W[: E.shape[1]] += E.T @ (now - before) @ tokens
    return Weights(*lifted, None if Psi.w is None else Psi_0.w + (Psi.w - start.w) @ tokens)


def start(setting, rng, gated=True):
    r"""Section 2. The initial weights in pattern coordinates: $\delta$ on the diagonal, $w \sim N(0, I/(d+1))$ still.

    setting : a Setting.  rng : numpy Generator.  gated : w = None if not, the linear Transformer.
    Returns Weights (D, D+1), (D, D+1), (D+1,), D = M1 + M2 + V.  Raises ValueError where D > d.

    States: mamba Section 2 (initialisation)
    """
    D = setting.M1 + setting.M2 + setting.V
    count("d", setting.d, D)
    return initial(D, setting.delta, rng, m=D, variance=1 / (setting.d + 1), gated=gated)


def batches(rng, setting):
    """Section 8.3. The batches of training without end, as sgd takes them, in pattern coordinates.

    rng : numpy Generator.  setting : a Setting.  Returns an iterator of P (B, l+1, D+1), z (B,).
    Raises ValueError for a setting out of range, before the first batch.

    States: mamba Section 8.3 (algorithm)
    """
    return ((encode(prompts, setting), prompts.z) for prompts in stream(rng, setting.B, setting))


def encode(prompts, setting, outliers=None):
    r"""Eq. 2. The prompt matrix in pattern coordinates: (B, l+1, D+1), four numbers to a token.

    prompts : Prompts.  setting : the Setting of training.
    outliers : (S, D - M1 - M2), row s the coordinates of $\kappa_a v_s$ along the unit outliers (and u);
    the training outliers where None.

    States: mamba Eq. 2
    """
    M1, M2, V, beta = setting.M1, setting.M2, setting.V, setting.beta
    D = M1 + M2 + (V if outliers is None else outliers.shape[-1])
    P = np.zeros((*prompts.y.shape, D + 1))
    token, flat = np.arange(0, P.size, D + 1).reshape(prompts.y.shape), P.reshape(-1)
    if outliers is None:  # each along an axis of its own: one pass over P instead of V
        length = np.append(np.full(V, setting.kappa_a * setting.outlier_norm), 0.0)
        flat[token + (M1 + M2) + prompts.s] = length.take(prompts.s)  # s = -1: nu's last axis, which is set below
    else:
        table = np.append(outliers, np.zeros_like(outliers[:1]), axis=0)  # s = -1, no outlier, takes the last: 0
        for axis, column in enumerate(table.T, M1 + M2):
            P[..., axis] = column.take(prompts.s)
    flat[token + prompts.j] = beta
    flat[token + M1 + prompts.k] = beta * prompts.kappa
    P[..., -1] = prompts.y
    return P


def forward(P, Psi):
    r"""Eq. 3. F and what it is made of, without checks.

    P : (B, l+1, D+1).  Psi : Weights.  Returns F (B,), then the gates G and the attention scores, each (B, l+1).

    States: mamba Eq. 3
    """
    W_B, W_C, w = Psi
    scores = (P @ (P[:, -1] @ (W_C.T @ W_B))[:, :, None])[:, :, 0]
    G = np.ones_like(scores) if w is None else _gates(P @ w)[0]
    return np.sum(G * P[:, :, -1] * scores, axis=1), G, scores


def gradient(P, z, Psi):
    r"""Sections 11.2, 11.3. The gradients of the mean hinge loss in few array operations, without checks.

    $H = \sum_n \dot F_n c_n p_{query}^{n\top}$ serves both matrices: $W_B H$ and $W_C H^\top$. With t the summands
    of F, $F = \sum_i t_i$, the gate's product is $u_k = \dot F (t_k - \sigma_k \sum_{i \le k} t_i)$, which is $\dot
    F (t_k (1 - \sigma_k) - \sigma_k \sum_{i < k} t_i)$ as in refimpl.calculus.gating.

    P : (B, l+1, D+1).  z : (B,).  Psi : Weights.  Returns Weights, and F (B,).

    States: mamba Section 11.2 (gradient of W_C); mamba Section 11.2 (gradient of W_B)
    """
    W_B, W_C, w = Psi
    q, y = P[:, -1], P[:, :, -1]
    scores = (P @ (q @ (W_C.T @ W_B))[:, :, None])[:, :, 0]
    if w is None:
        Gy = y
    else:
        G, sigma = _gates((P.reshape(-1, len(w)) @ w).reshape(scores.shape))
        Gy = G * y
    t = Gy * scores
    F = t.sum(axis=1)
    dF = np.where(z * F < 1, z / -len(z), 0.0)
    H = ((dF[:, None] * Gy)[:, None, :] @ P)[:, 0].T @ q
    if w is None:
        return Weights(W_C @ H.T, W_B @ H, None), F
    u = dF[:, None] * (t - sigma * np.add.accumulate(t, axis=1))
    return Weights(W_C @ H.T, W_B @ H, u.reshape(-1) @ P.reshape(-1, P.shape[2])), F


def _gates(a):
    """G and sigma from the pre-activations, by a product of what passes; nothing is divided by it."""
    e = np.exp(np.minimum(a, 700))  # below the largest float
    passes = 1 / (1 + e)
    sigma = e * passes
    G = np.ones_like(a)
    np.multiply.accumulate(passes[:, :0:-1], axis=1, out=G[:, -2::-1])
    G *= sigma
    return G, sigma


def _with_label(E):
    """(D+1, d+1): the axes E of x, and the label's own."""
    tokens = np.zeros((len(E) + 1, E.shape[1] + 1))
    tokens[:-1, :-1], tokens[-1, -1] = E, 1
    return tokens
