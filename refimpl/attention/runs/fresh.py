r"""Ours: a fresh test sample as two numbers a token, exact at any d.

A fresh token x enters f only through its logit $z = x \cdot q$, $q = W^\top p$, and its score $\gamma = x \cdot \nu$.
Given its role both are linear in one Gaussian vector, so jointly Gaussian: with mean
$(\mu\cdot q, \mu\cdot\nu)$ times what it carries and covariance $(q, \nu)^\top \Sigma (q, \nu)$.
"""

import numpy as np

from refimpl.attention.data import signal_of
from refimpl.calculus.softmax import softmax
from refimpl.checks import arrays, diagonal


def law(q, nu, mu, Sigma=1.0):
    r"""Section 3.3. Mean of $(z, \gamma)$ for each signal and the covariance of the noise part.

    q, nu : (d,).  mu : (2, d).  Sigma : its diagonal, (d,) or one number.
    Returns means : (2, 2), classes by (z, gamma); covariance : (2, 2).  Raises ValueError where the axes do not agree.

    States: attention Definition 3.1
    """
    q, nu, mu = arrays(q=(q, "d"), nu=(nu, "d"), mu=(mu, "2d"))
    both = np.stack((q, nu))
    return mu @ both.T, (both * diagonal("Sigma", Sigma, len(q))) @ both.T


def law_from_gram(rho, M, gamma, X_mu, nu, mu):
    r"""Lemma D.1. The same law, $\Sigma = I$, from a run in Gram form.

    $q = X^\top\rho$, so $\|q\|^2 = \rho^\top M \rho$.

    rho, gamma : (n, T).  M : (nT, nT).  X_mu : (n, T, 2), the tokens' products with the signals.
    nu : (d,).  mu : (2, d).
    Returns means, covariance as law does.

    States: attention Lemma D.1
    """
    rho, gamma, X_mu = arrays(rho=(rho, "nT"), gamma=(gamma, "nT"), X_mu=(X_mu, "nT2"))
    nu, mu, M, flat = arrays(nu=(nu, "d"), mu=(mu, "2d"), M=(M, "NN"), rho=(rho.ravel(), "N"))
    q_nu = np.sum(rho * gamma)
    means = np.stack((np.einsum("it,itc->c", rho, X_mu), mu @ nu), axis=-1)
    q_q = max(0.0, flat @ M @ flat)  # rounding may leave it below zero
    return means, np.array([[q_q, q_nu], [q_nu, nu @ nu]])


def draw(rng, Y_star, roles, weak_scale, means, covariance):
    r"""Section 3.3. Logits, scores and outputs $f = \sum_t s_t\gamma_t$ of fresh samples.

    rng : numpy Generator.  Y_star : (n,).  roles : (n, T).  weak_scale : rho.  means, covariance : (2, 2), from law.
    Returns z, gamma : (n, T), f : (n,).  Raises ValueError where the axes do not agree.

    States: attention Definition 3.1
    """
    means, covariance = arrays(means=(means, "22"), covariance=(covariance, "22"))
    mean = signal_of(Y_star, roles, weak_scale) @ means
    (zz, zg), (_, gg) = covariance
    if min(zz, gg) < 0 or zg != covariance[1, 0]:
        raise ValueError("covariance: must be symmetric with a diagonal >= 0")
    g, h = rng.standard_normal((2, *mean.shape[:2]))
    slope = zg / np.sqrt(zz) if zz > 0 else 0.0  # a p of zero has no logit to share noise with
    z = mean[..., 0] + np.sqrt(zz) * g
    gamma = mean[..., 1] + slope * g + np.sqrt(max(0.0, gg - slope**2)) * h
    return z, gamma, np.sum(softmax(z) * gamma, axis=-1)
