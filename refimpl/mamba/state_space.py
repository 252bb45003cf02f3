r"""Eq. 1 and Section 11.1: Mamba as a recurrence, and the derivation of Eq. 3's gates from it.

    recurrence = unrolled = gathered      all outputs o_i, three ways

The label coordinate of the last output is model.output.
"""

import numpy as np

from refimpl.calculus.gating import gate
from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays
from refimpl.mamba.model import attention


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

    P, W_B, W_C, W : as in recurrence.  Returns o : (l+1, d+1).  Raises ValueError as it does.

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

    P, W_B, W_C, W : as in recurrence.  Returns o : (l+1, d+1).  Raises ValueError as it does.

    States: mamba Section 11.1 (derivation of Eq. 3)
    """
    P, W_B, W_C, W = arrays(P=(P, "id"), W_B=(W_B, "md"), W_C=(W_C, "md"), W=(W, "dj"))
    a = (P @ W).T
    return np.array([(gate(a[:, :i]) * P[:i].T) @ attention(P[:i], W_B, W_C) for i in range(1, len(P) + 1)])
