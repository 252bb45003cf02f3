r"""Sections 3.4 and G: the fixed linear head, and why it points there.

At p = 0 attention is uniform and at $\nu = 0$ every loss has the same slope, so the head's first step is an
average of signals: $\nu \propto \mu_{+1} - \mu_{-1}$ (Lemma 3.1), with K classes $\nu_c \propto \mu_c - \bar\mu$
(Lemma G.1). Both hold for the expected risk, with fewer wrong labels than chance. The empirical risk adds noise of
squared norm $\mathrm{Tr}\,\Sigma / 4nT$, which under (A1) is the larger part while $|R|^2 < 2CT$: see noise_to_signal.
"""

import numpy as np

from refimpl.attention.setting import checked
from refimpl.checks import arrays, labels, number


def linear_head(mu, norm=None):
    r"""Section 3.4. $\nu = \kappa(\mu_{+1} - \mu_{-1})$ with $\|\nu\|$ = norm; where None, Theorem 4.2's $1/\|\mu\|$.

    mu : (2, d).  norm : > 0.  Returns (d,).  Raises ValueError for another shape or range.

    States: attention Section 3.4 (gradient descent)
    """
    mu = arrays(mu=(mu, "2d"))
    norm = 1 / _length(mu[0]) if norm is None else number("norm", norm, above=0)
    nu = mu[0] - mu[1]
    return norm / _length(nu) * nu


def population_direction(mu, zeta_R, noise_rate):
    r"""Lemma 3.1. $-\nabla_\nu L = \frac{(1 - 2\eta)\zeta_R}{4} (\mu_{+1} - \mu_{-1})$ at p = 0, $\nu = 0$.

    There $s_t = 1/T$ and $\ell' = -1/2$: $-\nabla_\nu L = \frac12 E[Y \bar x]$, $\bar x = \frac1T \sum_t x_t$.
    $E[\bar x | Y^*] = \zeta_R \mu_{Y^*} + \frac{\rho\zeta_W}{2} (\mu_{+1} + \mu_{-1})$: given Y*, weak signs stay fair.
    $E[Y | Y^*] = (1 - 2\eta) Y^*$ and $E Y^* = 0$, so the weak part drops out: no $\rho$ in the result.
    It vanishes at $\eta = 1/2$ and is turned round above: the lemma needs (A6) or at least $\eta < 1/2$.

    mu : (2, d).  zeta_R : |R| / T, in [0, 1].  noise_rate : eta in [0, 1].  Returns (d,).

    States: attention Lemma 3.1
    """
    mu = arrays(mu=(mu, "2d"))
    zeta_R, eta = number("zeta_R", zeta_R, 0, 1), number("noise_rate", noise_rate, 0, 1)
    return (1 - 2 * eta) * zeta_R / 4 * (mu[0] - mu[1])


def empirical_direction(X, Y):
    r"""Lemma 3.1. $-\nabla_\nu \hat L = \frac{1}{2nT} \sum_{i,t} Y_i x^{(i)}_t$ at p = 0, $\nu = 0$.

    X : (n, T, d).  Y : (n,).  Returns (d,).  Raises ValueError where the axes do not agree or for other labels.

    States: attention Lemma 3.1
    """
    X, Y = arrays(X=(X, "nTd"), Y=(Y, "n"))
    return labels("Y", Y) @ X.mean(axis=1) / (2 * len(Y))


def noise_to_signal(setting):
    r"""Lemma 3.1. The empirical noise over its mean, squared: $\frac{2 T\, \mathrm{Tr}\,\Sigma}{n |R|^2 (1 -
    2\eta)^2 \|\mu\|^2}$.

    The noise $\frac{1}{2nT} \sum Y_i \epsilon_t$ is $N(0, \Sigma / 4nT)$: $E\|\cdot\|^2 = \mathrm{Tr}\,\Sigma / 4nT$.
    The mean, from population_direction, has the squared norm $(1 - 2\eta)^2 (|R|/T)^2 \|\mu\|^2 / 8$.
    (A1) makes this at least $2CT / |R|^2$; with $\mathrm{Tr}\,\Sigma \ge C T^2 n \|\mu\|^2$ it is at least $2CT$.

    setting : a Setting with noise_rate below 1/2.
    Returns a float r; the cosine between the two directions is about $1/\sqrt{1 + r}$ or less.

    States: attention Lemma 3.1
    """
    s = checked(setting)
    kept = 1 - 2 * number("noise_rate", s.noise_rate, 0, np.nextafter(0.5, 0))
    return 2 * s.T * s.trace / (s.n * (s.relevant * kept * s.norm) ** 2)


def simplex_head(mu, norm=None):
    r"""Section F. $\nu_c = \kappa(\mu_c - \bar\mu)$ with $\|\nu_0 - \nu_1\|$ = norm; $1/\|\mu\|$ where None.

    Scaled by differences because outputs matter only through them: for K = 2, $\nu_0 - \nu_1$ is linear_head(mu, norm).

    mu : (K, d), K >= 2.  norm : > 0.  Returns (K, d).  Raises ValueError outside these ranges.

    States: attention Section F
    """
    mu = _signals(mu)
    norm = 1 / _length(mu[0]) if norm is None else number("norm", norm, above=0)
    return norm / _length(mu[0] - mu[1]) * (mu - mu.mean(axis=0))


def multiclass_direction(mu, zeta_R, noise_rate):
    r"""Lemma G.1. $-\nabla_{\nu_c} L = \frac{\zeta_R}{K} (1 - \frac{\eta K}{K - 1})(\mu_c - \bar\mu)$ at $\nu = 0$.

    There $P_c = 1/K$: $-\nabla_{\nu_c} L = E[(1\{Y = c\} - 1/K) \bar x]$. $E[\bar x|Y^*]$ is $\zeta_R \mu_{Y^*}$ and a
    weak part, which drops out as $E[1\{Y = c\}] = 1/K$. $\Pr[Y = c | Y^*]$ is $1 - \eta$ at $Y^* = c$, else
    $\eta / (K - 1)$. Together:
    $\frac{\zeta_R}{K} [(1 - \eta) \mu_c + \frac{\eta}{K - 1} (K \bar\mu - \mu_c) - \bar\mu]$.
    The sign needs $\eta < (K - 1)/K$, which (A6) gives.

    mu : (K, d), K >= 2.  zeta_R : |R| / T, in [0, 1].  noise_rate : eta in [0, 1].  Returns (K, d).

    States: attention Lemma G.1
    """
    mu = _signals(mu)
    K, zeta_R, eta = len(mu), number("zeta_R", zeta_R, 0, 1), number("noise_rate", noise_rate, 0, 1)
    return zeta_R / K * (1 - eta * K / (K - 1)) * (mu - mu.mean(axis=0))


def _signals(mu):
    mu = arrays(mu=(mu, "Kd"))
    if len(mu) < 2:
        raise ValueError(f"mu: needs at least two classes, got shape {mu.shape}")
    return mu


def _length(vector):
    """The norm of a signal, or of a difference of two, which must not be zero."""
    length = np.linalg.norm(vector)
    if not length > 0:
        raise ValueError("mu: the signals must differ from zero and from each other")
    return length
