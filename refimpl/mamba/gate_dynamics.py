r"""Sections 11.3 and 11.4: how w moves, first linearly and then logarithmically, and what the gates are then.

    along_v, along_mu = gate_step(...)         # w's first step, with its constants (Lemma 4)
    first_phase(...)                           # the same through the first phase, with Lemma 3's law for the attention
    logarithmic(c, t)                          # u + e^u = 1 + c t: linear, then logarithmic (Lemma 5)

Population quantities, at w = 0 or while $|w^\top p|$ is small; every hinge term active; Condition 1.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from refimpl.calculus.gating import gate
from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays, count, finite, number, same_last_axis
from refimpl.mamba.dynamics import mu_block


def initial_gate(xi, n):
    r"""Eq. 20. If $|w^\top p_j| \le \xi$ for all tokens, $G_i$ is within $2^{-n}(1 - n \xi / 2)$ and
    $2^{-n} e^{n \xi / 2}$, n = l + 2 - i.

    $G_i$ has n factors $\sigma(\pm w^\top p)$, each within $\frac12 (1 \pm \xi / 2)$, as $|\sigma'| \le 1/4$; then
    Bernoulli. The printed $2^{-n}(1 \pm n \xi)$ contains this range where $n \xi \le 2.5$. Its $\xi = 1/(d+1)$ does
    not hold: $w^{(0)\top} p$ has standard deviation $\|p\| / \sqrt{d + 1}$.

    xi : >= 0.  n : (...) number of factors.  Returns (lower, upper), each (...).

    States: mamba Eq. 20
    """
    xi, n = number("xi", xi, 0), finite("n", n)
    return 0.5**n * (1 - n * xi / 2), 0.5**n * np.exp(n * xi / 2)


def gate_step(beta, kappa_a, outlier_norm, p_a, M1, V, l, drive):
    r"""Lemma 4. The population's $v_s^{*\top}$ and $\mu_j^\top (-\partial \ell / \partial w)$ at w = 0, both negative.

    $-\partial \ell / \partial w = E \sum_s \frac12 p_s (\tau_s - \sum_{i < s} \tau_i)$,
    $\tau_i = z y_i G_i \, p_i^\top W_B^\top W_C p_q$, $G_i = 2^{-(l+2-i)}$. In the mean only clean examples count:
    $E \tau_i = \frac{1 - p_a}{2} D G_i$ with the drive $D$, the attention on the query's pattern less that on its
    partner ($\delta^2 \beta^2$ at t = 0). Token s carries $v_s^*$ with probability $p_a / V$ and shows $\mu_j$ with
    $1 / M_1$; the $\tau_s$ of its own has mean 0 on outliers, and cancels the query's share on $\mu_j$. Then
    $\sum_{s \le l} \sum_{i<s} G_i = \frac12 (1 - (l+1) 2^{-l})$ gives
    $-\frac{p_a (1 - p_a)}{8 V} \kappa_a \|v\|^2 D (1 - (l+1)2^{-l})$ and
    $-\frac{1 - p_a}{8 M_1} \beta^2 D (1 - (l+1)2^{-l})$. The printed rate along $v^*$ lacks the factor $p_a$.

    Returns (along v, along mu).

    States: mamba Lemma 4; mamba Eqs. 25-26; mamba Eqs. 23-24
    """
    p_a, l, M1, V = number("p_a", p_a, 0, 1), count("l", l), count("M1", M1, 2), count("V", V)
    beta, kappa_a, drive = number("beta", beta, above=0), number("kappa_a", kappa_a, 0), number("drive", drive, 0)
    outlier_norm = number("outlier_norm", outlier_norm, above=0)
    common = -(1 - p_a) * drive / 8 * (1 - (l + 1) * 0.5**l)
    return common * p_a * kappa_a * outlier_norm**2 / V, common * beta**2 / M1


def drive(L, rate, t, beta, delta):
    r"""Eqs. 28 and 32.
    $D = \delta^2 \beta^2 \, \mathrm{tr}(L (I + \eta r L)^{2t}) / M_1 \ge \delta^2 \beta^2 (1 + t^2 \eta^2 r^2)$: both
    sides.

    D averages $s_{jj} - s_{jm}$ over patterns and partners, s Lemma 3's attention. The eigenvalues of L have mean 1
    and $\lambda (1 + \eta r \lambda)^{2t}$ is convex, so (Jensen) $D \ge \delta^2 \beta^2 (1 + \eta r)^{2t}$, which
    is more than the right side, the printed factor $\beta^2 + \eta^2 t^2 (1 - p_a)^2 \beta^2 / M_1^2$ up to
    constants.

    Returns (left, right).

    States: mamba Eqs. 28-31; mamba Eq. 32
    """
    scale = (number("delta", delta, above=0) * number("beta", beta, above=0)) ** 2
    return scale * np.trace(L @ mu_block(L, rate, 2 * t)) / len(L), scale * (1 + (t * rate) ** 2)


def first_phase(L, rate, t, eta, beta, delta, kappa_a, outlier_norm, p_a, V, l):
    r"""Lemma 4, Eqs. 27 and 32. $w^{(t) \top} p$ of clean tokens and of those with an outlier, from $w^{(0)} = 0$.

    $\eta \sum_{\tau < t}$ of gate_step at Lemma 3's drive: linear in t at first, then as fast as the attention grows.
    Clean tokens see $\mu_j$ alone, outlier tokens $\mu_j$ and $\kappa_a v_s^*$: so (Eqs. 12, 13)
    $w^\top p_r < w^\top p_s < 0$.

    Returns (clean, outlier).

    States: mamba Lemma 4; mamba Eq. 27; mamba Eq. 32
    """
    total = sum(drive(L, rate, tau, beta, delta)[0] for tau in range(count("t", t, 0)))
    along_v, along_mu = gate_step(beta, kappa_a, outlier_norm, p_a, len(L), V, l, eta * total)
    return along_mu, along_mu + kappa_a * along_v


def logarithmic(c, t):
    r"""Lemma 5. The u with $u + e^u = 1 + c t$: the flow of $\dot u = c \, \sigma(-u)$ from u = 0, $u = -w^\top p$ of
    an outlier token.

    Its own gate $\sigma(w^\top p)$ multiplies the rate of gate_step at $\sigma = \frac12$ (there $c = 2 \times$ the
    rate). $u = ct/2$ while $ct \ll 1$ and $\log(ct)$ when $ct \gg 1$: the two phases. c grows with the attention, by
    Lemma 3 exponentially; the logarithm is what is left when it has stopped. $u = 1 + ct - W(e^{1 + ct})$, W
    Lambert's.

    c, t : >= 0, broadcast.  Returns u.  Raises ValueError for negative ones.

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
    r"""Eqs. 33 and 34. $\log(1 + ct/2) \le u_t \le \log(1 + ct)$ for $u_{t+1} = u_t + c \, \sigma(-u_t)$, $u_0 = 0$,
    $c \le 1$.

    With $g(t) = \log(1 + \gamma t / 2)$, $c \, \sigma(-g(t)) = \frac{c}{2 + \gamma t / 2}$ and
    $g(t+1) - g(t) = \log(1 + x)$, $x = \frac{\gamma}{2 + \gamma t}$. Below, $\gamma = c$:
    $\log(1 + x) \le x \le \frac{c}{2 + ct/2}$. Above, $\gamma = 2c$:
    $\log(1 + x) \ge \frac{x}{1 + x} = \frac{c}{1 + c(t+1)} \ge \frac{c}{2 + ct}$. $u + c \, \sigma(-u)$ is
    increasing, so both carry over. The proof's (i) asks $\gamma_1 \le \eta (1 - p_a) \beta^2$ of the lower one, which
    leaves out the $\kappa_a / V$ of the rate c.

    c : in (0, 1].  t : (...) steps.  Returns (lower, upper), each (...).

    States: mamba Eqs. 33-34
    """
    c, t = number("c", c, most=1, above=0), finite("t", t)
    return np.log1p(c * t / 2), np.log1p(c * t)


