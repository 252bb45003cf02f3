r"""Sections 11.3 and 11.4: how w moves, first linearly and then logarithmically.

    along_v, along_mu = gate_step(setting, drive)            # w's first step, with its constants (Lemma 4)
    clean, outlier    = first_phase(setting, L, rate, t)     # w^T p through the first phase, by Lemma 3's law
    logarithmic(c, t)                                        # u + e^u = 1 + c t: linear, then logarithmic (Lemma 5)

Population quantities, at w = 0 or while $|w^\top p|$ is small; every hinge term active; Condition 1.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from refimpl.checks import count, finite, number
from refimpl.mamba.dynamics import mu_block
from refimpl.mamba.setting import BELOW_ONE, checked


def gate_step(setting, drive):
    r"""Lemma 4. The first step of w at w = 0, in the population: along each outlier and along each pattern.

    The step is $-\partial \ell / \partial w = E \sum_k \frac12 p_k (\tau_k - \sum_{i < k} \tau_i)$, with
    $\tau_i = z y_i G_i \, p_i^\top W_B^\top W_C p_q$ and $G_i = 2^{-(l+2-i)}$.

    In the mean only clean examples count: $E \tau_i = \frac{1 - p_a}{2} D G_i$. The drive $D$ is the attention on
    the query's pattern less that on its partner, $\delta^2 \beta^2$ at t = 0.

    A token carries $v_s^*$ with probability $p_a / V$ and shows $\mu_j$ with $1 / M_1$. Its own $\tau_k$ has mean 0
    on an outlier, and cancels the query's share on a pattern. What is left is the sum over earlier examples,
    $\sum_{k \le l} \sum_{i<k} G_i = \frac12 (1 - (l+1) 2^{-l})$. So along $v_s^*$ the step is $-\frac{p_a (1 -
    p_a)}{8 V} \kappa_a \|v\|^2 D (1 - (l+1)2^{-l})$, and along $\mu_j$ it is $-\frac{1 - p_a}{8 M_1} \beta^2 D (1 -
    (l+1)2^{-l})$: both negative. The printed rate along $v^*$ lacks the factor $p_a$.

    setting : a Setting.  drive : D, >= 0.  Returns (along v, along mu), floats, for a step size of 1.
    Raises ValueError for numbers out of range.

    States: mamba Lemma 4; mamba Eqs. 25-26; mamba Eqs. 23-24
    """
    s, D = checked(setting), number("drive", drive, 0)
    common = -(1 - s.p_a) * D / 8 * (1 - (s.l + 1) * 0.5**s.l)
    return common * s.p_a * s.kappa_a * s.outlier_norm**2 / s.V, common * s.beta**2 / s.M1


def drive(L, rate, t, beta, delta):
    r"""Eqs. 28 and 32. The drive after t steps, and a lower bound of it.

    $D = \delta^2 \beta^2 \, \mathrm{tr}(L (I + \eta r L)^{2t}) / M_1 \ge \delta^2 \beta^2 (1 + t^2 \eta^2 r^2)$. D
    averages $A_{jj} - A_{jm}$ over patterns and partners, A the attention of dynamics.pattern_attention. The
    eigenvalues of L have mean 1 and $\lambda (1 + \eta r \lambda)^{2t}$ is convex, so (Jensen) $D \ge \delta^2
    \beta^2 (1 + \eta r)^{2t}$, which is more than the right side, the printed factor $\beta^2 + \eta^2 t^2 (1 -
    p_a)^2 \beta^2 / M_1^2$ up to constants.

    L, rate, t : as in dynamics.mu_block.  beta, delta : > 0.  Returns (left, right), floats.

    States: mamba Eqs. 28-31; mamba Eq. 32
    """
    scale = (number("delta", delta, above=0) * number("beta", beta, above=0)) ** 2
    return scale * np.trace(L @ mu_block(L, rate, 2 * t)) / len(L), scale * (1 + (t * rate) ** 2)


def first_phase(setting, L, rate, t):
    r"""Lemma 4, Eqs. 27 and 32. $w^\top p$ of clean tokens and of those with an outlier after t steps from w = 0.

    It is $\eta \sum_{\tau < t}$ of gate_step at Lemma 3's drive: linear in t at first, then as fast as the
    attention grows. Clean tokens see $\mu_j$ alone, outlier tokens $\mu_j$ and $\kappa_a v_s^*$. So (Eqs. 12, 13)
    $w^\top p < 0$ for all, and it is lower for an outlier.

    setting : a Setting.  L, rate, t : as in dynamics.mu_block, t an integer.  Returns (clean, outlier), floats.

    States: mamba Lemma 4; mamba Eq. 27; mamba Eq. 32
    """
    s = checked(setting)
    total = sum(drive(L, rate, tau, s.beta, s.delta)[0] for tau in range(count("t", t, 0)))
    along_v, along_mu = gate_step(s, s.eta * total)
    return along_mu, along_mu + s.kappa_a * along_v


def logarithmic(c, t):
    r"""Lemma 5. How $u = -w^\top p$ of an outlier token grows: the u with $u + e^u = 1 + c t$.

    It is the flow of $\dot u = c \, \sigma(-u)$ from u = 0: its own gate $\sigma(w^\top p)$ multiplies the rate of
    gate_step at $\sigma = \frac12$ (there $c = 2 \times$ the rate). $u = ct/2$ while $ct \ll 1$ and $\log(ct)$ when
    $ct \gg 1$: the two phases. c grows with the attention, by Lemma 3 exponentially; the logarithm is what is left
    when it has stopped. $u = 1 + ct - W(e^{1 + ct})$, W Lambert's.

    c, t : >= 0, broadcast.  Returns u of their shape.  Raises ValueError for negative ones.

    States: mamba Lemma 5
    """
    c, t = finite("c", c), finite("t", t)
    if np.any(c < 0) or np.any(t < 0):
        raise ValueError("c, t: must be >= 0")
    x = 1 + c * t
    log = np.log(x)
    with np.errstate(over="ignore"):
        u = np.where(x < 300, x - lambertw(np.exp(np.minimum(x, 300))).real, log - log / x)
    for _ in range(3):  # Newton on u + e^u - x: where e^x is no float, and for the last digits
        u = u - (u + np.exp(u) - x) / (1 + np.exp(u))
    return u


def logarithmic_bounds(c, t):
    r"""Eqs. 33 and 34. $\log(1 + ct/2) \le u_t \le \log(1 + ct)$ for the steps $u_{t+1} = u_t + c \, \sigma(-u_t)$.

    From $u_0 = 0$, with $c \le 1$. With $g(t) = \log(1 + \gamma t / 2)$, $c \, \sigma(-g(t)) = \frac{c}{2 + \gamma
    t / 2}$ and $g(t+1) - g(t) = \log(1 + x)$, $x = \frac{\gamma}{2 + \gamma t}$. Below, $\gamma = c$: $\log(1 + x)
    \le x \le \frac{c}{2 + ct/2}$. Above, $\gamma = 2c$: $\log(1 + x) \ge \frac{x}{1 + x} = \frac{c}{1 + c(t+1)} \ge
    \frac{c}{2 + ct}$. $u + c \, \sigma(-u)$ is increasing, so both carry over. The proof's (i) asks $\gamma_1 \le
    \eta (1 - p_a) \beta^2$ of the lower one, which leaves out the $\kappa_a / V$ of the rate c.

    c : in (0, 1].  t : (...) steps.  Returns (lower, upper), each (...).

    States: mamba Eqs. 33-34
    """
    c, t = number("c", c, most=1, above=0), finite("t", t)
    return np.log1p(c * t / 2), np.log1p(c * t)


def clean_rest(p_a, l):
    r"""Lemma 5. Where $w^\top p$ of clean tokens settles once the outliers are shut: at $\log \frac{1 - x}{x}$.

    Here x is the root of the last equation below. With one $\sigma = 1 - x$ for all clean tokens, the query's too,
    and 0 for outliers, $\sum_{i \le l} E \, G_i = x - x (p_a + (1 - p_a) x)^l$, which the gradient of $E[zF]$
    raises: at rest $1 = g^l + l (1 - p_a) x g^{l-1}$, $g = p_a + (1 - p_a) x$. The $\Theta(1)$ of Eq. 14 so depends
    on l: with $n = l (1 - p_a)$ it is near $\log \frac{n}{\log n}$.

    p_a : in [0, 1).  l : >= 1.  Returns a float, <= 0.  Raises ValueError outside these ranges.

    States: mamba Lemma 5
    """
    p_a, l = number("p_a", p_a, 0, BELOW_ONE), count("l", l)

    def slope(x):
        g = p_a + (1 - p_a) * x
        return 1 - g**l - l * (1 - p_a) * x * g ** (l - 1)

    x = brentq(slope, 0.0, 1.0)  # the slope falls from 1 - p_a^l to -l (1 - p_a)
    return float(np.log((1 - x) / x))
