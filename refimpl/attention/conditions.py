r"""Sections 3.5 and A.8: what the theorems assume, as numbers, and the smallest setting that grants it all.

    setting = smallest_setting(n=12, T=4, delta=0.1, C=5)      rho at the upper end of (A'3)
    assumptions(setting, C)                                    {"A1": slack, ...}, >= 1 where it holds: Theorem 4.1
    strong_assumptions(setting, C)                             {"A'1": slack, ...}: Theorem 4.2
    common_assumptions(setting, C)                             {"A4": slack, ...}: both
    left, right = equation_45(setting, C)                      Tr(Sigma)^(1/2) against C T^2 n log(Tn/delta) / rho

Each is about a setting.Setting. The displays of (A'1)-(A'3) and of Eqs. 44-46 are rebuilt from how the text uses them.
"""

import math

from refimpl.attention.scores import score_spread
from refimpl.attention.setting import Setting, checked, log_factor
from refimpl.attention.smoothness import curvature
from refimpl.checks import count, number


def assumptions(setting, C):
    r"""Section 3.5, (A1)-(A3), with $\log$ for $\log(Tn/\delta)$.

    $\mathrm{Tr}\,\Sigma \ge C n \|\mu\|^2$; $\|\mu\| \ge C\, \mathrm{Tr}(\Sigma)^{1/4} \sqrt{\log}$;
    $C \sqrt{\log} / \|\mu\| \le \rho \le 1/C$.

    setting : a Setting.  C : > 0.  Returns {condition: slack}, >= 1 where it holds.  Raises ValueError out of range.

    States: attention Assumption A1; attention Assumption A2; attention Assumption A3
    """
    s, C = _checked(setting, C)
    return {
        "A1": s.trace / (C * s.n * s.norm**2),
        "A2": s.norm / (C * s.trace**0.25 * s.log**0.5),
        "A3 lower": s.weak_scale * s.norm / (C * s.log**0.5),
        "A3 upper": 1 / (C * s.weak_scale),
    }


def common_assumptions(setting, C):
    r"""Section 3.5, (A4)-(A6). $\alpha \le \min\{1/\mathrm{Lip}, n/\mathrm{Tr}\,\Sigma\}/C$; $n \ge C
    \log(1/\delta)$; $\eta \le 1/C$.

    Lip is the setting's lipschitz, or lipschitz_bound where that is None.

    setting, C : as in assumptions.  Returns {condition: slack}.  Raises ValueError as it does.

    States: attention Assumption A4; attention Assumption A5; attention Assumption A6
    """
    s, C = _checked(setting, C)
    lipschitz = lipschitz_bound(s) if s.lipschitz is None else s.lipschitz
    return {
        "A4": min(1 / lipschitz, s.n / s.trace) / (C * s.alpha),
        "A5": s.n / (C * math.log(1 / s.delta)),
        "A6": 1 / (C * s.noise_rate) if s.noise_rate > 0 else math.inf,
    }


def strong_assumptions(setting, C):
    r"""Section 3.5, (A'1)-(A'3) (rebuilt): what Theorem 4.2 needs in place of (A1)-(A3).

    $\mathrm{Tr}\,\Sigma \ge C T^2 n \|\mu\|^2$; $\|\mu\| \ge C (Tn)^{1/4}\, \mathrm{Tr}(\Sigma)^{1/4} \sqrt{\log}$;
    $C T \sqrt{\log} / \|\mu\| \le \rho \le \min\{1/T, 1/\sqrt{Tn}\}/C$.

    setting, C : as in assumptions.  Returns {condition: slack}.  Raises ValueError as it does.

    States: attention Assumption A'1; attention Assumption A'2; attention Assumption A'3
    """
    s, C = _checked(setting, C)
    return {
        "A'1": s.trace / (C * s.T**2 * s.n * s.norm**2),
        "A'2": s.norm / (C * (s.T * s.n * s.trace) ** 0.25 * s.log**0.5),
        "A'3 lower": s.weak_scale * s.norm / (C * s.T * s.log**0.5),
        "A'3 upper": weak_scale_limit(s.n, s.T, C) / s.weak_scale,
    }


def weak_scale_limit(n, T, C):
    r"""(A'3), upper end (rebuilt). $\min\{1/T, 1/\sqrt{Tn}\}/C$.

    n, T : >= 1.  C : > 0.  Returns a float.

    States: attention Assumption A'3
    """
    n, T = count("n", n), count("T", T)
    return 1 / (number("C", C, above=0) * max(T, math.sqrt(T * n)))


def equation_44(setting, C):
    r"""Eq. 44 (rebuilt). $\sqrt{\mathrm{Tr}\,\Sigma} \ge C n \log(Tn/\delta)$.

    setting : a Setting.  C : > 0.  Returns (left, right).

    States: attention Eq. 44
    """
    s, C = _checked(setting, C)
    return math.sqrt(s.trace), C * s.n * s.log


def equation_45(setting, C):
    r"""Eq. 45 (rebuilt). $\sqrt{\mathrm{Tr}\,\Sigma} \ge C T^2 n \log(Tn/\delta) / \rho$.

    setting : a Setting.  C : > 0.  Returns (left, right).

    States: attention Eq. 45
    """
    s, C = _checked(setting, C)
    return math.sqrt(s.trace), C * s.T**2 * s.n * s.log / s.weak_scale


def equation_46(setting, C):
    r"""Eq. 46 (rebuilt). $\|\mu\| \ge C T n \sqrt{\log(Tn/\delta)}$.

    setting : a Setting.  C : > 0.  Returns (left, right).

    States: attention Eq. 46
    """
    s, C = _checked(setting, C)
    return s.norm, C * s.T * s.n * math.sqrt(s.log)


