r"""Sections 3.3, 3.4, 10.3, 10.4: what the number of clean and of flipped examples in a prompt leaves to chance.

    no_clean_example(p_a, l)                 the least error of any model
    few_clean(l, p_a, c)                     Theorem 3's proof: both sides
    many_flipped(l, alpha)                   Theorem 4's proof: both sides
    flipped_error  training_vote_error       a linear Transformer whose examples vote

Exact binomial tails and the proofs' bounds on them.
"""

import numpy as np
from scipy.stats import binom

from refimpl.checks import finite, number


def no_clean_example(p_a, l):
    r"""Theorem 1(iii). $p_a^l / 2$, the least error of any model on Definition 1's prompts of length l.

    With probability $p_a^l$ every label is an outlier's, and fair. Where tasks come in both orders, as those of
    $\mathcal T$ do, nothing then tells (a, b) from (b, a). So an error $\epsilon$ needs
    $l \ge \log(1 / 2\epsilon) / \log(1 / p_a)$: of order $(1 - p_a)^{-1}$ as printed, but with $\log \epsilon^{-1}$
    in place of $\log M_1$.

    p_a : in [0, 1].  l : any shape, >= 0.  Returns the shape of l.  Raises ValueError outside these ranges.

    States: mamba Theorem 1 (prompt length); mamba Remark 1
    """
    if np.any(finite("l", l) < 0):
        raise ValueError(f"l: must be >= 0, got {l!r}")
    return number("p_a", p_a, 0, 1) ** finite("l", l) / 2


def few_clean(l, p_a, c):
    r"""Section 10.3. The chance that a pattern has few clean examples, and its bound.

    $\Pr(\frac1l \sum_i 1[\mu_a, \text{clean}] \le (1 - c) \frac{1 - p_a}{2}) \le e^{-l c^2 (1 - p_a) / 4}$:
    Lemma 1's lower tail at $p = (1 - p_a) / 2$ is $e^{-l p c^2 / 2}$. Printed without the last 1/2.

    l : any shape, integers >= 1.  p_a : in [0, 1].  c : in [0, 1].  Returns the two sides, each of the shape of l.
    Raises ValueError outside these ranges.

    States: mamba Theorem 3; mamba Theorem 1 (prompt length)
    """
    p, l, c = (1 - number("p_a", p_a, 0, 1)) / 2, _counts(l), number("c", c, 0, 1)
    return binom.cdf(np.floor((1 - c) * p * l * (1 + 1e-12)), l, p), np.exp(-l * p * c**2 / 2)


def many_flipped(l, alpha):
    r"""Section 10.4. The chance that many examples show the query's pattern, flipped, and its bound.

    $\Pr(\frac1l \sum_i 1[j_i = j_q, \text{flipped}] > \frac14) \le e^{-l (\frac12 - \alpha)^2 / (1 + 2 \alpha)}$.
    The multiplicative Chernoff bound is $e^{-l p \gamma^2 / (2 + \gamma)}$ at $p = \frac{\alpha}{2}$ and $\gamma =
    (\frac12 - \alpha) / \alpha$, which may exceed 1.

    Printed is $e^{-l (\frac12 - \alpha)^2 \alpha}$, with $\alpha$ where $1 / \alpha$ belongs: no
    $l = \Theta(\alpha (\frac12 - \alpha)^{-2}) \log \epsilon^{-1}$ makes that $\epsilon$.

    l : any shape, integers >= 1.  alpha : in (0, 1/2].  Returns the two sides, each of the shape of l.
    Raises ValueError outside these ranges.

    States: mamba Theorem 4
    """
    alpha, l = number("alpha", alpha, most=0.5, above=0), _counts(l)
    return binom.sf(np.floor(l / 4), l, alpha / 2), np.exp(-l * (0.5 - alpha) ** 2 / (1 + 2 * alpha))


def flipped_error(l, alpha):
    r"""Theorem 4. The linear Transformer's error on flipped labels, $\Pr(2 \, \mathrm{Bin}(l, \alpha) \ge l)$.

    For tasks whose partner's attention is minus the own (disjoint pairs, Lemma 3's limit), z F is that attention
    times the number of clean examples less that of flipped ones: each example votes once, and a tie counts as
    wrong. A trained model decides ties either way: at an even l it is flipped_error(l - 1, alpha). Above $\alpha =
    \frac12$ the error grows to 1.

    l : any shape, integers >= 1.  alpha : in [0, 1].  Returns the shape of l.  Raises ValueError outside these
    ranges.

    States: mamba Theorem 4; mamba Remark 6
    """
    l = _counts(l)
    return binom.sf(np.ceil(l / 2) - 1, l, number("alpha", alpha, 0, 1))


def training_vote_error(p_a, l):
    r"""Theorem 3(iii). The same model's error on training prompts: flipped_error at $\alpha = p_a / 2$.

    Half of the outliers' labels are wrong. So $l_{tr}$ must be of order $\alpha / (\frac12 - \alpha)^2 = 2 p_a / (1
    - p_a)^2$ (examples_needed), and not $(1 - p_a)^{-1}$: without gates $l p_a$ fair labels of size 1 stand against
    a signal of $l (1 - p_a)$.

    p_a : in [0, 1].  l : as in flipped_error.  Returns the shape of l.

    States: mamba Theorem 3
    """
    return flipped_error(l, number("p_a", p_a, 0, 1) / 2)


def _counts(l):
    """l as it is, one integer or an array of them, each at least 1; else ValueError."""
    if np.any(finite("l", l) < 1) or np.any(np.asarray(l) != np.floor(l)):
        raise ValueError(f"l: must be integers >= 1, got {l!r}")
    return np.asarray(l)
