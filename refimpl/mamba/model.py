r"""Sections 2 and 11: one layer of Mamba, from the recurrence to gated linear attention, and its gradients by hand.

    recurrence  = unrolled = gathered      all outputs o_i, three ways (Section 11.1)
    output      F = o_{l+1}'s label coordinate (Eq. 3); w = None sets every gate to 1: the linear Transformer
    loss        hinge, with loss_gradient from output_gradient_W_C, output_gradient_W_B and output_gradient_w

A prompt is P (l+1, d+1), one token p_i a row (the paper's columns), the label y_i its last entry,
the query last with label 0. The state size m is free (the paper ties it to l + 1).
"""

from typing import NamedTuple

import numpy as np

from refimpl.calculus.gating import gate, gate_vjp
from refimpl.calculus.losses import hinge, hinge_derivative, margin, sigmoid
from refimpl.checks import arrays, labels


class Weights(NamedTuple):
    r"""Section 2. $\Psi = \{W_B, W_C, w\}$: W_B, W_C (m, d+1), w (d+1,), or None where every gate is 1.

    States: mamba Eq. 3
    """

    W_B: np.ndarray
    W_C: np.ndarray
    w: np.ndarray | None


def discretise(P, W_B, W):
    r"""Section 2. $\tilde A_i$ and $\tilde B_i$ of Eq. 1, for $A = -I_m$, as they are defined there.

    $\Delta_{j,i} = \log(1 + e^{w_j^\top p_i})$, $\tilde A_{j,i} = \mathrm{diag}(e^{\Delta A})^\top$,
    $\tilde B_{j,i} = (\Delta B_i)(e^{\Delta A} - I)(\Delta A)^{-1}$, with $B_i = (W_B p_i)^\top$.
    The exponential is the matrix one: taken entry by entry, as printed, it has ones off the diagonal.
    $(e^x - 1) / x$ is 1 at x = 0, where $\Delta$ is no float any more.

    P : (l+1, d+1).  W_B : (m, d+1).  W : (d+1, d+1), column j is w_j.
    Returns A~, B~, each (l+1, d+1, m).  Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Eq. 1
    """
    P, W_B, W = arrays(P=(P, "id"), W_B=(W_B, "md"), W=(W, "dj"))
    delta = np.logaddexp(0, P @ W)[:, :, None]
    A = -np.ones(len(W_B))  # the diagonal of A = -I: all matrices here are diagonal
    B = (P @ W_B.T)[:, None, :]
    x = delta * A
    return np.exp(x), delta * B * np.divide(np.expm1(x), x, out=np.ones_like(x), where=x != 0)


def recurrence(P, W_B, W_C, W, h_0=None):
    r"""Eq. 1. $h_i = h_{i-1} \odot \tilde A_i + (p_i 1_m^\top) \odot \tilde B_i$, $o_i = h_i W_C p_i$.

    P : (l+1, d+1).  W_B, W_C : (m, d+1).  W : (d+1, d+1), its last column the w of Eq. 3.
    h_0 : (d+1, m), zero unless given: the printed $h_0 = U$ contradicts Eq. 3.
    Returns o : (l+1, d+1).  Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Eq. 1
    """
    P, W_B, W_C = arrays(P=(P, "id"), W_B=(W_B, "md"), W_C=(W_C, "md"))
    A_tilde, B_tilde = discretise(P, W_B, W)
    h = np.zeros(A_tilde.shape[1:]) if h_0 is None else arrays(W_B=(W_B, "md"), h_0=(h_0, "dm"))[1]
    o = []
    for p, A, B in zip(P, A_tilde, B_tilde):
        h = h * A + p[:, None] * B
        o.append(h @ W_C @ p)
    return np.array(o)


def unrolled(P, W_B, W_C, W):
    r"""Section 11.1. $h_i = \sum_{j \le i} (p_j \odot s_j) B_j \odot \tilde A_{j+1} \odot \dots \odot \tilde A_i$.

    Here $s_j = \sigma(W^\top p_j)$. As $e^{-\Delta} = 1 / (1 + e^{w_j^\top p_i}) = 1 - \sigma$, first
    $\tilde A_i = (1 - s_i) 1_m^\top$; then $(\Delta B)(e^{-\Delta} - 1)(-\Delta)^{-1} = B \sigma$ gives
    $\tilde B_i = s_i B_i$, and Eq. 1 unrolls. The printed sum loses s_i on two lines and counts j = i twice;
    here it stands once, with its s.

    P, W_B, W_C, W : as in recurrence.  Returns o : (l+1, d+1).

    States: mamba Section 11.1 (derivation of Eq. 3)
    """
    P, W_B, W_C, W = arrays(P=(P, "id"), W_B=(W_B, "md"), W_C=(W_C, "md"), W=(W, "dj"))
    s = sigmoid(P @ W)
    o = []
    for i, p_i in enumerate(P):
        h = np.zeros((P.shape[1], len(W_B)))
        for j in range(i + 1):
            decay = np.prod(1 - s[j + 1 : i + 1], axis=0)  # an empty product is 1
            h += np.outer(P[j] * s[j] * decay, W_B @ P[j])
        o.append(h @ W_C @ p_i)
    return np.array(o)


def gathered(P, W_B, W_C, W):
    r"""Section 11.1. $o_i = \sum_{j \le i} (G_{j,i}(W) \odot p_j) \, p_j^\top W_B^\top W_C p_i$.

    Row c of $G_{\cdot,i}(W)$ is the gate of Eq. 3 on the pre-activations $w_c^\top p_1, \dots, w_c^\top p_i$.

    P, W_B, W_C, W : as in recurrence.  Returns o : (l+1, d+1).

    States: mamba Section 11.1 (derivation of Eq. 3)
    """
    P, W_B, W_C, W = arrays(P=(P, "id"), W_B=(W_B, "md"), W_C=(W_C, "md"), W=(W, "dj"))
    a = (P @ W).T
    return np.array([(gate(a[:, :i]) * P[:i].T) @ attention(P[:i], W_B, W_C) for i in range(1, len(P) + 1)])


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
    s = attention(P, Psi.W_B, Psi.W_C)
    return np.sum(gates(P, Psi.w) * np.asarray(P)[..., -1] * s, axis=-1)


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

    P, Psi, dF, what is returned and raised : as in output_gradient_W_C.

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
    return np.einsum("ns,nsd->d", u, P)


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
