r"""Lemma C.2: where the scores of the tokens lie.

The head is $\nu = \kappa(\mu_{+1} - \mu_{-1})$. A score $\gamma_t = \langle\nu, x_t\rangle$ then has two parts: what
the token carries of the signals, a multiple of $a = \kappa\|\mu\|^2$, and its noise, at most e. So
$Y_i\gamma_t = a G_t \pm e$ with $G = k, \rho, -\rho, 0$ on $R, W_Y, W_{-Y}, I$; k = +1 on clean samples, -1 on noisy.

    scale     = score_scale(noise, mu, nu)                   a and e as they are in a sample
    scale     = good_run_scale(setting, c2)                  and at most on a good run
    low, high = token_score_range(Y, Y_star, roles, weak_scale, scale)
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.attention.setting import checked
from refimpl.checks import arrays, labels, number


class ScoreScale(NamedTuple):
    r"""The two sizes of a score.

    a : $\kappa\|\mu\|^2 = \|\nu\|\|\mu\|/\sqrt2$, the score of a signal.
    e : a bound on $|\langle\nu, \epsilon\rangle|$, the score of a noise.

    States: attention Lemma C.2
    """

    a: float
    e: float


def score_scale(noise, mu, nu):
    r"""Lemma C.2. $a = \langle\nu, \mu_{+1}\rangle$ and $e = \max_{i,t} |\langle\nu, \epsilon^{(i)}_t\rangle|$.

    noise : (n, T, d).  mu : (2, d).  nu : (d,), a multiple of $\mu_{+1} - \mu_{-1}$.
    Returns a ScoreScale.  Raises ValueError where the axes do not agree.

    States: attention Lemma C.2
    """
    noise, mu, nu = arrays(noise=(noise, "nTd"), mu=(mu, "2d"), nu=(nu, "d"))
    return ScoreScale(float(mu[0] @ nu), float(np.max(np.abs(noise @ nu))))


def good_run_scale(setting, c2, head=None):
    r"""Lemma C.2. On a good run $e = 2 c_2 \kappa \|\mu\| \sqrt{\log(Tn/\delta)}$ with $\kappa =
    \frac{\|\nu\|}{\sqrt2\, \|\mu\|}$.

    The noise adds $\kappa(\langle\epsilon, \mu_{+1}\rangle - \langle\epsilon, \mu_{-1}\rangle)$: twice the bound (iii)
    of Lemma A.1.

    setting : a Setting.  c2 : of Lemma A.1, > 0.  head : $\|\nu\|$; Theorem 4.2's $1/\|\mu\|$ where None.
    Returns a ScoreScale.

    States: attention Lemma C.2
    """
    s, c2 = checked(setting), number("c2", c2, above=0)
    kappa = math.sqrt(0.5) / s.norm * (1 / s.norm if head is None else number("head", head, above=0))
    return ScoreScale(kappa * s.norm**2, 2 * c2 * kappa * s.norm * math.sqrt(s.log))


def token_score_range(Y, Y_star, roles, weak_scale, scale):
    r"""Lemma C.2. $Y_i \gamma_t \in a G_t \pm e$.

    $G = \pm 1$ on R (clean, noisy), $\pm\rho$ on $W_{\pm Y}$, 0 on I, since $\langle\nu, \mu_c\rangle = c a$.

    Y, Y_star : (n,).  roles : (n, T).  weak_scale : rho.  scale : a ScoreScale.
    Returns low, high : (n, T).  Raises ValueError where the axes do not agree.

    States: attention Lemma C.2
    """
    Y, Y_star, roles = arrays(Y=(Y, "n"), Y_star=(Y_star, "n"), roles=(roles, "nT"))
    G = labels("Y", Y)[:, None] * np.where(roles == RELEVANT, labels("Y_star", Y_star)[:, None], weak_scale * roles)
    a, e = scale
    return a * G - e, a * G + e


def score_spread(setting, c2):
    r"""Lemma C.2. $(1 + \rho) a + 2e$, a bound on $\max_t \gamma_t - \min_t \gamma_t$ in a sample of a good run.

    A sample has one class, so its scores lie within e of $a, \pm\rho a, 0$ or of their negatives. Here
    $\|\nu\| = 1/\|\mu\|$.

    setting : a Setting.  c2 : of Lemma A.1, > 0.  Returns a float.

    States: attention Lemma C.2
    """
    a, e = good_run_scale(setting, c2)
    return (1 + setting.weak_scale) * a + 2 * e
