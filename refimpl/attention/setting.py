r"""Section 3.5's letters in one place: the sizes of a problem, which data, runs, theory and figures all take.

setting = Setting()                               Section 5's benign experiment
setting._replace(d=10**12, norm=1e4)              another one
setting.trace, setting.sigma_max, setting.log     Tr(Sigma), the largest variance, log(Tn / delta)
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.checks import count, diagonal, number


class Setting(NamedTuple):
    r"""The sizes of Definition 3.1's data, of training and of the failure probability; the defaults are Section 5's.

    n, T, d : samples, tokens in each, dimensions.
    norm : $\|\mu\|$.
    relevant, weak : $|R|$ and $|W|$, tokens of a sample.
    weak_scale : $\rho$, the share of its signal that a weak token carries.
    noise_rate : $\eta$.
    alpha : the step of gradient descent.
    delta : $\delta$, the failure probability.
    Sigma : the diagonal of $\Sigma$, (d,) or one number.
    lipschitz : of the risk's gradient, or a bound on it; None for conditions.lipschitz_bound.

    States: attention Definition 3.1; attention Assumption A1; attention Assumption A4
    """

    n: int = 20
    T: int = 8
    d: int = 2000
    norm: float = 20.0
    relevant: int = 1
    weak: int = 2
    weak_scale: float = 0.2
    noise_rate: float = 0.2
    alpha: float = 1e-4
    delta: float = 0.1
    Sigma: float | np.ndarray = 1.0
    lipschitz: float | None = None

    @property
    def trace(self):
        r"""$\mathrm{Tr}\,\Sigma$, a float: d where $\Sigma = I$."""
        return float(self.d * self.Sigma) if np.ndim(self.Sigma) == 0 else float(np.sum(self.Sigma))

    @property
    def sigma_max(self):
        r"""$\sigma_{\max}$, the largest variance."""
        return float(np.max(self.Sigma))

    @property
    def variance(self):
        r"""$\sigma^2$ of a setting with $\Sigma = \sigma^2 I$; ValueError where Sigma is not one number above 0."""
        return number("Sigma", self.Sigma, above=0)

    @property
    def log(self):
        r"""$\log(Tn/\delta)$."""
        return log_factor(self.n, self.T, self.delta)


def checked(setting):
    r"""Definition 3.1. The setting with every number in its range.

    setting : a Setting.  Returns a Setting, its counts integers.
    Raises ValueError that names the field: $n, d \ge 1$, $|R| \ge 1$, $|W| \ge 2$ (both signs occur), $T \ge |R| +
    |W|$, $\|\mu\|, \alpha, \mathrm{Lip} > 0$, $\rho \ge 0$, $\eta \in [0, 1]$, $\delta \in (0, 1)$, $\Sigma \ge 0$.

    States: attention Definition 3.1
    """
    s = setting
    relevant, weak, d = count("relevant", s.relevant), count("weak", s.weak, least=2), count("d", s.d)
    T = count("T", s.T, least=relevant + weak)
    number("norm", s.norm, above=0)
    number("weak_scale", s.weak_scale, least=0)
    number("noise_rate", s.noise_rate, 0, 1)
    number("alpha", s.alpha, above=0)
    log_factor(s.n, T, s.delta)
    diagonal("Sigma", s.Sigma, d)
    if s.lipschitz is not None:
        number("lipschitz", s.lipschitz, above=0)
    return s._replace(n=int(s.n), T=T, d=d, relevant=relevant, weak=weak)


def log_factor(n, T, delta):
    r"""Section 3.5. $\log(Tn/\delta)$, the factor in all of the conditions.

    n, T : >= 1.  delta : in (0, 1).  Returns a float > 0.  Raises ValueError outside these ranges.

    States: attention Assumption A2
    """
    n, T, delta = count("n", n), count("T", T), number("delta", delta, above=0, most=1)
    if delta == 1:
        raise ValueError("delta: must be below 1, got 1")
    return math.log(T * n / delta)
