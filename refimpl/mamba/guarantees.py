r"""Sections 3.3, 3.4: the conditions of Theorems 1 to 4, each with its slack.

    theorem_1_conditions(setting, T)                            # {condition: slack}, >= 1 where it holds
    theorem_2_conditions(setting, testing)

The theorems are asymptotic: every $\Theta$, $\gtrsim$ and poly has a constant, all of them arguments here, one
unless given. What is needed in fact is measured in runs/scaling.py and runs/boundaries.py. A slack is the side that
should be larger over the other one: 1 at equality, where a strict inequality (Theorems 2(c), 4(c)) fails though its
slack is 1.
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import number
from refimpl.mamba.setting import checked, filled


class Constants(NamedTuple):
    r"""Theorems 1 to 4. The constants that $\Theta$ and $\gtrsim$ hide, one by one.

    B : of the batch.  low, high : of the bounds of $\kappa_a$ and $\kappa_a'$.  length : of $l_{tr}$ and $l_{ts}$.
    poly, degree : the polynomial is poly times its argument to the degree.  T : of the iterations.

    States: mamba Theorem 1; mamba Theorem 2; mamba Theorem 3; mamba Theorem 4
    """

    B: float = 1.0
    low: float = 1.0
    high: float = 1.0
    length: float = 1.0
    poly: float = 1.0
    degree: float = 1.0
    T: float = 1.0


def batch(setting, gated=True, c=Constants()):
    r"""Theorem 1(i). $B_T = \max\{\epsilon^{-2}, M_1 (1 - p_a)^{-1}\} \log \epsilon^{-1}$, and Mamba's.

    $B_M = \max\{B_T, \beta^{-4} V^2 \kappa_a^{-2} (1 - p_a)^{-2} \log \epsilon^{-1}\}$. Section 10.1 leaves out the
    $V^2$, which Eq. 11 has.

    setting : a Setting.  gated : False for the linear Transformer.  c : Constants.
    Returns $B_M$, or $B_T$ if not gated.  Raises ValueError for a setting out of range.

    States: mamba Theorem 1; mamba Theorem 3; mamba Remark 4
    """
    s = checked(setting)
    needed = max(s.epsilon**-2, s.M1 / (1 - s.p_a))
    if gated:
        needed = max(needed, s.beta**-4 * s.V**2 * s.kappa_a**-2 * (1 - s.p_a) ** -2)
    return c.B * needed * np.log(1 / s.epsilon)


def iterations(setting, gated=True, c=Constants()):
    r"""Theorems 1(iv), 3(iv). $T_M = \Theta(\eta^{-1} (1 - p_a)^{-1} \beta^{-2} M_1)$ and $T_T = T_M / l_{tr}$.

    Theorem 3's proof has $\beta^{-1}$.

    setting, gated, c : as in batch.  Returns a float.  Raises ValueError for a setting out of range.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Remark 4
    """
    s = checked(setting)
    T = c.T * s.M1 / (s.eta * (1 - s.p_a) * s.beta**2)
    return T if gated else T / s.l


def theorem_1_conditions(setting, T, c=Constants()):
    r"""Theorem 1(i)-(iv) and $\eta \le 1$.

    (i) $B \ge B_M$; (ii) $V \beta^{-4} \lesssim \kappa_a \lesssim V \beta (1 - p_a) p_a^{-1} \epsilon^{-1}$; (iii)
    $(1 - p_a)^{-1} \log M_1 \lesssim l_{tr} \lesssim p_a^{-1} \mathrm{poly}(M_1^{\kappa_a})$; (iv) $T \ge T_M$. At
    $p_a = 0$ (Remark 2) the two upper bounds are void.

    setting : a Setting, its B and eta are used.  T : steps of SGD.  c : Constants.
    Returns {condition: slack}, >= 1 where it holds.  Raises ValueError for numbers out of range.

    States: mamba Theorem 1; mamba Theorem 1 (prompt length); mamba Remark 1; mamba Remark 2
    """
    s, T = checked(setting), number("T", T, above=0)
    return {
        **theorem_3_conditions(s, T, c),
        "(i) B": s.B / batch(s, True, c),
        "(ii) kappa_a >=": s.kappa_a / (c.low * s.V * s.beta**-4),
        "(iii) l_tr <=": _over(c.poly * float(s.M1) ** (s.kappa_a * c.degree), s.p_a * s.l),
        "(iv) T": T / iterations(s, True, c),
    }


def theorem_3_conditions(setting, T, c=Constants()):
    r"""Theorem 3(i)-(iv) and $\eta \le 1$.

    Theorem 1's with $B_T$ and $T_T$, without its lower bound of $\kappa_a$ and its upper bound of $l_{tr}$. The
    upper bound of $\kappa_a$ is the same in both, though Remark 4 says that the linear Transformer's is larger.

    setting, T, c : as in theorem_1_conditions.
    Returns {condition: slack}, >= 1 where it holds.  Raises ValueError for numbers out of range.

    States: mamba Theorem 3; mamba Remark 4
    """
    s, T = checked(setting), number("T", T, above=0)
    return {
        "(i) B": s.B / batch(s, False, c),
        "(ii) kappa_a <=": _over(c.high * s.V * s.beta * (1 - s.p_a) / s.epsilon, s.p_a * s.kappa_a),
        "(iii) l_tr >=": s.l / (c.length * np.log(s.M1) / (1 - s.p_a)),
        "(iv) T": T / iterations(s, False, c),
        "eta <= 1": 1 / s.eta,
    }


def theorem_2_conditions(setting, testing, c=Constants()):
    r"""Theorem 2(a)-(d), L the least $\sum_i \lambda_i$ of the mixtures.

    (a) $\sum_i \lambda_i > 0$;
    (b) $\kappa_a \le \kappa_a' \lesssim V \beta p_a^{-1} \kappa_a^{-1} L^{-1} (1 - p_a) \epsilon^{-1}$;
    (c) $\alpha < \min(1, p_a l_{tr} / l_{ts})$;
    (d) $(1 - \alpha)^{-1} \log M_1 \lesssim l_{ts} \lesssim \alpha^{-1} \mathrm{poly}(M_1^{\kappa_a})$.

    A smaller L allows larger outliers: nothing bounds $|\lambda_i|$, u or K', which the error depends on. (c) and
    (d) leave $\alpha$ below $p_a l_{tr} / (p_a l_{tr} + \log M_1)$. (c) is strict: it holds where its slack is
    above 1.

    setting : a Setting.  testing : a Testing.  c : Constants.
    Returns {condition: slack}, >= 1 where it holds.  Raises ValueError for numbers out of range.

    States: mamba Theorem 2; mamba Remark 3
    """
    s, t, L = _checked(setting, testing)
    return {
        "(a) sum lambda > 0": np.inf if L > 0 else 0.0,
        "(b) kappa_a' >=": t.kappa_a / s.kappa_a,
        "(b) kappa_a' <=": _largest_outlier(s, t, L, c),
        "(c) alpha <": _over(min(1.0, s.p_a * s.l / t.l), t.alpha),
        "(d) l_ts >=": t.l * (1 - t.alpha) / (c.length * np.log(s.M1)),
        "(d) l_ts <=": _over(c.poly * float(s.M1) ** (s.kappa_a * c.degree), t.alpha * t.l),
    }


def theorem_4_conditions(setting, testing, c=Constants()):
    r"""Theorem 4(a)-(d).

    (a) as in Theorem 2; (b) with $l_{tr}$ times more room than Theorem 2's upper bound; (c) $\alpha < \frac12$;
    (d) $l_{ts} \ge \max\{\Theta((1 - \alpha)^{-1}), \Theta(\alpha / (\frac12 - \alpha)^2)\} \log M_1$.
    (c) is strict: it holds where its slack is above 1.

    setting, testing, c : as in theorem_2_conditions.
    Returns {condition: slack}, >= 1 where it holds.  Raises ValueError for numbers out of range.

    States: mamba Theorem 4; mamba Theorem 4 (prompt length); mamba Remark 6
    """
    s, t, L = _checked(setting, testing)
    alpha = t.alpha
    length = max(1 / (1 - alpha), alpha / (0.5 - alpha) ** 2 if alpha != 0.5 else np.inf) * np.log(s.M1)
    return {
        "(a) sum lambda > 0": np.inf if L > 0 else 0.0,
        "(b) kappa_a' <=": s.l * _largest_outlier(s, t, L, c),
        "(c) alpha < 1/2": _over(0.5, alpha),
        "(d) l_ts >=": t.l / (c.length * length),
    }


def _checked(setting, testing):
    """The Setting, the Testing, and the least sum of a mixture's lambdas."""
    setting = checked(setting)
    testing = filled(testing, setting)
    return setting, testing, float(np.min(np.sum(testing.mixture, axis=1)))


def _largest_outlier(s, t, L, c):
    """The slack of Theorem 2(b)'s upper bound."""
    return _over(c.high * s.V * s.beta * (1 - s.p_a) / s.epsilon, s.p_a * s.kappa_a * max(L, 0.0) * t.kappa_a)


def _over(larger, smaller):
    return larger / smaller if smaller > 0 else np.inf
