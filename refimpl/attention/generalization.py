r"""Lemmas A.5, E.1, E.2, Eq. 12 and the two cases of Theorem 4.2 (E.2.3, E.2.4): what a trained p does on fresh data.

low, high = signal_bounds(totals, ...)             Eqs. 206, 207: lambda_c from what training left undecided
parts     = benign_conditions(lam, rho, setting)   Eqs. 226-228 and 238
log_error = uniform_error(setting)                 Eq. 12's left side at p = 0, in closed form
"""

import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from refimpl.attention.data import RELEVANT
from refimpl.attention.setting import checked
from refimpl.attention.uncertainty import CLASSES
from refimpl.checks import arrays, count, labels, number


def slope_range(scale):
    r"""Lemma D.2. The range of $|\ell'_i|$ at every step, $1/(1 + e^{\pm c})$ with $c = a + e \ge \max |\gamma|$.

    scale : a scores.ScoreScale.  Returns (least, most).

    States: attention Lemma E.1
    """
    c = number("a", scale.a, above=0) + number("e", scale.e, least=0)
    return 1 / (1 + np.exp(c)), 1 / (1 + np.exp(-c))


def signal_bounds(totals, Y, Y_star, roles, weak_scale, scale, step):
    r"""Eqs. 206, 207 with their constants. $\lambda_c$ after steps whose sums are `totals`, as an interval.

    Eq. 129 is added up over the steps $\tau' < \tau$ made, each term at its worst. Write
    $A_c = \sum_{C_c}\mathfrak S$ and $B_c = \sum_{N_{-c}} \mathfrak S$; $Q_c$ for the sum of $s_u (1 - s_u)$ over
    $W_c$, in the named samples or in all; $E = 2 e h (\sum_{Y^* = c} \sum_R s_t (1 - s_t) + \rho Q_c)$; and
    $l \le |\ell'| \le h$. In units of `step`,

    $\lambda_c \ge a [l (1 - 2\rho) A_c - h (1 + \rho) B_c - h \rho A_{-c} - 2 h \rho^2 Q_c(C_{-c}, N_{-c})] - E$,

    $\lambda_c \le a [h (1 + \rho) A_c - l (1 - 2\rho) B_c + h \rho B_{-c} + 2 h \rho^2 Q_c(C_c, N_c)] + E$.

    They use $|V' - 2V|\, S_R \le 2 \mathfrak S$ and $q \le 2 \rho^2 V (1 - V) \le 2 \rho^2 \sum_{W_c} s_u (1 - s_u)$.
    Under Eqs. 9-11 and for small $\rho$ the first term dominates (Eq. 206); under Eq. 13 the second (Eq. 207), if the
    noisy sums of the two classes are balanced as well.

    totals : uncertainty.Totals, (n,) and (n, T).  roles : (n, T).  Y, Y_star : (n,).  weak_scale : rho <= 1/2.
    scale : a scores.ScoreScale.  step : $\alpha / n$ for sums over steps; 1/V for the integrals of runs.flow.
    Returns low, high : (2,), classes +1, -1.

    States: attention Lemma E.1; attention Eqs. 206-207
    """
    undecided, variance = arrays(undecided=(totals.uncertainty, "n"), variance=(totals.variance, "nT"))
    Y, Y_star, roles = arrays(Y=(labels("Y", Y), "n"), Y_star=(labels("Y_star", Y_star), "n"), roles=(roles, "nT"))
    (a, e), (l, h) = scale, slope_range(scale)
    rho, clean, own_R = number("weak_scale", weak_scale, 0, 0.5), Y == Y_star, variance * (roles == RELEVANT)
    low, high = np.zeros(2), np.zeros(2)
    for j, c in enumerate(CLASSES):
        mine, Q = Y_star == c, np.sum(variance * (roles == c), axis=-1)
        A, B = np.sum(undecided[mine & clean]), np.sum(undecided[mine & ~clean])
        A_other, B_other = np.sum(undecided[~mine & clean]), np.sum(undecided[~mine & ~clean])
        E = 2 * e * h * (np.sum(own_R[mine]) + rho * np.sum(Q))
        down = (Y_star != c) & clean | mine & ~clean  # C_{-c} and N_{-c}: where q counts against lambda_c
        against = h * rho * (A_other + 2 * rho * np.sum(Q[down]))
        towards = h * rho * (B_other + 2 * rho * np.sum(Q[~down]))
        low[j] = a * (l * (1 - 2 * rho) * A - h * (1 + rho) * B - against) - E
        high[j] = a * (h * (1 + rho) * A - l * (1 - 2 * rho) * B + towards) + E
    return number("step", step, above=0) * low, step * high


