r"""The losses of both papers, each with its derivative below it, as functions of the margin or the output.

logistic : of the margin $z = Y f$, with $\ell'(z) = -\sigma(-z)$.
hinge : of the margin, with the derivative $-1$ where $z < 1$, else $0$.
squared : of the output f, with the derivative $f - y$.
cross_entropy : of K outputs F, with the gradient $S(F) - e_k$.

All hold to $\pm 10^4$ and beyond, on arrays of any shape.
"""

import numpy as np

from refimpl.calculus.softmax import softmax
from refimpl.checks import arrays, finite, labels


def margin(Y, f):
    r"""The margin $Y f$ of each output: positive where the sign is right; a zero counts as wrong.

    Y : labels, -1 or +1.  f : outputs, of the same shape.  Returns that shape.
    Raises ValueError for other labels, or where the shapes differ (nothing is broadcast).
    """
    Y, f = labels("Y", Y), finite("f", f)
    if Y.shape != f.shape:
        raise ValueError(f"f: must have the shape of Y, got {f.shape} and {Y.shape}")
    return Y * f


def sigmoid(z):
    r"""$\sigma(z) = 1 / (1 + e^{-z})$, through $e^{-|z|}$, which cannot overflow.

    z : any shape, finite.  Returns that shape, in [0, 1].  Raises ValueError for a z that is not.
    """
    z = finite("z", z)
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


def logistic(z):
    r"""Eq. 3. $\ell(z) = \log(1 + e^{-z})$.

    z : margins, any shape, finite.  Returns that shape.  Raises ValueError for a z that is not.

    States: attention Eq. 3
    """
    return np.logaddexp(0, -finite("z", z))


def logistic_derivative(z):
    r"""Eq. 3. $\ell'(z) = -1 / (1 + e^{z}) = -\sigma(-z)$, in [-1, 0].

    z : margins, any shape, finite.  Returns that shape.  Raises ValueError for a z that is not.

    States: attention Eq. 3
    """
    return -sigmoid(-finite("z", z))


def hinge(z):
    r"""Section 2. $\max\{0, 1 - z\}$.

    z : margins, any shape, finite.  Returns that shape.  Raises ValueError for a z that is not.

    States: mamba Section 2 (training objective)
    """
    return np.maximum(0, 1 - finite("z", z))


def hinge_derivative(z):
    r"""Section 2. $-1$ where $z < 1$ and $0$ where $z \ge 1$: at the kink, of the subgradients [-1, 0], zero.

    z : margins, any shape, finite.  Returns that shape.  Raises ValueError for a z that is not.

    States: mamba Section 2 (training objective)
    """
    return np.where(finite("z", z) < 1, -1.0, 0.0)


def squared(f, y):
    r"""Section 14. $\frac12 (f - y)^2$.

    f, y : one shape, finite.  Returns that shape.  Raises ValueError where the shapes differ.

    States: mamba Section 14 (regression)
    """
    f, y = arrays(f=(f, "..."), y=(y, "..."))
    return (f - y) ** 2 / 2


def squared_derivative(f, y):
    r"""Section 14. $f - y$, the derivative of the squared loss in f.

    f, y : one shape, finite.  Returns that shape.  Raises ValueError where the shapes differ.

    States: mamba Section 14 (regression)
    """
    f, y = arrays(f=(f, "..."), y=(y, "..."))
    return f - y


def cross_entropy(F, k):
    r"""Section F. $-\log P_k$ with $P = S(F)$, that is $\log \sum_j e^{F_j - F_k}$.

    F : (..., K) outputs, finite.  k : (...) the labels, integers in 0 ... K - 1.  Returns (...).
    Raises ValueError for a label outside that range.

    States: attention Section F
    """
    F, k = _outputs_and_class(F, k)
    gap = F - np.take_along_axis(F, k[..., None], axis=-1)
    top = np.max(gap, axis=-1)
    return top + np.log(np.sum(np.exp(gap - top[..., None]), axis=-1))


def cross_entropy_gradient(F, k):
    r"""Section F. $\partial(-\log P_k)/\partial F_j = P_j - 1\{j = k\}$.

    F : (..., K) outputs, finite.  k : (...) the labels, integers in 0 ... K - 1.  Returns (..., K).
    Raises ValueError for a label outside that range.

    States: attention Section F
    """
    F, k = _outputs_and_class(F, k)
    return softmax(F) - (np.arange(F.shape[-1]) == k[..., None])


def _outputs_and_class(F, k):
    F, k = arrays(F=(F, "...K"), k=(k, "..."))
    if not np.all((k == np.floor(k)) & (0 <= k) & (k < F.shape[-1])):
        raise ValueError(f"k: classes must be integers in 0 ... {F.shape[-1] - 1}")
    return F, k.astype(int)
