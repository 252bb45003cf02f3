r"""Sections 3.3, 3.4, 10: the conditions of Theorems 1 to 4 with their slack, and the probabilities in their proofs.

    theorem_1_conditions(problem, B, T)                         # {condition: slack}, >= 1 where it holds
    theorem_2_conditions(problem, mixture, kappa_test, alpha, l_ts)

The theorems are asymptotic: every $\Theta$, $\gtrsim$ and poly has a constant, all of them arguments here, one unless
given. What is needed in fact is measured in scaling.py and boundaries.py. A slack is the side that should be larger
over the other one: 1 at equality, where a strict inequality (Theorems 2(c), 4(c)) fails though its slack is 1.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from refimpl.checks import arrays, count, finite, number


class Problem(NamedTuple):
    r"""Theorem 1. What its conditions are made of; Section 4.1's values.

    States: mamba Theorem 1; mamba Theorem 3
    """

    M1: int = 6
    V: int = 3
    beta: float = 3.0
    kappa_a: float = 2.0
    p_a: float = 0.6
    l_tr: int = 20
    eta: float = 1.0
    epsilon: float = 0.1


class Constants(NamedTuple):
    r"""Theorems 1 to 4. The constants that $\Theta$ and $\gtrsim$ hide, one by one;
    $\mathrm{poly}(x) = \mathrm{poly} \cdot x^{\mathrm{degree}}$.

    States: mamba Theorem 1; mamba Theorem 2; mamba Theorem 3; mamba Theorem 4
    """

    B: float = 1.0
    low: float = 1.0  # of kappa_a
    high: float = 1.0  # of kappa_a, kappa_a'
    length: float = 1.0
    poly: float = 1.0
    degree: float = 1.0
    T: float = 1.0


def batch(problem, gated=True, c=Constants()):
    r"""Theorem 1(i). $B_T = \max\{\epsilon^{-2}, M_1 (1 - p_a)^{-1}\} \log \epsilon^{-1}$,
    $B_M = \max\{B_T, \beta^{-4} V^2 \kappa_a^{-2} (1 - p_a)^{-2} \log \epsilon^{-1}\}$.

    Section 10.1 leaves $V^2$ out, which Eq. 11 has.  Returns B_M, or B_T if not gated.

    States: mamba Theorem 1; mamba Theorem 3; mamba Remark 4
    """
    M1, V, beta, kappa_a, p_a, _, _, epsilon = _valid(problem)
    needed = max(epsilon**-2, M1 / (1 - p_a))
    if gated:
        needed = max(needed, beta**-4 * V**2 * kappa_a**-2 * (1 - p_a) ** -2)
    return c.B * needed * np.log(1 / epsilon)


def iterations(problem, gated=True, c=Constants()):
    r"""Theorems 1(iv), 3(iv). $T_M = \Theta(\eta^{-1} (1 - p_a)^{-1} \beta^{-2} M_1)$ and $T_T = T_M / l_{tr}$.

    Theorem 3's proof has $\beta^{-1}$.  Returns a float.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Remark 4
    """
    problem = _valid(problem)
    T = c.T * problem.M1 / (problem.eta * (1 - problem.p_a) * problem.beta**2)
    return T if gated else T / problem.l_tr


def theorem_1_conditions(problem, B, T, c=Constants()):
    r"""Theorem 1(i)-(iv) and $\eta \le 1$, each as {condition: slack}.

    (ii) $V \beta^{-4} \lesssim \kappa_a \lesssim V \beta (1 - p_a) p_a^{-1} \epsilon^{-1}$, (iii)
    $(1 - p_a)^{-1} \log M_1 \lesssim l_{tr} \lesssim p_a^{-1} \mathrm{poly}(M_1^{\kappa_a})$. At p_a = 0 (Remark 2)
    the two upper bounds are void.

    States: mamba Theorem 1; mamba Theorem 1 (prompt length); mamba Remark 1; mamba Remark 2
    """
    p, B, T = _valid(problem), number("B", B, above=0), number("T", T, above=0)
    return {
        **theorem_3_conditions(p, B, T, c),
        "(i) B": B / batch(p, True, c),
        "(ii) kappa_a >=": p.kappa_a / (c.low * p.V * p.beta**-4),
        "(iii) l_tr <=": _over(c.poly * float(p.M1) ** (p.kappa_a * c.degree), p.p_a * p.l_tr),
        "(iv) T": T / iterations(p, True, c),
    }


def theorem_3_conditions(problem, B, T, c=Constants()):
    r"""Theorem 3(i)-(iv) and $\eta \le 1$: Theorem 1's with $B_T$ and $T_T$, without its lower bound of $\kappa_a$
    and upper one of $l_{tr}$.

    The upper bound of $\kappa_a$ is the same in both, though Remark 4 says that the linear Transformer's is larger.

    States: mamba Theorem 3; mamba Remark 4
    """
    p, B, T = _valid(problem), number("B", B, above=0), number("T", T, above=0)
    return {
        "(i) B": B / batch(p, False, c),
        "(ii) kappa_a <=": _over(c.high * p.V * p.beta * (1 - p.p_a) / p.epsilon, p.p_a * p.kappa_a),
        "(iii) l_tr >=": p.l_tr / (c.length * np.log(p.M1) / (1 - p.p_a)),
        "(iv) T": T / iterations(p, False, c),
        "eta <= 1": 1 / p.eta,
    }


def theorem_2_conditions(problem, mixture, kappa_test, alpha, l_ts, c=Constants()):
    r"""Theorem 2(a)-(d), each as {condition: slack}, L the least $\sum_i \lambda_i$ of the mixtures.

    (b) $\kappa_a \le \kappa_a' \lesssim V \beta p_a^{-1} \kappa_a^{-1} L^{-1} (1 - p_a) \epsilon^{-1}$, (c)
    $\alpha < \min(1, p_a l_{tr} / l_{ts})$, (d)
    $(1 - \alpha)^{-1} \log M_1 \lesssim l_{ts} \lesssim \alpha^{-1} \mathrm{poly}(M_1^{\kappa_a})$. A smaller L
    allows larger outliers: nothing bounds $|\lambda_i|$, u or K', which the error depends on. (c) and (d) leave
    $\alpha$ below $p_a l_{tr} / (p_a l_{tr} + \log M_1)$. (c) is strict: it holds where its slack is above 1.

    mixture : (S, V) the lambdas.  Raises ValueError for an alpha outside [0, 1), and other numbers out of range.

    States: mamba Theorem 2; mamba Remark 3
    """
    p, L, kappa_test, alpha, l_ts = _valid_test(problem, mixture, kappa_test, alpha, l_ts)
    return {
        "(a) sum lambda > 0": np.inf if L > 0 else 0.0,
        "(b) kappa_a' >=": kappa_test / p.kappa_a,
        "(b) kappa_a' <=": _upper(p, L, kappa_test, c),
        "(c) alpha <": _over(min(1.0, p.p_a * p.l_tr / l_ts), alpha),
        "(d) l_ts >=": l_ts * (1 - alpha) / (c.length * np.log(p.M1)),
        "(d) l_ts <=": _over(c.poly * float(p.M1) ** (p.kappa_a * c.degree), alpha * l_ts),
    }


def theorem_4_conditions(problem, mixture, kappa_test, alpha, l_ts, c=Constants()):
    r"""Theorem 4(a)-(d): (b) has $l_{tr}$ more than Theorem 2's, (c) $\alpha < \frac12$, (d)
    $l_{ts} \ge \max\{\Theta((1 - \alpha)^{-1}), \Theta(\alpha / (\frac12 - \alpha)^2)\} \log M_1$. (c) is strict:
    it holds where its slack is above 1.

    States: mamba Theorem 4; mamba Theorem 4 (prompt length); mamba Remark 6
    """
    p, L, kappa_test, alpha, l_ts = _valid_test(problem, mixture, kappa_test, alpha, l_ts)
    length = max(1 / (1 - alpha), alpha / (0.5 - alpha) ** 2 if alpha != 0.5 else np.inf) * np.log(p.M1)
    return {
        "(a) sum lambda > 0": np.inf if L > 0 else 0.0,
        "(b) kappa_a' <=": p.l_tr * _upper(p, L, kappa_test, c),
        "(c) alpha < 1/2": _over(0.5, alpha),
        "(d) l_ts >=": l_ts / (c.length * length),
    }


def no_clean_example(p_a, l):
    r"""Theorem 1(iii). $p_a^l / 2$: no model of any kind has a smaller error on Definition 1's prompts of length l,
    over tasks that come in both orders, as those of $\mathcal T$ do.

    With probability $p_a^l$ every label is an outlier's, fair, and nothing tells (a, b) from (b, a). So an error
    $\epsilon$ needs $l \ge \log(1 / 2\epsilon) / \log(1 / p_a)$, of order $(1 - p_a)^{-1}$ as printed, but
    $\log \epsilon^{-1}$ for $\log M_1$.

    States: mamba Theorem 1 (prompt length); mamba Remark 1
    """
    if np.any(finite("l", l) < 0):
        raise ValueError(f"l: must be >= 0, got {l!r}")
    return number("p_a", p_a, 0, 1) ** finite("l", l) / 2


def few_clean(l, p_a, c):
    r"""Section 10.3.
    $\Pr(\frac1l \sum_i 1[\mu_a, \text{clean}] \le (1 - c) \frac{1 - p_a}{2}) \le e^{-l c^2 (1 - p_a) / 4}$: both
    sides.

    Lemma 1's lower tail at $p = (1 - p_a) / 2$ is $e^{-l p c^2 / 2}$; printed without the last 1/2.

    States: mamba Theorem 3; mamba Theorem 1 (prompt length)
    """
    p, l, c = (1 - number("p_a", p_a, 0, 1)) / 2, _counts(l), number("c", c, 0, 1)
    return binom.cdf(np.floor((1 - c) * p * l * (1 + 1e-12)), l, p), np.exp(-l * p * c**2 / 2)


def many_flipped(l, alpha):
    r"""Section 10.4.
    $\Pr(\frac1l \sum_i 1[\text{query's pattern, flipped}] > \frac14) \le e^{-l (\frac12 - \alpha)^2 / (1 + 2 \alpha)}$:
    both sides.

    The multiplicative Chernoff bound $e^{-l p \gamma^2 / (2 + \gamma)}$ at $p = \frac{\alpha}{2}$,
    $\gamma = (\frac12 - \alpha) / \alpha$, which may exceed 1. Printed $e^{-l (\frac12 - \alpha)^2 \alpha}$, with
    $\alpha$ where $1 / \alpha$ belongs: no $l = \Theta(\alpha (\frac12 - \alpha)^{-2}) \log \epsilon^{-1}$ makes that
    $\epsilon$.

    States: mamba Theorem 4
    """
    alpha, l = number("alpha", alpha, most=0.5, above=0), _counts(l)
    return binom.sf(np.floor(l / 4), l, alpha / 2), np.exp(-l * (0.5 - alpha) ** 2 / (1 + 2 * alpha))


def flipped_error(l, alpha):
    r"""Theorem 4. The error $\Pr(2 \, \mathrm{Bin}(l, \alpha) \ge l)$ of the linear Transformer on flipped labels,
    ties counted as wrong.

    For tasks whose partner's attention is minus the own (disjoint pairs, Lemma 3's limit)
    $z F = s \, (\#\text{clean} - \#\text{flipped})$: each example votes once. A trained model
    decides ties either way: at an even l it is flipped_error(l - 1, alpha). Above $\alpha = \frac12$ it grows to 1.

    States: mamba Theorem 4; mamba Remark 6
    """
    l = _counts(l)
    return binom.sf(np.ceil(l / 2) - 1, l, number("alpha", alpha, 0, 1))


def training_vote_error(p_a, l):
    r"""Theorem 3(iii). flipped_error at $\alpha = p_a / 2$: the same model's error on training prompts, half of whose
    outlier labels are wrong.

    So $l_{tr}$ must be of order $\alpha / (\frac12 - \alpha)^2 = 2 p_a / (1 - p_a)^2$ (examples_needed), and not
    $(1 - p_a)^{-1}$: without gates $l p_a$ fair labels of size 1 stand against a signal of $l (1 - p_a)$.

    States: mamba Theorem 3
    """
    return flipped_error(l, number("p_a", p_a, 0, 1) / 2)


def _valid(p):
    """A Problem as it is, or a ValueError that names what is out of range."""
    count("M1", p.M1, 2), count("V", p.V), count("l_tr", p.l_tr)
    for name in ("beta", "kappa_a", "eta"):
        number(name, getattr(p, name), above=0)
    number("p_a", p.p_a, 0, 1 - 1e-12), number("epsilon", p.epsilon, most=1 - 1e-12, above=0)
    return p


def _valid_test(problem, mixture, kappa_test, alpha, l_ts):
    """The arguments of Theorems 2 and 4, the mixture as its least sum."""
    p, mixture = _valid(problem), arrays(mixture=(mixture, "SV"))
    if mixture.shape[1] != p.V:
        raise ValueError(f"mixture: must have V = {p.V} columns, got {mixture.shape[1]}")
    kappa_test, alpha = number("kappa_test", kappa_test, above=0), number("alpha", alpha, 0, 1 - 1e-12)
    return p, float(np.min(np.sum(mixture, axis=1))), kappa_test, alpha, count("l_ts", l_ts)


def _counts(l):
    """l as it is, one integer or an array of them, each at least 1; else ValueError."""
    if np.any(finite("l", l) < 1) or np.any(np.asarray(l) != np.floor(l)):
        raise ValueError(f"l: must be integers >= 1, got {l!r}")
    return np.asarray(l)


def _upper(p, L, kappa_test, c):
    return _over(c.high * p.V * p.beta * (1 - p.p_a) / p.epsilon, p.p_a * p.kappa_a * max(L, 0.0) * kappa_test)


def _over(larger, smaller):
    return larger / smaller if smaller > 0 else np.inf