def norm_floor(s_top, x_norm, T):
    r"""Lemma E.2. $s_{t^*} > 1 - \epsilon$ needs $\|p\| \ge \log((T-1)(1-\epsilon)/\epsilon) / (2 \max_t \|x_t\|)$.

    $\sum_{t \ne t^*} e^{z_t - z_{t^*}} = (1 - s_{t^*})/s_{t^*}$: some token is below $t^*$ by
    $\log((T - 1) s_{t^*}/(1 - s_{t^*}))$ or more, and a difference of logits is at most $2 \max\|x_t\| \|p\|$, W being
    orthogonal.

    s_top : (...), in (0, 1).  x_norm : (...), $\max_t \|x_t\|$; on a good run at most
    $\|\mu\| + (1 + 1/C') \sqrt{\mathrm{Tr}\,\Sigma}$.  T : >= 2.  Returns (...).

    States: attention Lemma E.2
    """
    s_top, x_norm = arrays(s_top=(s_top, "..."), x_norm=(x_norm, "..."))
    if np.any((s_top <= 0) | (s_top >= 1)) or np.any(x_norm <= 0):
        raise ValueError("s_top, x_norm: s_top must be in (0, 1), x_norm > 0")
    return np.log((count("T", T, least=2) - 1) * s_top / (1 - s_top)) / (2 * x_norm)


def benign_conditions(lam, rho, setting):
    r"""E.2.3. What the benign case rests on: {equation: slack}, left side over right side, constants left out.

    Eq. 226: $\lambda_c \|\mu\|^2$ itself, to be large.
    Eq. 227: $\lambda_{\min}/\lambda_{\max}$, to be of order one.
    Eq. 228: $\lambda_c$ over $\sum|\rho_{i,t}| \max\{\sqrt{\log}/\|\mu\|, \sqrt{\mathrm{Tr}\,\Sigma} \log/\|\mu\|^2\}$,
    the signal's part of a fresh logit over the noises', with $\log$ for $\log(Tn/\delta)$.
    Lemma A.5: $\lambda_c$ over $\sum|\rho_{i,t}|/\sqrt{Tn}$.
    The smaller $\lambda_c$ counts in each.

    lam : (2,).  rho : (n, T).  setting : a Setting.  Returns a dict of floats.

    States: attention Lemma A.5; attention Section E.2.3
    """
    lam, rho, setting = *arrays(lam=(lam, "2"), rho=(rho, "nT")), checked(setting)
    total = np.sum(np.abs(rho))
    noise = max(np.sqrt(setting.log) / setting.norm, np.sqrt(setting.trace) * setting.log / setting.norm**2)
    return {
        "Eq. 226": float(np.min(lam) * setting.norm**2),
        "Eq. 227": float(np.min(lam) / np.max(lam)),
        "Eq. 228": float(np.min(lam) / (total * noise)),
        "Lemma A.5": float(np.min(lam) * np.sqrt(rho.size) / total),
    }


def norm_ceiling(lam, rho, norm, noise_norm):
    r"""Eq. 238. $\|p\| \le (|\lambda_{+1}| + |\lambda_{-1}|) \|\mu\| + \sum |\rho_{i,t}| \max\|\epsilon\|$.

    The triangle inequality in Lemma D.1. With Lemma A.5, at most of the order
    $\lambda_c (\|\mu\| + \sqrt{Tn\, \mathrm{Tr}\,\Sigma})$: since E.2 makes $\|p\|$ grow, $\lambda_c$ must.

    lam : (2,).  rho : (n, T).  norm : $\|\mu\|$.  noise_norm : the largest $\|\epsilon\|$.  Returns a float.

    States: attention Section E.2.3
    """
    lam, rho = arrays(lam=(lam, "2"), rho=(rho, "nT"))
    return float(np.sum(np.abs(lam)) * norm + np.sum(np.abs(rho)) * noise_norm)


