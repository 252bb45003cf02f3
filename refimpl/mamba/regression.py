r"""Section 14: linear regression in context, the squared loss, outliers with random labels.

prompts = regression_prompts(rng, B, setting)    y = f(x), f linear; labels N(0, 1) on outliers
loss  loss_gradient                              of the mean of (F - z)^2 / 2
label_average                                    what random labels do to the expected loss
"""

import numpy as np

from refimpl.calculus.losses import squared, squared_derivative
from refimpl.checks import arrays, count
from refimpl.mamba.model import (
    Weights,
    attention,
    gates,
    output,
    output_gradient_w,
    output_gradient_W_B,
    output_gradient_W_C,
)
from refimpl.mamba.prompts import Prompts
from refimpl.mamba.setting import checked


def regression_prompts(rng, B, setting):
    r"""Section 14. x as in Eq. 4, $f(x) = \sum_j \theta_j \mu_j^\top x / \beta^2$ with $\theta_j \sim N(0, 1)$.

    So $y_i = \theta_j$ for the relevant pattern j of $x_i$, uniform on all M1 (the paper is silent on both laws),
    and $y_i \sim N(0, 1)$, independent of all else, on an example with an outlier. Each prompt has its own f.

    rng : numpy Generator.  B : prompts.  setting : a Setting, whose tasks are not used.
    Returns Prompts, whose `tasks` are theta (B, M1) and whose labels are real.  Raises ValueError for a setting out
    of range.

    States: mamba Section 14 (regression)
    """
    setting = checked(setting)
    shape, K = (count("B", B), setting.l + 1), setting.K
    theta = rng.standard_normal((shape[0], setting.M1))
    j, k = rng.integers(setting.M1, size=shape), rng.integers(setting.M2, size=shape)
    outlier = np.where(rng.random(shape) < setting.p_a, rng.integers(setting.V, size=shape), -1)
    outlier[:, -1] = -1
    f = np.take_along_axis(theta, j, axis=1)
    y = np.where(outlier >= 0, rng.standard_normal(shape), f)
    y[:, -1] = 0
    return Prompts(theta, j, k, rng.uniform(-K, K, shape), outlier, y, f[:, -1].copy())


def loss(P, z, Psi):
    r"""Section 14. The batch's mean squared loss $\frac1B \sum_n \frac12 (F(\Psi; P^n) - z^n)^2$.

    P : (B, l+1, d+1).  z : (B,).  Psi : Weights.  Returns a float.

    States: mamba Section 14 (regression)
    """
    return float(np.mean(squared(output(P, Psi), z)))


def loss_gradient(P, z, Psi):
    r"""Section 14. The mean of $(F - z) \, \partial F$, Section 11.3's $\partial F / \partial w$ with its minus sign.

    $\partial F / \partial w = -\sum_i y_i s_i G_i (\sum_{k > i} \sigma_k p_k - (1 - \sigma_i) p_i)$, $s_i$ the
    attention. The display has the hinge's sum, whose minus went into -z, with F - z in front.

    P, z, Psi : as in loss.  Returns Weights, its w None where Psi has none.

    States: mamba Section 14 (regression)
    """
    return sgd_gradient(P, z, Psi)[0]


def sgd_gradient(P, z, Psi):
    """Section 14. loss_gradient, and F, as sgd takes them.

    P, z, Psi : as in loss.  Returns Weights, and F (B,).

    States: mamba Section 14 (regression)
    """
    F = output(P, Psi)
    dF = squared_derivative(F, z) / F.size
    by_w = None if Psi.w is None else output_gradient_w(P, Psi, dF)
    return Weights(output_gradient_W_B(P, Psi, dF), output_gradient_W_C(P, Psi, dF), by_w), F


def label_average(P, z, Psi, carried):
    r"""Section 14. $E_y \frac12 (F - z)^2 = \frac12 (F_c - z)^2 + \frac12 \sum_i (G_i s_i)^2$, i over the outliers.

    For outlier labels of mean 0 and variance 1, and weights that do not see them (label coordinate 0 of w and W_B),
    F is $F_c + \sum_i y_i G_i s_i$, $F_c$ the clean examples'. The sum is what draws the outliers' gates to 0: with
    the squared loss random labels do not cancel, as Section 14 says; under the hinge, while z F < 1, they do.

    P : (B, l+1, d+1).  z : (B,).  Psi : Weights.  carried : (B, l+1) booleans, which examples carry an outlier.
    Returns the two terms, each (B,).  Raises ValueError for weights that see labels.

    States: mamba Section 14 (regression)
    """
    P, z, carried = arrays(P=(P, "nid"), z=(z, "n"), carried=(carried, "ni"))
    if np.any(Psi.W_B[:, -1]) or (Psi.w is not None and Psi.w[-1]):
        raise ValueError("Psi: W_B and w must have label coordinate 0")
    weight = gates(P, Psi.w) * attention(P, Psi.W_B, Psi.W_C)
    return squared(np.sum(weight * P[..., -1] * (1 - carried), axis=1), z), np.sum((weight * carried) ** 2, axis=1) / 2
