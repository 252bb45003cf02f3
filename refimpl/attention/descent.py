r"""Section 3.4 and Lemma A.6: gradient descent on p with W fixed, on W with p fixed.

    p = descend_p(X, Y, nu, alpha, steps, (p_0, W))        from p_0, W fixed
    W = descend_W(X, Y, nu, alpha, steps, (p, W_0))        from W_0, p fixed

Both move only $q = W^\top p$, down the risk's gradient v in q: the first by $\alpha W^\top W v = \alpha v$, the second
by $\alpha \|p\|^2 v$. So they are one dynamics in q, at steps $\alpha \|p\|^2$ and $\alpha$ (Lemma A.6).
"""

import numpy as np

from refimpl.attention.model import query_gradient
from refimpl.checks import Diverged, arrays, count, labels, matrix, number


def descend_p(X, Y, nu, alpha, steps, start=(None, None), record=None):
    r"""Section 3.4. $p(\tau + 1) = p(\tau) - \alpha \nabla_p \hat L(p(\tau))$, W and $\nu$ fixed.

    X : (n, T, d).  Y : (n,).  nu : (d,).  alpha : > 0.  steps : >= 0.
    start : p(0) : (d,), 0 where None, and W : (d, d), the identity where None.
    record : called as record(tau, p) for tau = 0 ... steps; each p is an array of its own.
    Returns p(steps) : (d,).  Raises ValueError; Diverged (a FloatingPointError) with the step and the last finite p.

    States: attention Section 3.4 (gradient descent); attention Lemma A.6
    """
    X, Y, nu, alpha, steps = _checked(X, Y, nu, alpha, steps)
    p, W = start
    p = np.zeros_like(nu) if p is None else arrays(p=(p, "d"), nu=(nu, "d"))[0].copy()
    if W is not None:
        W = matrix(W, nu=nu)
    gamma = X @ nu

    def move(p):
        v = query_gradient(X, Y, p if W is None else p @ W, gamma)
        return p - alpha * (v if W is None else W @ v)

    return _iterate(move, p, steps, record)


def descend_W(X, Y, nu, alpha, steps, start, record=None):
    r"""Lemma A.6. $W(\tau + 1) = W(\tau) - \alpha \nabla_W \hat L(W(\tau))$, $p = p_0$ and $\nu$ fixed.

    Set beside descend_p with a fixed orthogonal $W_0$, from $p(0) = W_0 W(0)^\top p_0$, with step $\alpha\|p_0\|^2$:
    $W(\tau)^\top p_0 = W_0^\top p(\tau)$ for all $\tau$. At 0 both are $W(0)^\top p_0$. If they are one q at $\tau$,
    the gradients are $p_0 v^\top$ in W and $W_0 v$ in p with one v, so both sides move by $-\alpha\|p_0\|^2 v$.

    X, Y, nu, alpha, steps : as in descend_p.  start : $p_0$ : (d,) and W(0) : (d, d).
    record : called as record(tau, W) for tau = 0 ... steps.  Returns W(steps) : (d, d).  Raises as descend_p.

    States: attention Lemma A.6
    """
    X, Y, nu, alpha, steps = _checked(X, Y, nu, alpha, steps)
    p, W = start
    W, (p, _) = matrix(W, nu=nu), arrays(p=(p, "d"), nu=(nu, "d"))
    gamma = X @ nu
    return _iterate(lambda W: W - alpha * np.outer(p, query_gradient(X, Y, p @ W, gamma)), W.copy(), steps, record)


def _iterate(move, state, steps, record):
    for tau in range(steps + 1):
        if record is not None:
            record(tau, state.copy())
        if tau == steps:
            return state
        try:
            with np.errstate(over="raise", invalid="raise"):
                moved = move(state)
                if not np.all(np.isfinite(moved)):
                    raise FloatingPointError
        except FloatingPointError:
            raise Diverged(f"diverged: step {tau + 1} overflows (a smaller alpha?)", tau + 1, state) from None
        state = moved


def _checked(X, Y, nu, alpha, steps):
    X, Y, nu = arrays(X=(X, "nTd"), Y=(Y, "n"), nu=(nu, "d"))
    return X, labels("Y", Y), nu, number("alpha", alpha, above=0), count("steps", steps, least=0)
