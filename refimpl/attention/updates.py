r"""Corollary D.1 to Lemma D.6: how large the updates of Lemma D.1's coefficients are, and of which sign.

Scores are $Y_i\gamma_t = a G_t \pm e$ with $a = \kappa\|\mu\|^2 = \|\nu\|\|\mu\|/\sqrt2$ and $G = k, \rho, -\rho, 0$ on
$R, W_Y, W_{-Y}, I$; k = +1 on clean samples, -1 on noisy ones. e is the largest $|\langle\nu, \epsilon\rangle|$,
on a good run at most $2 c_2 \kappa \|\mu\| \sqrt{\log(Tn/\delta)}$ (Lemma C.2). The bounds below hold for any a, e.

    a, e      = score_scale(noise, mu, nu)
    low, high = noise_update_range(s, m, Y, Y_star, roles, weak_scale, a, e)
    low, high = signal_update_range(s, m, Y, Y_star, roles, weak_scale, a, e)
    m         = step_weights(f, Y, alpha)                                       (alpha/n) |l'_i|
"""

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.attention.uncertainty import CLASSES
from refimpl.calculus.losses import logistic_derivative, margin
from refimpl.checks import arrays, labels, number


def score_scale(noise, mu, nu):
    r"""Lemma C.2. $a = \langle\nu, \mu_{+1}\rangle$ and $e = \max_{i,t} |\langle\nu, \epsilon^{(i)}_t\rangle|$.

    For $\nu \propto \mu_{+1} - \mu_{-1}$.
    noise : (n, T, d).  mu : (2, d).  nu : (d,).  Returns two floats.  Raises ValueError where the axes do not agree.

    States: attention Corollary D.1
    """
    noise, mu, nu = arrays(noise=(noise, "nTd"), mu=(mu, "2d"), nu=(nu, "d"))
    return float(mu[0] @ nu), float(np.max(np.abs(noise @ nu)))


def step_weights(f, Y, alpha):
    r"""Lemma D.1. $m_i = \frac\alpha n |\ell'_i|$, what multiplies sample i in a step.

    f, Y : (n,).  alpha : > 0.  Returns (n,).

    States: attention Corollary D.1; attention Eq. 129
    """
    return -number("alpha", alpha, above=0) / np.size(Y) * logistic_derivative(margin(Y, f))


def masses(s, Y, roles):
    r"""Appendix D. The attention on $R$, $W_Y$ and $W_{-Y}$ of each sample.

    s, roles : (n, T).  Y : (n,).  Returns three arrays (n,).

    States: attention Corollary D.1; attention Eq. 129
    """
    s, roles, Y = arrays(s=(s, "nT"), roles=(roles, "nT"), Y=(Y, "n"))
    return tuple(np.sum(s * (roles == role), axis=-1) for role in (RELEVANT, Y[:, None], -Y[:, None]))


def noise_update_range(s, m, Y, Y_star, roles, weak_scale, a, e):
    r"""Corollary D.1. $\Delta\rho_{i,t} \in m_i s_t [a B_t \pm 2e(1 - s_t)]$.

    $Y(\gamma_t - f) = a (G_t - \sum_u s_u G_u)$ up to $\sum_{u \ne t} s_u \cdot 2e$. With $S_R, S_+, S_-$ of `masses`,

        B_t = k (1 - S_R) - rho S_+ + rho S_-        on R
            = -k S_R + rho (1 - S_+) + rho S_-       on W_Y
            = -k S_R - rho (1 - S_-) - rho S_+       on W_{-Y}
            = -k S_R - rho S_+ + rho S_-             on I.

    s, roles : (n, T).  m : (n,) from step_weights.  Y, Y_star : (n,).  weak_scale : rho.
    Returns low, high : (n, T).  Raises ValueError where the axes do not agree.

    States: attention Corollary D.1
    """
    s, m, Y, Y_star = arrays(s=(s, "nT"), m=(m, "n"), Y=(Y, "n"), Y_star=(Y_star, "n"))
    S_R, S_own, S_other = (S[:, None] for S in masses(s, Y, roles))
    k, rho = (labels("Y", Y) * labels("Y_star", Y_star))[:, None], weak_scale
    B = np.select(
        [roles == RELEVANT, roles == Y[:, None], roles == -Y[:, None]],
        [
            k * (1 - S_R) - rho * S_own + rho * S_other,
            -k * S_R + rho * (1 - S_own) + rho * S_other,
            -k * S_R - rho * (1 - S_other) - rho * S_own,
        ],
        -k * S_R - rho * S_own + rho * S_other,
    )
    weight = m[:, None] * s
    return weight * (a * B - 2 * e * (1 - s)), weight * (a * B + 2 * e * (1 - s))


