"""What is measured in both papers' experiments: shares and slopes with their intervals, and a least integer.

low, high = binomial_interval(wrong, size)
slope, low, high = exponent(x, y)
n = least(reached)
"""

import bisect

import numpy as np
from scipy import stats

from refimpl.checks import arrays, count, number


def binomial_interval(wrong, size, confidence=0.99):
    """Eq. 12, ours. The Clopper-Pearson interval of a probability, when `wrong` of `size` draws were seen.

    wrong : 0 ... size.  size : draws, >= 1.  confidence : in (0, 1).  Returns (low, high).
    Raises ValueError outside these ranges.

    States: attention Eq. 12
    """
    wrong, size = count("wrong", wrong, least=0), count("size", size)
    if wrong > size:
        raise ValueError(f"wrong: {wrong} of {size}")
    tail = (1 - number("confidence", confidence, 0, 1)) / 2
    low = stats.beta.ppf(tail, wrong, size - wrong + 1) if wrong > 0 else 0.0
    high = stats.beta.ppf(1 - tail, wrong + 1, size - wrong) if wrong < size else 1.0
    return float(low), float(high)


def exponent(x, y, confidence=0.95):
    r"""Theorems 1 and 3, ours. The slope of $\log y$ on $\log x$ by least squares, with Student's interval.

    x, y : (n,) positive, n >= 3, at least two different x.  confidence : in (0, 1).
    Returns (slope, low, high).  Raises ValueError for other x, y and confidence.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Theorem 4 (prompt length)
    """
    x, y = arrays(x=(x, "n"), y=(y, "n"))
    if len(x) < 3 or np.any(x <= 0) or np.any(y <= 0) or np.ptp(x) == 0:
        raise ValueError("x, y: must be at least three positive numbers, and x not constant")
    X, Y = np.log(x) - np.mean(np.log(x)), np.log(y) - np.mean(np.log(y))
    slope = X @ Y / (X @ X)
    # From the residuals: scipy.stats.linregress takes 1 - r^2, which cancels where the fit is good.
    error = np.sqrt(np.sum((Y - slope * X) ** 2) / (len(x) - 2) / (X @ X))
    half = stats.t.ppf((1 + number("confidence", confidence, 0, 1)) / 2, len(x) - 2) * error
    return float(slope), float(slope - half), float(slope + half)


def least(reached):
    """Theorem 1, ours. The least integer n >= 0 at which reached(n) is true, as it then is for every larger one.

    reached : a function of an integer.  Returns an int.  Raises ValueError where it is not reached by 2^60.

    States: mamba Theorem 1 (iterations); mamba Theorem 4 (prompt length)
    """
    high = 1
    while not reached(high):
        high *= 2
        if high > 2**60:
            raise ValueError("reached: is false up to 2^60")
    return bisect.bisect_left(range(high), True, key=lambda n: bool(reached(n)))
