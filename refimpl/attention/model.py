r"""Sections 3.2 and A.1: one softmax-attention layer, its risk, and the gradients by hand.

Self-attention (Eq. 1) with a prompt token p in front; its output at p's place is the model (Eq. 2)
$f(X) = \nu^\top X^\top S(X W^\top p) = \sum_t s_t \gamma_t$.

    s     = attention(X, p, W)                S(X W^T p)
    f     = output(X, p, nu, W)               Eq. 2
    L     = loss(X, Y, p, nu, W)              Eq. 3
    dL_dp = loss_gradient_p(X, Y, p, nu, W)   Eq. 18; loss_gradient_W and loss_gradient_nu beside it

W enters only through $q = W^\top p$. Where W is None it is the identity, and no (d, d) array is made.
"""

import numpy as np

from refimpl.calculus.losses import logistic, logistic_derivative, margin
from refimpl.calculus.softmax import softmax, softmax_jvp
from refimpl.checks import arrays, count, fits, labels, matrix


def self_attention(X, W_Q, W_K, W_V, queries=None):
    r"""Eq. 1. $S(X W_Q W_K^\top X^\top) X W_V$, softmax row by row; other queries than X make it cross-attention.

    X : (T, d).  W_Q, W_K : (d, k).  W_V : (d, m).  queries : (r, d), X where None.
    Returns (T, m), or (r, m).  Raises ValueError where the axes do not agree.

    States: attention Eq. 1
    """
    queries = X if queries is None else queries
    named = dict(X=(X, "td"), W_Q=(W_Q, "dk"), W_K=(W_K, "dk"), W_V=(W_V, "dm"), queries=(queries, "rd"))
    X, W_Q, W_K, W_V, queries = arrays(**named)
    return softmax(queries @ W_Q @ (X @ W_K).T) @ X @ W_V


def prompted_attention(X, p, W_Q, W_K, W_V):
    r"""Section 3.2. Cross-attention of $X_p = [p; X]$ with X: row 0 is $W_V^\top X^\top S(X W^\top p)$.

    There $W = W_Q W_K^\top$.

    X : (T, d).  p : (d,).  W_Q, W_K, W_V : as in self_attention.  Returns (T + 1, m).

    States: attention Eq. 1; attention Eq. 2
    """
    X, p = arrays(X=(X, "td"), p=(p, "d"))
    return self_attention(X, W_Q, W_K, W_V, queries=np.vstack((p, X)))


def scores(X, nu):
    r"""Section 3.2. The token scores $\gamma_t = \nu^\top x_t$.

    X : (..., T, d).  nu : (d,).  Returns (..., T).  Raises ValueError where the axes do not agree.

    States: attention Eq. 2
    """
    X, nu = arrays(X=(X, "...Td"), nu=(nu, "d"))
    return X @ nu


def attention(X, p, W=None):
    r"""Section 3.2. The attention weights $s = S(X W^\top p)$.

    X : (..., T, d).  p : (d,).  W : (d, d).  Returns (..., T).
    Raises ValueError where the axes do not agree, FloatingPointError where the logits overflow.

    States: attention Eq. 2
    """
    X, p = arrays(X=(X, "...Td"), p=(p, "d"))
    return softmax(_logits(X, _query(p, W)))


def output(X, p, nu, W=None):
    r"""Eq. 2. $f(X) = \nu^\top X^\top S(X W^\top p) = \sum_t s_t \gamma_t$.

    X : (..., T, d).  p, nu : (d,).  W : (d, d).  Returns (...).  Raises ValueError where the axes do not agree.

    States: attention Eq. 2
    """
    return np.sum(attention(X, p, W) * scores(X, nu), axis=-1)


def loss(X, Y, p, nu, W=None):
    r"""Eq. 3. The empirical risk $\hat L = \frac1n \sum_i \ell(Y_i f(X_i))$, $\ell$ logistic.

    X : (n, T, d).  Y : (n,).  p, nu : (d,).  W : (d, d).  Returns a float.
    Raises ValueError where the axes do not agree or a label is not -1 or +1.

    States: attention Eq. 3
    """
    X, Y, p, nu = _checked(X, Y, p, nu)
    return float(np.mean(logistic(margin(Y, output(X, p, nu, W)))))


def loss_gradient_p(X, Y, p, nu, W=None):
    r"""Eq. 18. $\nabla_p \hat L = \frac1n \sum_i \ell'_i Y_i W X_i^\top J(s_i) \gamma_i$, $\ell'_i = \ell'(Y_i f_i)$.

    $z = X q$ with $q = W^\top p$, $s = S(z)$, $f = \gamma^\top s$: so $\partial f/\partial z = J(s)\gamma$ (J is
    symmetric), $\partial f/\partial q = X^\top J\gamma$, and $\partial q/\partial p = W^\top$ puts W in front.

    Arguments as in loss.  Returns (d,).

    States: attention Eq. 18
    """
    X, Y, p, nu = _checked(X, Y, p, nu)
    v = query_gradient(X, Y, _query(p, W), X @ nu)
    return v if W is None else W @ v


