r"""Section 13: $2^H$ classes by H binary labels, a prompt of H blocks, an H-head Mamba, one head to a block.

    P = block_prompt(x, y)          x (l+1, d H), y (l+1, H): rows (x_1, y_1, x_2, y_2, ...)
    F = output(P, heads)            Eq. 36, (H,)
    class_of(np.sign(F))            the predicted class

Head h sees block h alone, and the loss is a sum over the heads: training is H trainings.
"""

import numpy as np

from refimpl.calculus.losses import hinge
from refimpl.checks import arrays, count, finite, labels, number
from refimpl.mamba import model


def class_of(z):
    r"""Section 13. The class, in 0 ... $2^H - 1$, whose H binary labels are z: the first label is the highest digit.

    z : (..., H) labels, -1 or +1, H <= 62 for an integer's digits.  Returns integers (...).  Raises ValueError for
    others.

    States: mamba Section 13 (Eq. 36)
    """
    z = labels("z", z)
    number("H", z.shape[-1] if z.ndim else 0, 1, 62)
    return ((z > 0) @ (1 << np.arange(z.shape[-1])[::-1])).astype(int)


def labels_of(k, H):
    r"""Section 13. The H labels of class k, the inverse of class_of: $C = 2^H$ for an integer H > 0 (printed: S).

    k : (...) integers in 0 ... $2^H - 1$.  H : labels, 1 to 62.  Returns (..., H).  Raises ValueError for others.

    States: mamba Section 13 (Eq. 36)
    """
    k, H = np.asarray(k), int(number("H", count("H", H), 1, 62))
    if not np.issubdtype(k.dtype, np.integer) or k.size == 0 or k.min() < 0 or k.max() >= 2**H:
        raise ValueError(f"k: classes must be integers in 0 ... {2**H - 1}")
    return 2.0 * (k[..., None] >> np.arange(H)[::-1] & 1) - 1


def block_prompt(x, y):
    r"""Section 13. $P = (P_1^\top, \dots, P_H^\top)^\top$, $P_h$ of $y_h$ and coordinates d (h-1) + 1 ... d h of x.

    Printed is d_0 = d + 1 for d, which mixes the blocks and runs past the end of x.

    x : (..., l+1, d H).  y : (..., l+1, H), the query's zero.  Returns (..., l+1, (d+1) H), a token to a row.
    Raises ValueError where H does not divide the length of x.

    States: mamba Section 13 (Eq. 36)
    """
    x, y = arrays(x=(x, "...in"), y=(y, "...ih"))
    H = y.shape[-1]
    if x.shape[-1] % H:
        raise ValueError(f"x: must have H = {H} blocks of one length, got {x.shape[-1]} coordinates")
    parts = x.reshape(*y.shape, -1)
    return np.concatenate([parts, y[..., None]], axis=-1).reshape(*y.shape[:-1], -1)


def blocks(P, H):
    """Section 13. P_1, ..., P_H of a block prompt, on a first axis of their own.

    P : (..., l+1, (d+1) H).  H : blocks.  Returns (H, ..., l+1, d+1).  Raises ValueError where H does not divide
    the last axis.

    States: mamba Section 13 (Eq. 36)
    """
    P, H = finite("P", P), count("H", H)
    if P.shape[-1] % H:
        raise ValueError(f"P: must have {H} blocks of one length, got {P.shape[-1]} coordinates")
    return np.moveaxis(P.reshape(*P.shape[:-1], H, -1), -2, 0)


def output(P, heads):
    r"""Eq. 36. $F_h = \sum_i G_{i,l+1}(w_h) \, y_{i,h} \, p_{i,h}^\top W_{B,h}^\top W_{C,h} p_{query,h}$ for each head.

    P : (..., l+1, (d+1) H).  heads : H Weights, (m, d+1), (m, d+1), (d+1,).  Returns (..., H).

    States: mamba Section 13 (Eq. 36)
    """
    return np.stack([model.output(P_h, Psi) for P_h, Psi in zip(blocks(P, len(heads)), heads)], axis=-1)


def loss(P, z, heads):
    r"""Section 13. $\frac1B \sum_n \sum_h \max\{0, 1 - z_h^n F_h(\Psi; P^n)\}$.

    P : (B, l+1, (d+1) H).  z : (B, H) labels.  heads : H Weights.  Returns a float.

    States: mamba Section 13 (Eq. 36)
    """
    z, F = labels("z", z), output(P, heads)
    z, F = arrays(z=(z, "nh"), F=(F, "nh"))
    return float(np.mean(np.sum(hinge(z * F), axis=1)))


def loss_gradient(P, z, heads):
    """Section 13. Head h's gradient is that of its own block and label: F_h has no other head's weights in it.

    P, z, heads : as in loss.  Returns a list of H Weights.

    States: mamba Section 13 (Eq. 36)
    """
    z = arrays(z=(z, "nh"))
    return [model.loss_gradient(P_h, z_h, Psi) for P_h, z_h, Psi in zip(blocks(P, len(heads)), z.T, heads)]


def error(F, z):
    """Section 13. The share of prompts whose class is wrong: any head's $z_h F_h$ is not positive.

    F, z : (B, H).  Returns a float.  Raises ValueError for other labels or an F that is not finite.

    States: mamba Section 13 (Eq. 36)
    """
    F, z = arrays(F=(F, "nh"), z=(labels("z", z), "nh"))
    return float(np.mean(np.any(z * F <= 0, axis=1)))