def signal_update_range(s, m, Y, Y_star, roles, weak_scale, a, e):
    r"""Eq. 129. $\Delta\lambda_c$, from Corollary D.1 through Lemma D.1; the display's grouping is rebuilt.

    With V, V' the attention on $W_c$, $W_{-c}$ and $q = \rho^2 V (1 - V + V')$, $m_i a$ times

        C_c: S + rho S_R (V' - 2V) + q       N_{-c}: -S + rho S_R (2V - V') - q
        C_{-c}: -rho S_R V - q               N_c: rho S_R V + q,

    S short for $\mathfrak S$, up to $2 m_i e$ times $\sum_R s_t (1 - s_t)$ where $Y^* = c$, plus
    $\rho \sum_{W_c} s_u (1 - s_u)$.

    Arguments as in noise_update_range.  Returns low, high : (2,), classes +1, -1.

    States: attention Eq. 129
    """
    s, m, Y, Y_star = arrays(s=(s, "nT"), m=(m, "n"), Y=(Y, "n"), Y_star=(Y_star, "n"))
    roles, rho, k = np.asarray(roles), weak_scale, Y * Y_star
    variance, S_R = s * (1 - s), np.sum(s * (roles == RELEVANT), axis=-1)
    uncertainty = S_R * (1 - S_R)
    middle, width = np.zeros(2), np.zeros(2)
    for j, c in enumerate(CLASSES):
        own, weak = Y_star == c, roles == c
        V, V_other = np.sum(s * weak, axis=-1), np.sum(s * (roles == -c), axis=-1)
        q = rho**2 * V * (1 - V + V_other)
        of_class = uncertainty + rho * S_R * (V_other - 2 * V) + q
        middle[j] = np.sum(m * a * k * np.where(own, of_class, -rho * S_R * V - q))
        bands = own * np.sum(variance * (roles == RELEVANT), axis=-1) + rho * np.sum(variance * weak, axis=-1)
        width[j] = np.sum(m * 2 * e * bands)
    return middle - width, middle + width


def loss_derivative_ratio(f, Y, gamma):
    r"""Lemma D.2. $\max_{i,j} \ell'_i / \ell'_j \le C_\ell = (1 + e^c) / (1 + e^{-c}) = e^c$, with $c = \max |\gamma|$.

    $|f| \le c$, an average of scores: and $1/|\ell'| = 1 + e^{Yf}$ lies in $[1 + e^{-c}, 1 + e^c]$ at every step.

    f, Y : (n,).  gamma : (n, T).  Returns the two sides.  Raises ValueError where the axes do not agree.

    States: attention Lemma D.2
    """
    f, Y, gamma = arrays(f=(f, "n"), Y=(Y, "n"), gamma=(gamma, "nT"))
    slopes = -logistic_derivative(margin(Y, f))
    return float(slopes.max() / slopes.min()), float(np.exp(np.max(np.abs(gamma))))


