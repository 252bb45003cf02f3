r"""Section 14: linear regression in context, the squared loss, outliers with random labels.

prompts = regression_prompts(rng, B, l, M1, M2, V, p_a, K)        y = f(x), f linear; labels N(0, 1) on outliers
loss, loss_gradient                                               of the mean of (F - z)^2 / 2
label_average                                                     what random labels do to the expected loss
run(setting, ...)                                                 trained, then tested at each alpha
"""

from functools import partial

import numpy as np

from refimpl.calculus.losses import squared, squared_derivative
from refimpl.checks import arrays, count, number
from refimpl.mamba.model import (
    Weights,
    attention,
    gates,
    output,
    output_gradient_w,
    output_gradient_W_B,
    output_gradient_W_C,
)
from refimpl.mamba.runs.patterns import encode
from refimpl.mamba.prompts import Prompts
from refimpl.mamba.training import sgd, start


def regression_prompts(rng, B, l, M1, M2, V, p_a, K=0.5):
    r"""Section 14. x as in Eq. 4, $f(x) = \sum_j \theta_j \mu_j^\top x / \beta^2$ with $\theta_j \sim N(0, 1)$.

    So $y_i = \theta_j$ for the relevant pattern j of x_i, uniform on all M1 (the paper is silent on both laws), and
    $y_i \sim N(0, 1)$, independent of all else, on an example with an outlier. Each prompt has its own f.

    B, l : prompts and examples.  M1, M2, V : numbers of patterns.  p_a : in [0, 1).  K : in [0, 1/2].
    Returns Prompts, whose `tasks` are theta (B, M1) and whose labels are real.

    States: mamba Section 14 (regression)
    """
    B, l, M1, M2, V = (count(name, k) for name, k in zip(("B", "l", "M1", "M2", "V"), (B, l, M1, M2, V)))
    p_a, K = number("p_a", p_a, 0, 1 - 1e-12), number("K", K, 0, 0.5)
    theta = rng.standard_normal((B, M1))
    j, k = rng.integers(M1, size=(B, l + 1)), rng.integers(M2, size=(B, l + 1))
    s = np.where(rng.random((B, l + 1)) < p_a, rng.integers(V, size=(B, l + 1)), -1)
    s[:, -1] = -1
    f = np.take_along_axis(theta, j, axis=1)
    y = np.where(s >= 0, rng.standard_normal((B, l + 1)), f)
    y[:, -1] = 0
    return Prompts(theta, j, k, rng.uniform(-K, K, (B, l + 1)), s, y, f[:, -1].copy())


def loss(P, z, Psi):
    r"""Section 14. The batch's mean squared loss $\frac1B \sum_n \frac12 (F(\Psi; P^n) - z^n)^2$.

    P : (B, l+1, d+1).  z : (B,).  Psi : Weights.  Returns a float.

    States: mamba Section 14 (regression)
    """
    return float(np.mean(squared(output(P, Psi), z)))


def loss_gradient(P, z, Psi):
    r"""Section 14. The mean of $(F - z) \, \partial F$, Section 11.3's $\partial F / \partial w$ with its minus sign.

    $\partial F / \partial w = -\sum_i y_i s_i G_i (\sum_{s > i} \sigma_s p_s - (1 - \sigma_i) p_i)$. The display
    has the hinge's sum, whose minus went into -z, with F - z in front.

    P, z, Psi : as in loss.  Returns Weights, its w None where Psi has none.

    States: mamba Section 14 (regression)
    """
    return sgd_gradient(P, z, Psi)[0]


def sgd_gradient(P, z, Psi):
    """Section 14. loss_gradient, and F (B,), as sgd takes it.

    States: mamba Section 14 (regression)
    """
    F = output(P, Psi)
    dF = squared_derivative(F, z) / F.size
    by_w = None if Psi.w is None else output_gradient_w(P, Psi, dF)
    return Weights(output_gradient_W_B(P, Psi, dF), output_gradient_W_C(P, Psi, dF), by_w), F


def label_average(P, z, Psi, carried):
    r"""Section 14. $E_y \frac12 (F - z)^2 = \frac12 (F_c - z)^2 + \frac12 \sum_i (G_i s_i)^2$, i over the outliers.

    For outlier labels of mean 0 and variance 1, and weights that do not see them (label coordinate 0 of w and W_B),
    F is $F_c + \sum_i y_i G_i s_i$, $F_c$ the clean examples'. The sum is what draws the outliers' gates to 0: with the
    squared loss random labels do not cancel, as Section 14 says; under the hinge, while z F < 1, they do.

    P : (B, l+1, d+1).  z : (B,).  carried : (B, l+1) booleans, which examples carry an outlier.
    Returns the two terms, each (B,).  Raises ValueError for weights that see labels.

    States: mamba Section 14 (regression)
    """
    P, z, carried = arrays(P=(P, "nid"), z=(z, "n"), carried=(carried, "ni"))
    if np.any(Psi.W_B[:, -1]) or (Psi.w is not None and Psi.w[-1]):
        raise ValueError("Psi: W_B and w must have label coordinate 0")
    weight = gates(P, Psi.w) * attention(P, Psi.W_B, Psi.W_C)
    return squared(np.sum(weight * P[..., -1] * (1 - carried), axis=1), z), np.sum((weight * carried) ** 2, axis=1) / 2


def run(setting, rng, steps, eta, alphas, prompts, gated=True, B=128):
    r"""Section 14. SGD on the squared loss, then the test error $E (F - z)^2$ at each alpha. Saying 0 has error 1.

    setting : training.Setting (its tasks are not used).  Returns the Weights and (len(alphas),) errors.
    Raises Diverged as sgd does.

    States: mamba Section 14 (regression)
    """
    weights, train, test = (np.random.default_rng(s) for s in rng.bit_generator.seed_seq.spawn(3))
    law = (setting.M1, setting.M2, setting.V)
    batches = iter(lambda: regression_prompts(train, B, setting.l, *law, setting.p_a, setting.K), None)
    Psi, _ = sgd(setting, start(setting, weights, gated), eta, B, steps, train, batches=batches, gradient=sgd_gradient)
    outliers = setting.kappa_a * setting.outlier_norm * np.eye(setting.V)
    encoded = partial(encode, M1=setting.M1, M2=setting.M2, beta=setting.beta, outliers=outliers)
    drawn = [regression_prompts(test, prompts, setting.l, *law, alpha, setting.K) for alpha in alphas]
    return Psi, np.array([2 * loss(encoded(p), p.z, Psi) for p in drawn])