def implied_slack(n, T, delta, C):
    r"""Lemma A.8. The slack of Eqs. 44-46 where the assumptions behind it hold with equality; it follows where >= 1.

    With slacks $a_1, a_2$ of (A1), (A2): $a_1 a_2^2 = \sqrt{\mathrm{Tr}\,\Sigma} / (C^3 n \log)$, so Eq. 44 has
    $C^2 a_1 a_2^2$. With $b_1, b_2, b_3$ of (A'1), (A'2), (A'3 lower): $b_1^{1/2} b_2^2 = \|\mu\| / (C^{5/2} T^{3/2}
    n \log)$, so Eq. 46 has $C^{3/2} (T \log)^{1/2} b_1^{1/2} b_2^2$; Eq. 45 has $(C / (n \log))^{1/2} b_1^{1/2} b_3$,
    below 1 in most settings: it does not follow from (A'1) as rebuilt.

    n, T : >= 1.  delta : in (0, 1).  C : > 0.  Returns {"Eq. 44": ..., "Eq. 45": ..., "Eq. 46": ...}.

    States: attention Lemma A.8
    """
    log = log_factor(n, T, delta)
    C = number("C", C, above=0)
    return {"Eq. 44": C**2, "Eq. 45": math.sqrt(C / (n * log)), "Eq. 46": C**1.5 * math.sqrt(T * log)}


def smallest_setting(n, T, delta, C, place=1.0, noise_rate=None, strong=True):
    r"""The smallest d, $\Sigma = I$, with (A'1)-(A'3), (A4)-(A6) and Eq. 45; for it the smallest $\|\mu\|$.

    $\rho = \mathrm{lower}^{1 - place}\, \mathrm{upper}^{place}$ between the ends of (A'3). A larger $\|\mu\|$ asks for
    a larger d in (A'1) and, through $\rho$, in Eq. 45; a larger d for a larger $\|\mu\|$ in (A'2). So raising each
    to what the other asks for, from where (A'3) begins to be satisfiable, ends at the smallest pair.
    The step is the largest in (A4) for the Lipschitz constant lipschitz_bound, with $\|\nu\| = 1/\|\mu\|$.

    n : >= C log(1/delta).  T : >= 3, since |R| = 1 and |W| = 2.  delta : in (0, 1).  C : >= 1.  place : in [0, 1].
    noise_rate : eta, 1/C where None.
    strong : where False, (A1)-(A3) in place of (A'1)-(A'3) and Eq. 45: what Theorem 4.1 needs.
    Returns a Setting, d an integer and lipschitz that bound.  Raises ValueError outside these ranges.

    States: attention Assumption A'1; attention Assumption A'2; attention Assumption A'3; attention Eq. 45
    """
    log, C = log_factor(n, T, delta), number("C", C, least=1)
    place = number("place", place, 0, 1)
    eta = number("noise_rate", 1 / C if noise_rate is None else noise_rate, 0, 1 / C)
    if n < C * math.log(1 / delta):
        raise ValueError(f"n: (A5) needs n >= C log(1/delta) = {C * math.log(1 / delta):.4g}, got {n}")
    t, N = (T, T * n) if strong else (1, 1)  # where the strong conditions have T and Tn, the weak ones have 1
    upper, up = weak_scale_limit(n, T, C) if strong else 1 / C, 1 + 1e-12  # up keeps the slacks at 1 through rounding
    norm, d, before = C * t * math.sqrt(log) / upper * up, 0, -1
    while d > before:
        rho = (C * t * math.sqrt(log) / norm * up) ** (1 - place) * upper**place
        root = C * T**2 * n * log / rho if strong else 0.0  # Eq. 45
        before, d = d, max(d, math.ceil(max(C * t**2 * n * norm**2, root**2) * up))
        norm = max(norm, C * (N * d) ** 0.25 * math.sqrt(log) * up)
    sizes = dict(n=n, T=T, d=d, norm=norm, weak_scale=min(rho, upper), noise_rate=eta, delta=float(delta))
    setting = checked(Setting(**sizes))
    lipschitz = lipschitz_bound(setting)
    return setting._replace(lipschitz=lipschitz, alpha=min(1 / lipschitz, n / d) / (C * up))


def lipschitz_bound(setting, c2=math.sqrt(14 / 3)):
    r"""(A4). On a good run, $\Sigma = I$, $\|\nu\| = 1/\|\mu\|$: the Lipschitz constant is at most $\|M\| (D^2/32 +
    D/2) / n$.

    D is scores.score_spread. M, the Gram matrix of the N = nT tokens, has $\|M\|^{1/2} \le \sqrt d + \sqrt N +
    \sqrt{2 \log(1/\delta)} + \sqrt N \|\mu\|$: the noise with probability $1 - \delta$, and N signals of norm $\le
    \|\mu\|$.

    setting : a Setting with Sigma = 1.  c2 : of Lemma A.1 (iii).
    Returns a float.  Raises ValueError for another Sigma.

    States: attention Assumption A4
    """
    s = checked(setting)
    if s.variance != 1:
        raise ValueError(f"Sigma: the bound is for Sigma = 1, got {s.Sigma}; give the setting's lipschitz")
    N = s.n * s.T
    root = math.sqrt(s.trace) + math.sqrt(N) * (1 + s.norm) + math.sqrt(2 * math.log(1 / s.delta))
    return root**2 * curvature(score_spread(s, c2)) / s.n


def _checked(setting, C):
    """The setting, with the numbers above 0 by which a slack is divided, and C."""
    s = checked(setting)
    number("Sigma: the trace", s.trace, above=0)
    number("weak_scale", s.weak_scale, above=0)
    return s, number("C", C, above=0)
