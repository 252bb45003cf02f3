r"""Sections 11.3 and 11.4: what the proofs say of the gates themselves, each inequality with both sides.

lower, upper = initial_gate(xi, n)                 Eq. 20: gates at the start
left, right  = nearest_clean_gate(a, s)            Eqs. 18, 19: the nearest clean example keeps its gate
left, right  = clean_product(a, s)                 Eq. 31: the examples' gates add up
X            = earlier_mass(G, clean, h)           Eqs. 23, 26: a prompt's share in w's first step
bound        = mean_tail(B, mean, largest, c)      and how well a batch averages it
"""

import numpy as np

from refimpl.calculus.gating import gate
from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays, count, finite, number, same_last_axis


def initial_gate(xi, n):
    r"""Eq. 20. The range of a gate at the start, when $|w^\top p_j| \le \xi$ for all tokens.

    With $n = l + 2 - i$ it is $2^{-n}(1 - n \xi / 2)$ to $2^{-n} e^{n \xi / 2}$: $G_i$ has n factors $\sigma(\pm
    w^\top p)$, each within $\frac12 (1 \pm \xi / 2)$, as $|\sigma'| \le 1/4$; then Bernoulli. The printed $2^{-n}(1
    \pm n \xi)$ contains this range where $n \xi \le 2.5$. Its $\xi = 1/(d+1)$ does not hold: $w^{(0)\top} p$ has
    standard deviation $\|p\| / \sqrt{d + 1}$.

    xi : >= 0.  n : (...) number of factors of each gate.  Returns (lower, upper), each (...).

    States: mamba Eq. 20
    """
    xi, n = number("xi", xi, 0), finite("n", n)
    return 0.5**n * (1 - n * xi / 2), 0.5**n * np.exp(n * xi / 2)


def nearest_clean_gate(a, s):
    r"""Eqs. 18 and 19. The gate of the clean example $i^*$ closest to the query, and a lower bound of it.

    $G_{i^*} \ge (1 - \sigma_q) \, \sigma(w^\top p_{i^*}) (1 - \sum_o \sigma(w^\top p_o))$, q the query and o over
    the outlier examples behind $i^*$. o runs over the outliers behind it, each with $G_o \le \sigma(w^\top p_o)$
    (mechanism.outlier_gate); $\prod_o (1 - \sigma_o) \ge 1 - \sum_o \sigma_o$. The printed display has $l_{ts}
    \alpha$ of them below $\mathrm{poly}(M_1^{\kappa_a'})^{-1}$, and leaves out the query's $1 - \sigma_q$.

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
    r"""Eq. 31. What all gates together let pass, and an upper bound of it.

    $\prod_{i \le l+1} (1 - \sigma(w^\top p_i)) \le (1 - \frac{1}{1 + e^{c}})^n$, with n clean examples of which the
    least pre-activation is $-c$: the outliers' factors are at most 1, the clean ones at most $1 - \sigma(-c)$.
    Printed with $e^{-V / (\kappa_a M_1)}$ where $-c = -V / (\kappa_a M_1)$ gives $e^{+V / (\kappa_a M_1)}$. With it
    $\sum_{i \le l} G_i = 1 - \sigma_q - \ldots \ge \frac14$ when the right side is $\le \frac14$ and $\sigma_q \le
    \frac12$.

    a, s : as in nearest_clean_gate.  Returns (left, right), each (...).  Raises ValueError for other shapes.

    States: mamba Eqs. 28-31
    """
    a, s = same_last_axis(a=a, s=s)
    clean = s[..., :-1] < 0
    least = np.min(np.where(clean, a[..., :-1], np.inf), axis=-1)
    left = np.exp(np.sum(-np.logaddexp(0, a), axis=-1))
    return left, np.where(np.any(clean, axis=-1), sigmoid(-np.minimum(least, 1e300)) ** np.sum(clean, axis=-1), 1.0)


def earlier_mass(G, clean, h):
    r"""Eqs. 23 and 26. One prompt's share in w's first step, $X = \sum_{i \text{ clean}} G_i \sum_{k > i} h_k$.

    Along an outlier $h_k = \sigma(w^\top p_k) \, v^\top p_k$ (Eq. 23), along a pattern $\sigma(w^\top p_k)$ (Eq.
    26).

    G : (..., l) the examples' gates.  clean : (..., l) which of them are clean.  h : (..., l+1), the query's last.
    Returns (...).

    States: mamba Eqs. 23-24; mamba Eqs. 25-26
    """
    G, clean, h = arrays(G=(G, "...i"), clean=(clean, "...i"), h=(h, "...k"))
    later = np.cumsum(h[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return np.sum(G * clean * later, axis=-1)


def mean_tail(B, mean, largest, c):
    r"""Eqs. 23 and 26. How far a batch's mean of X is from its expectation, by Hoeffding.

    $\Pr(|\bar X - E X| \ge c E X) \le 2 e^{-2 B (c E X / b)^2}$ for B prompts and $0 \le X \le b$. Printed is
    $e^{-l B (1 - p_a)^2 c^2}$, as if the l tokens of a prompt were l samples. But $G_i = 2^{-(l+2-i)}$ leaves a few
    tokens in charge, and the deviation does not fall with l: the batch alone averages.

    B : prompts.  mean : E X.  largest : b, > 0.  c : the relative deviation.  Returns the right side, a float.

    States: mamba Eqs. 23-24; mamba Eqs. 25-26
    """
    return 2 * np.exp(-2 * count("B", B) * (c * mean / number("largest", largest, above=0)) ** 2)