def loss_gradient_W(X, Y, p, nu, W=None):
    r"""Lemma A.6. $\nabla_W \hat L = p v^\top$, $v = \frac1n \sum_i \ell'_i Y_i X_i^\top J(s_i) \gamma_i$: rank one.

    v is the gradient in q (query_gradient); $q_b = \sum_a W_{ab} p_a$, so $\partial q_b/\partial W_{ab} = p_a$.

    Arguments as in loss.  Returns (d, d).  Raises ValueError, too, where that exceeds 1 GiB.

    States: attention Lemma A.6
    """
    X, Y, p, nu = _checked(X, Y, p, nu)
    fits("gradient", len(p), len(nu))
    return np.outer(p, query_gradient(X, Y, _query(p, W), X @ nu))


def loss_gradient_nu(X, Y, p, nu, W=None):
    r"""Eq. 3. $\nabla_\nu \hat L = \frac1n \sum_i \ell'_i Y_i X_i^\top s_i$, since f is linear in $\nu$.

    Arguments as in loss.  Returns (d,).

    States: attention Eq. 3
    """
    X, Y, p, nu = _checked(X, Y, p, nu)
    s = softmax(_logits(X, _query(p, W)))
    slope = Y * logistic_derivative(Y * np.sum(s * (X @ nu), axis=-1)) / len(Y)
    return np.tensordot(slope[:, None] * s, X, axes=2)


def token_slopes(z, gamma, Y):
    r"""Eq. 18. $\frac1n \ell'_i Y_i (J(s_i)\gamma_i)_t$: the risk's derivative in each logit, n the last axis but one.

    z, gamma : (..., n, T).  Y : (..., n).  Returns (..., n, T).  Raises ValueError where the axes do not agree.

    States: attention Eq. 18
    """
    z, gamma, Y = arrays(z=(z, "...nT"), gamma=(gamma, "...nT"), Y=(Y, "...n"))
    Y, s = labels("Y", Y), softmax(z)
    slope = Y * logistic_derivative(Y * np.sum(s * gamma, axis=-1)) / Y.shape[-1]
    return slope[..., None] * softmax_jvp(s, gamma)


def query_gradient(X, Y, q, gamma):
    r"""Eq. 18. The risk's gradient in $q = W^\top p$: $v = \sum_{i,t} (\partial\hat L/\partial z^{(i)}_t) x^{(i)}_t$.

    X : (n, T, d), float64.  q : (d,).  gamma : (n, T).  Y : (n,).  Returns (d,).
    Raises FloatingPointError where the logits X q overflow, ValueError where the axes do not agree.

    States: attention Eq. 18
    """
    return np.tensordot(token_slopes(_logits(X, q), gamma, Y), X, axes=2)


def assumption_b(W, tolerance=1e-9):
    r"""Assumption B. $W W^\top = W^\top W = I$, up to rounding: slack = tolerance over the largest deviation.

    W : (d, d).  tolerance : of rounding, > 0.  Returns {condition: slack}, >= 1 where it holds.

    States: attention Assumption B
    """
    W = arrays(W=(W, "dd"))
    gaps = {"W W^T = I": W @ W.T, "W^T W = I": W.T @ W}
    gaps = {name: np.max(np.abs(G - np.eye(len(W)))) for name, G in gaps.items()}
    return {name: float(tolerance / gap) if gap > 0 else np.inf for name, gap in gaps.items()}


def random_orthogonal(rng, d):
    r"""Assumption B. A uniformly random orthogonal W: Q of a Gaussian matrix's QR, the signs of R's diagonal put right.

    rng : numpy Generator.  d : >= 1.  Returns (d, d).  Raises ValueError where that exceeds 1 GiB.

    States: attention Assumption B
    """
    fits("W", count("d", d), d)
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return Q * np.sign(np.diag(R))


def _query(p, W):
    """q = W^T p."""
    return p if W is None else p @ matrix(W, p=p)


def _logits(X, q):
    with np.errstate(over="ignore", invalid="ignore"):
        z = X @ q
    if not np.all(np.isfinite(z)):
        raise FloatingPointError("X, p: the logits X W^T p overflow")
    return z


def _checked(X, Y, p, nu):
    X, Y, p, nu = arrays(X=(X, "nTd"), Y=(Y, "n"), p=(p, "d"), nu=(nu, "d"))
    return X, labels("Y", Y), p, nu