def clean_rest(p_a, l):
    r"""Lemma 5. Where $w^\top p$ of clean tokens settles, their outliers shut: $\log \frac{1 - x}{x}$, x the root of
    the last equation.

    With one $\sigma = 1 - x$ for all clean tokens, the query's too, and 0 for outliers,
    $\sum_{i \le l} E \, G_i = x - x (p_a + (1 - p_a) x)^l$, which the gradient of $E[zF]$ raises: at rest
    $1 = g^l + l (1 - p_a) x g^{l-1}$, $g = p_a + (1 - p_a) x$. The $\Theta(1)$ of Eq. 14 so depends on l: with
    $n = l (1 - p_a)$ it is near $\log \frac{n}{\log n}$.

    Returns a float, <= 0.  Raises ValueError for l < 1.

    States: mamba Lemma 5
    """
    p_a, l = number("p_a", p_a, 0, 1 - 1e-12), count("l", l)

    def slope(x):
        g = p_a + (1 - p_a) * x
        return 1 - g**l - l * (1 - p_a) * x * g ** (l - 1)

    x = brentq(slope, 0.0, 1.0)  # the slope falls from 1 - p_a^l to -l (1 - p_a)
    return float(np.log((1 - x) / x))


def nearest_clean_gate(a, s):
    r"""Eqs. 18 and 19. $G_{i^*} \ge (1 - \sigma_q) \, \sigma(w^\top p_{i^*}) (1 - \sum_o \sigma(w^\top p_o))$, $i^*$
    the clean example closest to the query.

    o runs over the outliers behind it, each with $G_o \le \sigma(w^\top p_o)$ (mechanism.outlier_gate);
    $\prod_o (1 - \sigma_o) \ge 1 - \sum_o \sigma_o$. The printed display has $l_{ts} \alpha$ of them below
    $\mathrm{poly}(M_1^{\kappa_a'})^{-1}$, and leaves out the query's $1 - \sigma_q$.

    a : (..., l+1) pre-activations, the query's last.  s : (..., l+1) outliers, -1 for none.
    Returns (left, right), each (...).  Raises ValueError for a prompt without a clean example.

    States: mamba Eqs. 18-19
    """
    a, s = np.broadcast_arrays(*same_last_axis(a=a, s=s))
    clean = s[..., :-1] < 0
    if not np.all(np.any(clean, axis=-1)):
        raise ValueError("s: every prompt needs a clean example")
    nearest = clean.shape[-1] - 1 - np.argmax(clean[..., ::-1], axis=-1)[..., None]
    sigma = sigmoid(a)
    behind = np.sum(np.where(np.arange(clean.shape[-1]) > nearest, sigma[..., :-1], 0), axis=-1)
    own = np.take_along_axis(sigma, nearest, axis=-1)[..., 0]
    return np.take_along_axis(gate(a), nearest, axis=-1)[..., 0], (1 - sigma[..., -1]) * own * (1 - behind)


