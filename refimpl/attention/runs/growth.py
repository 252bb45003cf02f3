r"""Ours: the law by which one sample's logit gap grows, linear at first and logarithmic later.

g = growth(x, T, r)            grows at a constant rate where l' is constant
t = gap_time(x, T, ...)        when the gap is x: with l' frozen, and exactly
"""

import numpy as np
from scipy.integrate import quad

from refimpl.checks import count, finite, number

LARGEST = 700.0  # e^x and its multiples by T are floats up to here


def growth(x, T, r=1):
    r"""Section 4.3. $g(x) = 2x + 2\sinh(x - \log\frac{T - r}{r})$: linear, then exponential in the logit gap x.

    One sample, noise of squared norm V without overlaps, no signals; r tokens of score b + D with logits x above
    the T - r others, of score b. With $Z = r e^x + T - r$, $S = r e^x / Z$ and $s_t = e^x / Z$, $s_u = 1 / Z$,
    $\frac{dx}{dt} = \frac{V |\ell'| D}{n} (s_t (1 - S) + s_u S) = \frac{V |\ell'| D}{n} \cdot \frac{T e^x}{Z^2}$.
    And $Z^2 e^{-x} = r (T - r) g'(x)$: so g grows at the rate $\frac{V |\ell'| D}{n} \cdot \frac{T}{r (T - r)}$,
    constant where $\ell'$ is, and x only like $\log t$.

    x : any shape, |x| <= 700.  T : tokens.  r : 1 ... T - 1.  Returns the shape of x.  Raises ValueError.

    States: attention Section 4.3 (diminishing updates)
    """
    x, T, r = _checked(x, T, r)
    return 2 * x + 2 * np.sinh(x - np.log((T - r) / r))


def gap_time(x, T, V, D, n, r=1, b=None):
    r"""Section 4.3. When the gap is x: $\frac{V D}{n} \frac{T}{r (T - r)}\, t = \int_0^x (1 + e^{b + D S(y)})\, dg(y)$.

    $1 / |\ell'| = 1 + e^f$ with $f = b + D S(x)$, Y = +1. With b = None, $\ell'$ is frozen at -1/2 and t is
    $2 (g(x) - g(0))$ over the same rate.

    x : in [0, 700].  T : tokens.  V : squared norm of a noise.  D : > 0, the scores' difference.  n : samples.
    r : 1 ... T - 1.  b : the lower score, or None.  Returns t.
    Raises ValueError; FloatingPointError where t is beyond the floats.

    States: attention Section 4.3 (diminishing updates)
    """
    x, T, r = number("x", x, 0, LARGEST), *_checked(x, T, r)[1:]
    D, b = number("D", D, above=0), None if b is None else number("b", b)
    rate = number("V", V, above=0) * D / count("n", n) * T / (r * (T - r))
    if b is None:
        return float(2 * (growth(x, T, r) - growth(0.0, T, r)) / rate)
    if x + max(b + D, 0) > LARGEST:
        raise FloatingPointError(f"gap_time: at x = {x:g}, f up to {b + D:g}, t is beyond the floats")

    def integrand(y):
        S = 1 / (1 + (T - r) / r * np.exp(-y))
        return (1 + np.exp(b + D * S)) * _growth_derivative(y, T, r)

    return quad(integrand, 0, x, epsrel=1e-11, limit=200)[0] / rate


def _growth_derivative(x, T, r=1):
    r"""Section 4.3. $g'(x) = 2 + 2\cosh(x - \log\frac{T - r}{r}) = \frac{(r e^x + T - r)^2}{r (T - r) e^x}$."""
    return 2 + 2 * np.cosh(x - np.log((T - r) / r))


def _checked(x, T, r):
    x, T = finite("x", x), count("T", T, least=2)
    if np.max(np.abs(x)) > LARGEST:
        raise ValueError(f"x: must be in [-{LARGEST:g}, {LARGEST:g}], where e^x is a float")
    if count("r", r) >= T:
        raise ValueError(f"r: must be below T = {T}, got {r}")
    return x, T, r
