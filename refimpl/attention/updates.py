r"""Corollary D.1 to Lemma D.6: how large the updates of Lemma D.1's coefficients are, and of which sign.

Both rest on Lemma C.2: scores are $Y_i\gamma_t = a G_t \pm e$ (scores.py). The bounds below hold for any a, e.

    low, high = noise_update_range(s, m, Y, Y_star, roles, weak_scale, scale)
    low, high = signal_update_range(s, m, Y, Y_star, roles, weak_scale, scale)
    m         = step_weights(f, Y, alpha)                                       (alpha/n) |l'_i|
"""

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.attention.uncertainty import CLASSES
from refimpl.calculus.losses import logistic_derivative, margin
from refimpl.checks import arrays, labels, number


def step_weights(f, Y, alpha):
    r"""Lemma D.1. $m_i = \frac\alpha n |\ell'_i|$, what multiplies sample i in a step.

    f, Y : (n,).  alpha : > 0.  Returns (n,).

    States: attention Corollary D.1; attention Eq. 129
    """
    return -number("alpha", alpha, above=0) / np.size(Y) * logistic_derivative(margin(Y, f))


def noise_update_range(s, m, Y, Y_star, roles, weak_scale, scale):
    r"""Corollary D.1. $\Delta\rho_{i,t} \in m_i s_t [a B_t \pm 2e(1 - s_t)]$.

    $Y(\gamma_t - f) = a (G_t - \sum_u s_u G_u)$ up to $\sum_{u \ne t} s_u \cdot 2e$. With $S_R, S_+, S_-$ the attention
    on $R$, $W_Y$, $W_{-Y}$, and k = +1 on clean samples, -1 on noisy ones, $B_t = G_t - k S_R - \rho S_+ + \rho S_-$:

    on $R$, $B_t = k (1 - S_R) - \rho S_+ + \rho S_-$;
    on $W_Y$, $B_t = -k S_R + \rho (1 - S_+) + \rho S_-$;
    on $W_{-Y}$, $B_t = -k S_R - \rho (1 - S_-) - \rho S_+$;
    on $I$, $B_t = -k S_R - \rho S_+ + \rho S_-$.

    s, roles : (n, T).  m : (n,) from step_weights.  Y, Y_star : (n,).  weak_scale : rho.  scale : a scores.ScoreScale.
    Returns low, high : (n, T).  Raises ValueError where the axes do not agree.

    States: attention Corollary D.1
    """
    s, m, Y, Y_star = arrays(s=(s, "nT"), m=(m, "n"), Y=(Y, "n"), Y_star=(Y_star, "n"))
    roles, (a, e) = arrays(roles=(roles, "nT"), s=(s, "nT"))[0], scale
    masks = [roles == role for role in (RELEVANT, labels("Y", Y)[:, None], -Y[:, None])]
    S_R, S_own, S_other = (np.sum(s * mask, axis=-1, keepdims=True) for mask in masks)
    k, rho = (Y * labels("Y_star", Y_star))[:, None], weak_scale
    B = np.select(
        masks,
        [
            k * (1 - S_R) - rho * S_own + rho * S_other,
            -k * S_R + rho * (1 - S_own) + rho * S_other,
            -k * S_R - rho * (1 - S_other) - rho * S_own,
        ],
        -k * S_R - rho * S_own + rho * S_other,
    )
    weight = m[:, None] * s
    return weight * (a * B - 2 * e * (1 - s)), weight * (a * B + 2 * e * (1 - s))


def signal_update_range(s, m, Y, Y_star, roles, weak_scale, scale):
    r"""Eq. 129. $\Delta\lambda_c$, from Corollary D.1 through Lemma D.1; the display's grouping is rebuilt.

    With V, V' the attention on $W_c$, $W_{-c}$ and $q = \rho^2 V (1 - V + V')$, sample i adds $m_i a$ times

    $\mathfrak S^{(i)} + \rho S_R (V' - 2V) + q$ in $C_c$;
    $-\mathfrak S^{(i)} + \rho S_R (2V - V') - q$ in $N_{-c}$;
    $-\rho S_R V - q$ in $C_{-c}$;
    $\rho S_R V + q$ in $N_c$.

    Each up to $2 m_i e$ times $\sum_R s_t (1 - s_t)$ where $Y^* = c$, plus $\rho \sum_{W_c} s_u (1 - s_u)$.

    Arguments as in noise_update_range.  Returns low, high : (2,), classes +1, -1.

    States: attention Eq. 129
    """
    s, m, Y, Y_star = arrays(s=(s, "nT"), m=(m, "n"), Y=(Y, "n"), Y_star=(Y_star, "n"))
    roles, rho, k, (a, e) = np.asarray(roles), weak_scale, Y * Y_star, scale
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

    f is an average of scores, so $|f| \le c$; and $1/|\ell'| = 1 + e^{Yf}$ lies in $[1 + e^{-c}, 1 + e^c]$ at every
    step.

    f, Y : (n,).  gamma : (n, T).  Returns the two sides.  Raises ValueError where the axes do not agree.

    States: attention Lemma D.2
    """
    f, Y, gamma = arrays(f=(f, "n"), Y=(Y, "n"), gamma=(gamma, "nT"))
    slopes = -logistic_derivative(margin(Y, f))
    return float(slopes.max() / slopes.min()), float(np.exp(np.max(np.abs(gamma))))


def clean_share(gamma, Y, Y_star):
    r"""Remark 4. At p = 0, the share of the clean samples in $\sum_i |\ell'_i|$: it goes to 0 where the head is large.

    A clean sample has $Y f \approx a |R| / T$ (Lemma C.2), so $|\ell'| \approx e^{-a|R|/T}$; a noisy one has
    $|\ell'| \to 1$.

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

    $\Delta z = M \Delta\rho$ with $M = X X^\top$ over all tokens: its diagonal is of order $\mathrm{Tr}\,\Sigma$, the
    rest small. With Lemma D.5 and $\alpha \lesssim n / \mathrm{Tr}\,\Sigma$ the first part is of order one, the second
    smaller.

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
