r"""Definition 4.1 and Eqs. 9, 10, 11, 13: what training leaves undecided, added up along a run.

    totals = start(s);  totals = add(totals, s, roles == RELEVANT) at each tau;  left, right = eq_9(totals, Y, Y_star)

$C_c$ and $N_c$ are the clean and the noisy samples whose observed label is c, so $C_c$ and $N_{-c}$ together
are those whose clean label is c. A class without samples sums to zero: see has_all_classes.
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.checks import arrays, labels

CLASSES = np.array([1, -1])


class Totals(NamedTuple):
    r"""Sums over $\tau' \le \tau$: uncertainty (..., n) of $\mathfrak S^{(i)}$, variance (..., n, T) of $s_t(1 - s_t)$.

    States: attention Eq. 9
    """

    uncertainty: np.ndarray
    variance: np.ndarray


def uncertainty(s, roles):
    r"""Definition 4.1. $\mathfrak S^{(i)} = (\sum_{t\in R} s_t)(1 - \sum_{t\in R} s_t)$, in [0, 1/4].

    The second factor is summed over the other tokens: nothing cancels when attention is one-hot.

    s : (..., n, T).  roles : (..., n, T).  Returns (..., n).  Raises ValueError where the axes do not agree.

    States: attention Definition 4.1
    """
    s, roles = arrays(s=(s, "...nT"), roles=(roles, "...nT"))
    return _uncertainty(s, roles == RELEVANT)


def start(s):
    """Eq. 9. The sums before the first step: zeros.

    s : (..., n, T), attention weights, for the shape.  Returns Totals.

    States: attention Eq. 9
    """
    s = arrays(s=(s, "...nT"))
    return Totals(np.zeros(s.shape[:-1]), np.zeros(s.shape))


def add(totals, s, relevant):
    r"""Eq. 9. The sums with one more $\tau'$: $\mathfrak S^{(i)}$ and $s_t(1 - s_t)$ at the weights s.

    totals : Totals.  s : (..., n, T).  relevant : (..., n, T), true on R.  Returns Totals.
    Called at every step, so it does not check its arguments.

    States: attention Eq. 9
    """
    return Totals(totals.uncertainty + _uncertainty(s, relevant), totals.variance + _variance(s))


def eq_9(totals, Y, Y_star):
    r"""Eq. 9. Both sides without $C_1$: $\sum_{C_c}\sum_{\tau'} \mathfrak S$ and $\max_{i,t}\sum_{\tau'} s_t(1 - s_t)$.

    totals : Totals.  Y, Y_star : (..., n).
    Returns left : (..., 2), classes +1, -1, and right : (...).

    States: attention Eq. 9
    """
    return _class_sums(totals, Y, Y_star, clean=True), np.max(totals.variance, axis=(-2, -1))


def eq_10(totals, Y, Y_star, scaled=False):
    r"""Eq. 10. $\sum_{C_{+1}} \mathfrak S$ and $\sum_{C_{-1}} \mathfrak S$; if scaled (Appendix I), each over $|C_c|$.

    totals : Totals.  Y, Y_star : (..., n).  scaled : True or False.
    Returns numerator : (...), denominator : (...).  A class without samples gives 0, or NaN where scaled.

    States: attention Eq. 10
    """
    sums = _class_sums(totals, Y, Y_star, clean=True)
    if scaled:
        sizes = _members(Y, Y_star, clean=True).sum(axis=-1)
        sums = np.divide(sums, sizes, out=np.full(sums.shape, np.nan), where=sizes > 0)
    return sums[..., 0], sums[..., 1]


def eq_11(totals, Y, Y_star):
    r"""Eq. 11 (benign). Both sides without $C_3$: $\sum_{C_c}\sum_{\tau'} \mathfrak S$, and $N_{-c}$ for $C_c$.

    $N_{-c}$ are the samples of class c labelled -c.

    totals : Totals.  Y, Y_star : (..., n).  Returns left, right : (..., 2), classes +1, -1.

    States: attention Eq. 11
    """
    return _class_sums(totals, Y, Y_star, clean=True), _class_sums(totals, Y, Y_star, clean=False)


def eq_13(totals, Y, Y_star):
    r"""Eq. 13 (harmful). Both sides without $C_3$: those of eq_11 in the other order.

    totals : Totals.  Y, Y_star : (..., n).  Returns left, right : (..., 2), classes +1, -1.

    States: attention Eq. 13
    """
    return eq_11(totals, Y, Y_star)[::-1]


def has_all_classes(Y, Y_star):
    r"""Eqs. 9-13. Whether both of $C_{+1}, C_{-1}$ have samples, and whether both of $N_{+1}, N_{-1}$ have.

    Y, Y_star : (..., n).  Returns two arrays (...) of bool.

    States: attention Eq. 9; attention Eq. 11
    """
    return tuple(_members(Y, Y_star, clean).any(axis=-1).all(axis=-1) for clean in (True, False))


def _members(Y, Y_star, clean):
    """(..., 2, n): for c = +1, -1, the samples of C_c where clean, else of N_{-c}; both have Y* = c."""
    Y, Y_star = arrays(Y=(Y, "...n"), Y_star=(Y_star, "...n"))
    of_class = labels("Y_star", Y_star)[..., None, :] == CLASSES[:, None]
    return of_class & ((labels("Y", Y) == Y_star) == clean)[..., None, :]


def _class_sums(totals, Y, Y_star, clean):
    summed, _ = arrays(totals=(totals.uncertainty, "...n"), Y=(Y, "...n"))
    return np.sum(summed[..., None, :] * _members(Y, Y_star, clean), axis=-1)


def _uncertainty(s, relevant):
    return np.sum(np.where(relevant, s, 0), axis=-1) * np.sum(np.where(relevant, 0, s), axis=-1)


def _variance(s):
    """s (1 - s); only the largest weight of a row can be above 1/2, and its 1 - s is the sum of the others."""
    large = s > 0.5
    others = np.sum(np.where(large, 0, s), axis=-1, keepdims=True)
    return s * np.where(large, others, 1 - s)
