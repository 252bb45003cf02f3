r"""Sections 4.3 and H: the token-separation problem, and where descent goes instead.

$\min \|p\|$ subject to $(x_{t^*_i} - x_t)^\top W^\top p \ge 1$ for all i and all $t \ne t^*_i$.

    found = separate(X, picked)             the max-margin p, or found.p = None where none exists
    gaps  = kkt(found, X, picked)           its optimality conditions, each a relative violation
    angle(p, found.p)                       of order mismatch(found, ...) / log tau, p from runs.flow.flow_in_q

Once $t^*$ has nearly all attention, the risk is a sum of exponentials of the margins, each weighted by
$|\ell'_i| Y_i (\gamma_{t^*} - \gamma_t) / n$. The weights shift each margin by a logarithm, so at time $\tau$ the
directions differ by an angle of order $1 / \log\tau$: for unequal scores, and for equal ones where the
multipliers are unequal.
In the limit they agree while each support token scores less than $t^*$; where one scores more, they never do.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from refimpl.calculus.losses import logistic_derivative
from refimpl.checks import arrays, count, labels, matrix

RESOLVED = 1e-7  # of the longest token difference: a hull nearer to zero than this is taken to touch it


class Separation(NamedTuple):
    r"""What separate returns.

    p : (d,), or None where no p separates.  least : its smallest margin, 1 up to rounding, or None.
    multipliers : (n, T), 0 at the picked tokens; p is the sum of them times $W (x_{t^*} - x_t)$; or None.
    hull : the distance from 0 to the convex hull of the differences, over the longest of them: $1 / \|p\|$ in these
    units.

    States: attention Section H
    """

    p: np.ndarray | None
    multipliers: np.ndarray | None
    least: float | None
    hull: float


def separate(X, picked, W=None):
    r"""Section H. The p of least norm with every margin at least 1: a least-distance problem.

    The nearest point to $(0, 1)$ of the cone of the columns $(a_k, 1)$ is found by non-negative least squares,
    $u \ge 0$; with residual $1 - \sum u > 0$ the solution is $p = \sum_k u_k a_k / (1 - \sum u)$ (Lawson and Hanson).
    With none, $\sum_k u_k a_k = 0$: a combination that proves that no p exists (Gordan). Solved in the span
    of the differences, in units of the longest, and the tight margins then once more by least squares.

    X : (n, T, d), T >= 2.  picked : (n,) the indices $t^*_i$.  W : (d, d), the identity where None.
    Returns a Separation, its least margin checked to be at least 1 - 1e-6; without a p where none exists up to 1e-7 of
    the longest difference.  Raises FloatingPointError where neither holds, ValueError for other shapes or indices.

    States: attention Section H
    """
    A = _differences(X, picked, W)
    free = np.arange(A.shape[1]) != np.asarray(picked)[:, None]
    rows = A[free]
    longest = np.max(np.linalg.norm(rows, axis=1))
    if longest == 0:
        return Separation(None, None, None, 0.0)
    Q, R = np.linalg.qr(rows.T / longest)  # rows = longest R^T Q^T, at most m columns in R^T
    u, _ = nnls(np.vstack((R, np.ones(len(rows)))), np.append(np.zeros(len(R)), 1.0), maxiter=30 * len(rows))
    hull = float(np.linalg.norm(R @ u) / np.sum(u))
    if hull <= RESOLVED:
        return Separation(None, None, None, hull)
    tight = u > 0
    c = np.linalg.lstsq(R[:, tight].T, np.ones(tight.sum()), rcond=None)[0]
    p, least = Q @ c / longest, float(np.min(R.T @ c))
    if least < 1 - 1e-6:
        raise FloatingPointError(f"separate: least margin {least:.9f}, the differences are too nearly dependent")
    multipliers = np.zeros(free.shape)
    multipliers[free] = u / u.sum() * (c @ c) / longest**2  # 1 / (1 - sum u) = |p|^2 / sum u, without the cancellation
    return Separation(p, multipliers, least, hull)


def kkt(found, X, picked, W=None):
    r"""Section H. How far p and its multipliers are from optimal; for this convex problem all zero proves optimality.

    Stationary: $\|p - \sum m_{i,t} W(x_{t^*_i} - x_t)\| / \|p\|$.
    Primal: $\max(0, 1 - \min_{i,t} (x_{t^*_i} - x_t)^\top W^\top p)$.
    Dual: $\max(0, -\min m) / \max |m|$.
    Complementary: $\max_{i,t} |m_{i,t} ((x_{t^*_i} - x_t)^\top W^\top p - 1)| / \max |m|$.

    found : a Separation with a p.  X, picked, W : as in separate.  Returns {condition: violation}.

    States: attention Section H
    """
    if found.p is None:
        raise ValueError("found: not separable, there is no p to check")
    A, m = _differences(X, picked, W), found.multipliers
    free = np.arange(A.shape[1]) != np.asarray(picked)[:, None]
    excess, most = (A @ found.p - 1)[free], np.max(np.abs(m))
    return {
        "stationary": float(np.linalg.norm(found.p - np.tensordot(m, A, axes=2)) / np.linalg.norm(found.p)),
        "primal": float(max(0.0, -excess.min())),
        "dual": float(max(0.0, -m.min()) / most),
        "complementary": float(np.max(np.abs(m[free] * excess)) / most),
    }


def angle(p, q):
    r"""Section 4.3. The angle between two directions in radians.

    $2 \arctan(\|a - b\| / \|a + b\|)$ of the unit vectors: exact for small angles, where arccos is not.

    p, q : (d,), not zero.  Returns a float in [0, pi].  Raises ValueError for a zero vector.

    States: attention Section 4.3 (max-margin obstacles)
    """
    p, q = arrays(p=(p, "d"), q=(q, "d"))
    if not (np.any(p) and np.any(q)):
        raise ValueError("p, q: a zero vector has no direction")
    a, b = p / np.linalg.norm(p), q / np.linalg.norm(q)
    return float(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


def mismatch(found, X, Y, gamma, picked):
    r"""Section 4.3. The limit of $\log\tau$ times the angle between the flow's direction and the max-margin p, $W = I$.

    Once $t^*$ is picked, $\dot q = \sum w_{i,t} e^{-a_{i,t} \cdot q} a_{i,t}$ with $a = x_{t^*} - x_t$ and, up to
    a factor, $w_{i,t} = |\ell'(Y_i\gamma_{t^*})| Y_i (\gamma_{t^*} - \gamma_t)$. Try $q = p \log\tau + r$: support
    tokens, $a \cdot p = 1$, stay, $\sum w e^{-a \cdot r} a = p$, and so $a \cdot r = \log(w / \text{multiplier})$.
    The angle is $\|r_\perp\| / \|p\| \log\tau$, $r_\perp$ orthogonal to p; 0 only where all w / multiplier are equal.
    Early times may leave in r a part orthogonal to all support differences, so in general this is a lower
    bound; it is exact where every token is support.

    found : separate(X, picked), with a p.  X : (n, T, d).  Y, picked : (n,).  gamma : (n, T).
    Returns a float; inf where a support token has $Y\gamma_t \ge Y\gamma_{t^*}$: descent then leaves that direction.
    Raises ValueError where there is no p, or where support differences are dependent or have a multiplier of zero.

    States: attention Section 4.3 (max-margin obstacles)
    """
    if found.p is None:
        raise ValueError("found: not separable, there is no direction to compare with")
    X, Y, gamma, m = arrays(X=(X, "nTd"), Y=(Y, "n"), gamma=(gamma, "nT"), m=(found.multipliers, "nT"))
    A, scores = _differences(X, picked), labels("Y", Y)[:, None] * gamma
    support = np.abs(A @ found.p - 1) < 1e-9
    best = np.take_along_axis(scores, np.asarray(picked, int)[:, None], axis=1)
    w = -logistic_derivative(best) * (best - scores)
    if np.any(w[support] <= 0):
        return np.inf
    if np.any(m[support] == 0):
        raise ValueError("found: a support token has a multiplier of zero")
    r, _, rank, _ = np.linalg.lstsq(A[support], np.log(w[support] / m[support]), rcond=None)
    if rank < support.sum():
        raise ValueError("found: the support differences are dependent")
    r -= (r @ found.p) / (found.p @ found.p) * found.p
    return float(np.linalg.norm(r) / np.linalg.norm(found.p))


def _differences(X, picked, W=None):
    r"""Section H. (n, T, d): $W(x_{t^*_i} - x_t)$, whose products with p are the margins; zero at $t = t^*_i$."""
    X, picked = arrays(X=(X, "nTd"), picked=(picked, "n"))
    T = count("T", X.shape[1], least=2)
    if not np.all((picked == np.floor(picked)) & (0 <= picked) & (picked < T)):
        raise ValueError(f"picked: must be integers in 0 ... {T - 1}")
    A = np.take_along_axis(X, picked.astype(int)[:, None, None], axis=1) - X
    return A if W is None else A @ matrix(W, x=X[0, 0]).T