def clean_product(a, s):
    r"""Eq. 31. $\prod_{i \le l+1} (1 - \sigma(w^\top p_i)) \le (1 - \frac{1}{1 + e^{c}})^n$, n clean examples, $-c$
    the least clean pre-activation.

    The outliers' factors are at most 1, the clean ones at most $1 - \sigma(-c)$. Printed with
    $e^{-V / (\kappa_a M_1)}$ where $-c = -V / (\kappa_a M_1)$ gives $e^{+V / (\kappa_a M_1)}$. With it
    $\sum_{i \le l} G_i = 1 - \sigma_q - \ldots \ge \frac14$ when the right side is $\le \frac14$ and
    $\sigma_q \le \frac12$.

    a, s : as in nearest_clean_gate.  Returns (left, right), each (...).

    States: mamba Eqs. 28-31
    """
    a, s = same_last_axis(a=a, s=s)
    clean = s[..., :-1] < 0
    least = np.min(np.where(clean, a[..., :-1], np.inf), axis=-1)
    left = np.exp(np.sum(-np.logaddexp(0, a), axis=-1))
    return left, np.where(np.any(clean, axis=-1), sigmoid(-np.minimum(least, 1e300)) ** np.sum(clean, axis=-1), 1.0)


def earlier_mass(G, clean, h):
    r"""Eqs. 23 and 26. $X = \sum_{i \text{ clean}} G_i \sum_{s > i} h_s$, one prompt's share in w's first step along
    what h measures.

    $h_s = \sigma(w^\top p_s) \, v^\top p_s$ (Eq. 23) or $\sigma(w^\top p_s)$ (Eq. 26). G, clean : (..., l). h : (...,
    l+1). Returns (...).

    States: mamba Eqs. 23-24; mamba Eqs. 25-26
    """
    G, clean, h = arrays(G=(G, "...i"), clean=(clean, "...i"), h=(h, "...s"))
    later = np.cumsum(h[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return np.sum(G * clean * later, axis=-1)


def mean_tail(B, mean, largest, c):
    r"""Eqs. 23 and 26. $\Pr(|\bar X - E X| \ge c E X) \le 2 e^{-2 B (c E X / b)^2}$ for B prompts, $0 \le X \le b$:
    Hoeffding's right side.

    Printed $e^{-l B (1 - p_a)^2 c^2}$, as if the l tokens of a prompt were l samples. But $G_i = 2^{-(l+2-i)}$ leaves a
    few tokens in charge, and the deviation does not fall with l: the batch alone averages.

    Returns a float.

    States: mamba Eqs. 23-24; mamba Eqs. 25-26
    """
    return 2 * np.exp(-2 * count("B", B) * (c * mean / number("largest", largest, above=0)) ** 2)
