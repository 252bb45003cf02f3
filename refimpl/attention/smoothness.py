r"""Lemma A.7 and Remark 2: how large a step may be.

    L = smoothness_constant(X, nu)                 the paper's, from operator norms
    L = gram_constant(X, gamma)                    ours: smaller by the factor that near-orthogonal samples give
    H = hessian(X, Y, q, nu)                       of the risk in q = W^T p: what both bound
"""

from refimpl.checks import number


def curvature(spread):
    r"""Ours. $D^2/32 + D/2$ bounds the loss's second derivatives in one sample's logits, $D = \max\gamma - \min\gamma$.

    With $h_t = s_t(\gamma_t - f)$ they are $\ell'' h h^\top + \ell' Y K$, $v^\top K v = E_s[(\gamma - f)(v - \bar v)^2]$.
    h sums to zero and $\sum_t |h_t| \le D/2$: its positive and negative parts weigh at most D/4 each, $\|h\|^2 \le D^2/8$.
    $|\gamma - f| \le D$ and $\mathrm{Var}_s v \le \|v\|^2/2$ give $\|K\| \le D/2$; $\ell'' \le 1/4$, $|\ell'| \le 1$.

    spread : D >= 0.  Returns a float.

    States: attention Lemma A.7
    """
    D = number("spread", spread, least=0)
    return D**2 / 32 + D / 2