def uniform_error(setting):
    r"""Theorem 4.2 at $\tau = 0$. The logarithm of Eq. 12's left side for p = 0, where attention is 1/T.

    Eq. 12 (rebuilt) asks that $\Pr_{P^*}[\mathrm{sign} f(X) \ne Y^*] \le \delta/n$ at all $\tau \ge T_0$.
    $\Sigma = \sigma^2 I$. With k of the |W| weak tokens in $W_{Y^*}$,
    $Y^* f \sim N(\frac aT (|R| + \rho (2k - |W|)), \sigma^2 \|\nu\|^2 / T)$, and $a/\|\nu\| = \|\mu\|/\sqrt2$: the
    error is about $\Phi(-\|\mu\| |R| / \sqrt{2T})$, whatever the size of the head.
    So p = 0 meets Eq. 12 as soon as $\|\mu\|^2 \gtrsim T \log(n/\delta) / |R|^2$, far below (A'2).

    setting : a Setting, its Sigma one number.  Returns a float.

    States: attention Eq. 12
    """
    setting, sigma = checked(setting), np.sqrt(setting.variance)
    k = np.arange(1, setting.weak)
    log_share = binom.logpmf(k, setting.weak, 0.5)
    mean = setting.norm * (setting.relevant + setting.weak_scale * (2 * k - setting.weak)) / np.sqrt(2 * setting.T)
    return float(logsumexp(log_share - logsumexp(log_share) + log_ndtr(-mean / sigma)))


def picked_error(norm, sigma=1.0):
    r"""Theorem 4.2 as $\tau \to \infty$. The logarithm of $\Phi(-\|\mu\| / (\sqrt2\, \sigma))$.

    The error with attention on one relevant token: what the benign case tends to, where |R| = 1.

    norm : $\|\mu\|$.  sigma : > 0.  Returns a float.

    States: attention Eq. 12
    """
    return float(log_ndtr(-number("norm", norm, above=0) / (np.sqrt(2) * number("sigma", sigma, above=0))))


def weak_difference(s, roles):
    r"""E.2.4. $D = \sum_{W_{+1}} s - \sum_{W_{-1}} s$; $E_{+1}: D \ge b$, $E_{-1}: D \le -b$, $E_=: |D| < b$.

    s, roles : (n, T).  Returns (n,).

    States: attention Section E.2.4
    """
    s, roles = arrays(s=(s, "nT"), roles=(roles, "nT"))
    return np.sum(s * (roles == 1), axis=-1) - np.sum(s * (roles == -1), axis=-1)


def event_shares(D, Y_star, b):
    r"""E.2.4. The shares of $E_{+1}, E_{-1}, E_=$ among fresh samples with $Y^* = +1$ and with $Y^* = -1$.

    D : (n,) from weak_difference.  Y_star : (n,).  b : > 0, of order $\sqrt{\log(Tn/\delta)} / (\rho \|\mu\|)$.
    Returns (2, 3), rows $Y^* = +1, -1$.

    States: attention Section E.2.4
    """
    D, Y_star = arrays(D=(D, "n"), Y_star=(labels("Y_star", Y_star), "n"))
    b = number("b", b, above=0)
    if abs(np.sum(Y_star)) == len(Y_star):
        raise ValueError("Y_star: needs samples of both classes")
    return np.array([[np.mean(event[Y_star == c]) for event in (D >= b, D <= -b, np.abs(D) < b)] for c in CLASSES])


def harmful_floor(shares, conditional, miss=0.0):
    r"""Eq. 250 and what it comes to. The test error is at least
    $\frac12 (\Pr_{+1}[E_{-1}] + \Pr_{-1}[E_{+1}]) + \frac12 \phi (\Pr_{+1}[E_=] + \Pr_{-1}[E_=])$ less $\delta/n$.

    On $E_{\pm1}$ the sign of f is the weak tokens'; on $E_=$ it is wrong with probability $\phi$ or more. Where
    $\lambda_{+1} \ge \lambda_{-1}$, $\Pr_{-1}[E_{+1}] \ge \Pr_{+1}[E_{+1}]$: $\phi/2$ in total or more (rebuilt).

    shares : (2, 3) from event_shares.  conditional : phi in [0, 1].  miss : delta/n.  Returns a float.

    States: attention Section E.2.4; attention Theorem 4.2 (harmful)
    """
    shares = arrays(shares=(shares, "23"))
    phi = number("conditional", conditional, 0, 1)
    return float((shares[0, 1] + shares[1, 0] + phi * shares[:, 2].sum()) / 2 - number("miss", miss, 0, 1))