def clean_share(gamma, Y, Y_star):
    r"""Remark 4. At p = 0, the share of the clean samples in $\sum_i |\ell'_i|$: it goes to 0 where the head is large.

    A clean sample has $Y f \approx a |R| / T$, so $|\ell'| \approx e^{-a|R|/T}$, and a noisy one $|\ell'| \to 1$.

    gamma : (n, T).  Y, Y_star : (n,).  Returns a float in [0, 1].

    States: attention Remark 4
    """
    gamma, Y, Y_star = arrays(gamma=(gamma, "nT"), Y=(labels("Y", Y), "n"), Y_star=(labels("Y_star", Y_star), "n"))
    slopes = -logistic_derivative(margin(Y, np.mean(gamma, axis=-1)))
    return float(np.sum(slopes[Y == Y_star]) / np.sum(slopes))


def weight_ratios(s, s_next, z, z_next):
    r"""Lemma D.4. The largest $|\log (s_t(\tau + 1) / s_t(\tau))|$, and the logit increments' largest spread.

    $s_t(\tau+1) / s_t(\tau) = e^{\Delta z_t} / \sum_u s_u e^{\Delta z_u}$, a number between $e^{-w}$ and $e^w$ with
    $w = \max_t \Delta z_t - \min_t \Delta z_t$: in [1/2, 2] where $w \le \log 2$, as (A'1) grants on a good run.

    s, s_next, z, z_next : (n, T), s > 0.  Returns the two sides, floats.

    States: attention Lemma D.4
    """
    s, s_next, z, z_next = arrays(s=(s, "nT"), s_next=(s_next, "nT"), z=(z, "nT"), z_next=(z_next, "nT"))
    return float(np.max(np.abs(np.log(s_next / s)))), float(np.max(np.ptp(z_next - z, axis=-1)))


def spread_bound(M, delta_rho):
    r"""Lemma D.4. $w \le 2 \max\|x\|^2 \max|\Delta\rho| + 2 \max_{\ne} |\langle x, x'\rangle| \sum |\Delta\rho|$.

    $\Delta z = M \Delta\rho$ with $M = X X^\top$ over all tokens: its diagonal is of order Tr Sigma, the rest small.
    With Lemma D.5 and $\alpha \lesssim n / \mathrm{Tr}\,\Sigma$ the first part is O(1), the second smaller.

    M : (nT, nT).  delta_rho : (n, T).  Returns a float.

    States: attention Lemma D.4
    """
    M, delta_rho = arrays(M=(M, "NN"), delta_rho=(delta_rho, "nT"))
    off = np.max(np.abs(M - np.diag(np.diag(M)))) if len(M) > 1 else 0.0
    return float(2 * np.max(np.diag(M)) * np.max(np.abs(delta_rho)) + 2 * off * np.sum(np.abs(delta_rho)))


def noise_update_total(s, gamma, m):
    r"""Lemma D.5. $\sum_{i,t} |\Delta\rho_{i,t}| \le \sum_i m_i (\max_t \gamma_t - \min_t \gamma_t) / 2$, without a T.

    The mean distance from the mean, $\sum_t s_t |\gamma_t - f|$, is at most half the range; equality: two tokens
    of weight 1/2. With Lemma C.2 of order $\alpha \|\nu\| (\|\mu\| + \sqrt{\log(Tn/\delta)})$ (rebuilt).

    s, gamma : (n, T).  m : (n,).  Returns the two sides.

    States: attention Lemma D.5
    """
    s, gamma, m = arrays(s=(s, "nT"), gamma=(gamma, "nT"), m=(m, "n"))
    f = np.sum(s * gamma, axis=-1, keepdims=True)
    return float(np.sum(m[:, None] * s * np.abs(gamma - f))), float(np.sum(m * np.ptp(gamma, axis=-1)) / 2)


def largest_variance(s):
    r"""Lemma D.6. $\max_t s_t (1 - s_t)$, and $s_t (1 - s_t)$ at the largest $s_t$: the same number.

    $x (1 - x)$ increases up to 1/2 and is symmetric; where the largest is above 1/2, the others are below
    one minus it.

    s : (..., T), probabilities.  Returns two arrays (...).

    States: attention Lemma D.6
    """
    s = arrays(s=(s, "...T"))
    top = np.max(s, axis=-1)
    return np.max(s * (1 - s), axis=-1), top * (1 - top)
