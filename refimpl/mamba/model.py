r"""Sections 2 and 11: one layer of Mamba as gated linear attention, Eq. 3, and its gradients by hand.

    output      F, the label coordinate of the last output (Eq. 3); w = None sets every gate to 1: the linear
    Transformer loss        hinge, with loss_gradient from output_gradient_W_C, output_gradient_W_B and
    output_gradient_w

A prompt is P (l+1, d+1), one token p_i a row (the paper's columns), the label y_i its last entry, the query last
with label 0. The state size m is free (the paper ties it to l + 1). state_space.py has the recurrence behind it.
"""

from typing import NamedTuple

import numpy as np

from refimpl.calculus.gating import gate, gate_vjp
from refimpl.calculus.losses import hinge, hinge_derivative, margin
from refimpl.checks import arrays, labels


class Weights(NamedTuple):
    r"""Section 2. $\Psi = \{W_B, W_C, w\}$.

    W_B, W_C : (m, d+1)
    w : (d+1,), or None where every gate is 1

    States: mamba Eq. 3
    """

    W_B: np.ndarray
    W_C: np.ndarray
    w: np.ndarray | None


def attention(P, W_B, W_C):
    r"""Eq. 3. The linear attention $p_i^\top W_B^\top W_C p_{query}$ of every token, the query itself last.

    P : (..., l+1, d+1).  W_B, W_C : (m, d+1).  Returns (..., l+1).
    Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Eq. 3
    """
    P, W_B, W_C = arrays(P=(P, "...id"), W_B=(W_B, "md"), W_C=(W_C, "md"))
    return np.einsum("...id,...d->...i", P, P[..., -1, :] @ W_C.T @ W_B)


def gates(P, w):
    r"""Eq. 3. $G_{i,l+1}(w)$ on the pre-activations $w^\top p_i$; all equal to one for w = None.

    P : (..., l+1, d+1).  w : (d+1,) or None.  Returns (..., l+1).
    Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Eq. 3; mamba Section 2 (linear Transformer)
    """
    if w is None:
        return np.ones(arrays(P=(P, "...id")).shape[:-1])
    P, w = arrays(P=(P, "...id"), w=(w, "d"))
    return gate(P @ w)


def output(P, Psi):
    r"""Eq. 3. $F(\Psi; P) = \sum_{i \le l+1} G_{i,l+1}(w) \, y_i \, p_i^\top W_B^\top W_C p_{query}$.

    P : (..., l+1, d+1).  Psi : Weights, w = None for the linear Transformer.  Returns (...).
    Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Eq. 3; mamba Section 2 (linear Transformer)
    """
    scores = attention(P, Psi.W_B, Psi.W_C)
    return np.sum(gates(P, Psi.w) * np.asarray(P)[..., -1] * scores, axis=-1)


def output_gradient_W_C(P, Psi, dF):
    r"""Section 11.2. $\sum_n \dot F_n \partial F_n / \partial W_C = W_B \sum_n \dot F_n c_n p_{query}^{n \top}$.

    With $c = \sum_i G_i y_i p_i$, F is $c^\top W_B^\top W_C p_{query}$, linear in W_C. The printed display is
    the hinge's, $\dot F = -z$ where z F < 1 (printed for F in (-1, 1) alone, but a prompt with z F <= -1 pulls
    as well).

    P : (B, l+1, d+1).  Psi : Weights.  dF : (B,) the derivative of what is minimised in each F.
    Returns (m, d+1).  Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Section 11.2 (gradient of W_C)
    """
    P, W_B, dF = arrays(P=(P, "nid"), W_B=(Psi.W_B, "md"), dF=(dF, "n"))
    return W_B @ (dF[:, None] * _context(P, Psi.w)).T @ P[:, -1]


def output_gradient_W_B(P, Psi, dF):
    r"""Section 11.2. $\sum_n \dot F_n \, \partial F_n / \partial W_B = W_C \sum_n \dot F_n \, p_{query}^n c_n^\top$.

    P, Psi, dF : as in output_gradient_W_C.  Returns (m, d+1).  Raises ValueError as it does.

    States: mamba Section 11.2 (gradient of W_B)
    """
    P, W_C, dF = arrays(P=(P, "nid"), W_C=(Psi.W_C, "md"), dF=(dF, "n"))
    return W_C @ P[:, -1].T @ (dF[:, None] * _context(P, Psi.w))


def output_gradient_w(P, Psi, dF):
    r"""Section 11.3. $\partial F / \partial w = -\sum_i y_i s_i G_i (\sum_{k > i} \sigma_k p_k - (1 - \sigma_i) p_i)$.

    $s_i$ is the attention; the result is $\sum_n \dot F_n \partial F_n / \partial w$. The gate's Jacobian in
    $a_k = w^\top p_k$ is that of refimpl.calculus.gating. Collected by k instead of i, the sum is $\sum_k u_k p_k$
    with u the gate's vector-Jacobian product at $v_i = y_i s_i$: O(l), not O(l^2).

    P, dF : as in output_gradient_W_C.  Psi : Weights with a w.
    Returns (d+1,).  Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Section 11.3 (gradient of w)
    """
    P, w, dF = arrays(P=(P, "nid"), w=(Psi.w, "d"), dF=(dF, "n"))
    u = gate_vjp(P @ w, dF[:, None] * P[..., -1] * attention(P, Psi.W_B, Psi.W_C))
    return np.einsum("nk,nkd->d", u, P)


def loss(P, z, Psi):
    r"""Section 2. The batch's mean hinge loss $\frac{1}{B} \sum_n \max\{0, 1 - z^n F(\Psi; P^n)\}$.

    P : (B, l+1, d+1).  z : (B,) the queries' labels.  Psi : Weights.  Returns a float.
    Raises ValueError for other shapes, labels other than -1 and 1, or numbers that are not finite.

    States: mamba Section 2 (training objective)
    """
    return float(np.mean(hinge(margin(z, output(P, Psi)))))


def loss_gradient(P, z, Psi):
    r"""Sections 11.2, 11.3. The gradients of the batch's mean hinge loss: the mean of $z \ell'(z F) \, \partial F$.

    At the kink z F = 1 the subgradient is zero.

    P, z, Psi : as in loss.  Returns Weights, its w None where Psi has none.

    States: mamba Section 2 (training objective)
    """
    z = labels("z", z)
    dF = z * hinge_derivative(margin(z, output(P, Psi))) / z.size
    by_w = None if Psi.w is None else output_gradient_w(P, Psi, dF)
    return Weights(output_gradient_W_B(P, Psi, dF), output_gradient_W_C(P, Psi, dF), by_w)


def _context(P, w):
    """c = sum_i G_i y_i p_i, what the gates let through of a prompt: (B, d+1)."""
    return np.einsum("ni,nid->nd", gates(P, w) * P[..., -1], P)
