r"""Lemma A.7 and Remark 2: how curved the risk is, so how large a step may be.

    H = hessian(X, Y, q, nu)                        second derivatives of the risk in q = W^T p
    paper, sharp = smoothness_constants(X, nu)      bounds on |H|, from each sample's operator norm
    L = gram_constant(X, nu)                        ours: a bound that sees how nearly orthogonal samples are
    change, bound = descent_sides(X, Y, nu, p, alpha)

W is orthogonal (Assumption B), so the Hessian in p is $W H W^\top$: the same norm.
"""

import numpy as np

from refimpl.attention.model import loss, loss_gradient_p, scores
from refimpl.calculus.losses import logistic_derivative, sigmoid
from refimpl.calculus.softmax import softmax, softmax_jvp
from refimpl.checks import arrays, fits, labels, number


def hessian(X, Y, q, nu):
    r"""Lemma A.7. $\nabla^2 \hat L = \frac1n \sum_i X_i^\top (\ell''_i h h^\top + \ell'_i Y_i K) X_i$, in $q = W^\top
    p$.

    $f = \sum_t s_t\gamma_t$ has $\partial f/\partial z = h = J(s)\gamma$, $h_t = s_t (\gamma_t - f)$, and
    $K = \partial h/\partial z = \mathrm{diag}(h) - h s^\top - s h^\top$; $\ell'' = \sigma(Yf) \sigma(-Yf)$, $Y^2 = 1$.

    X : (n, T, d).  Y : (n,).  q, nu : (d,).  Returns (d, d).
    Raises ValueError where the axes do not agree, and where the result exceeds 1 GiB.

    States: attention Lemma A.7
    """
    X, Y, q, nu = arrays(X=(X, "nTd"), Y=(Y, "n"), q=(q, "d"), nu=(nu, "d"))
    fits("hessian", len(q), len(q))
    gamma, s = X @ nu, softmax(X @ q)
    h, f = softmax_jvp(s, gamma), labels("Y", Y) * np.sum(s * gamma, axis=-1)
    cross = h[:, :, None] * s[:, None, :]
    K = h[:, :, None] * np.eye(s.shape[-1]) - cross - cross.transpose(0, 2, 1)
    second = sigmoid(f) * sigmoid(-f)
    B = second[:, None, None] * h[:, :, None] * h[:, None, :] + (logistic_derivative(f) * Y)[:, None, None] * K
    return np.einsum("itd,itu,iue->de", X, B, X, optimize=True) / len(Y)


def smoothness_constants(X, nu):
    r"""Lemma A.7 (rebuilt). $L = \frac1n \sum_i (\frac14 \|\nu\|^2 \|X_i\|^4 + 3 \|\nu\| \|X_i\|^3)$, operator norms;
    and a sharper one.

    $\|h\| \le \|J\| \|\gamma\| \le \frac12 \|X_i\| \|\nu\|$ and $\ell'' \le \frac14$ give 1/16 in place of 1/4, which
    is attained; `curvature` gives $\|K\| \le D/2 \le \|\gamma\|/\sqrt2$, so $1/\sqrt2$ in place of 3.

    X : (n, T, d).  nu : (d,).  Returns the paper's and the sharper one, floats.
    Raises ValueError where the axes do not agree.

    States: attention Lemma A.7
    """
    X, nu = arrays(X=(X, "nTd"), nu=(nu, "d"))
    size, head = np.linalg.norm(X, ord=2, axis=(1, 2)), np.linalg.norm(nu)
    fourth, third = np.mean(head**2 * size**4), np.mean(head * size**3)
    return float(fourth / 4 + 3 * third), float(fourth / 16 + third / np.sqrt(2))


def curvature(spread):
    r"""Ours. $D^2/32 + D/2$ bounds the loss's second derivatives in one sample's logits, $D = \max\gamma - \min\gamma$.

    With h and K of `hessian`: h sums to zero and $\sum_t |h_t| \le D/2$, so its positive and negative parts weigh at
    most D/4 each, $\|h\|^2 \le D^2/8$. $v^\top K v = E_s[(\gamma - f)(v - \bar v)^2]$, $|\gamma - f| \le D$ and
    $\mathrm{Var}_s v \le \|v\|^2/2$ give $\|K\| \le D/2$; $\ell'' \le 1/4$, $|\ell'| \le 1$.

    spread : D >= 0.  Returns a float.

    States: attention Lemma A.7
    """
    D = number("spread", spread, least=0)
    return D**2 / 32 + D / 2


def gram_constant(X, nu):
    r"""Ours. $L = \frac1n \|M\| \max_i (D_i^2/32 + D_i/2)$, M the Gram matrix of all nT tokens, $D_i$ the spread of
    scores.

    The Hessian is $\frac1n X^\top B X$ with X all tokens as rows and B block diagonal: the samples' blocks do not add
    up where the tokens are nearly orthogonal. Lemma A.7 averages what here is divided by n.

    X : (n, T, d).  nu : (d,).  Returns a float.  Raises ValueError where the axes do not agree.

    States: attention Lemma A.7
    """
    X, nu = arrays(X=(X, "nTd"), nu=(nu, "d"))
    spread = np.ptp(scores(X, nu), axis=-1).max()
    return float(np.linalg.norm(X.reshape(-1, X.shape[-1]), ord=2) ** 2 * curvature(spread) / len(X))


def descent_sides(X, Y, nu, p, alpha, W=None):
    r"""Lemma A.7. $\hat L(p - \alpha g) - \hat L(p) \le -\frac\alpha2 \|g\|^2$, $g = \nabla_p \hat L(p)$, for $\alpha
    \le 1/L$.

    Summed: $\sum_\tau \|g(\tau)\|^2 \le \frac2\alpha \hat L(p(0))$, the risk being positive, so $g(\tau) \to 0$.

    X : (n, T, d).  Y : (n,).  nu, p : (d,).  alpha : > 0.  W : (d, d) orthogonal, the identity where None.
    Returns the two sides, floats.

    States: attention Lemma A.7
    """
    g, alpha = loss_gradient_p(X, Y, p, nu, W), number("alpha", alpha, above=0)
    return loss(X, Y, p - alpha * g, nu, W) - loss(X, Y, p, nu, W), float(-alpha / 2 * (g @ g))


def smoothness_on_good_runs(T, norm, trace, deviation, head):
    r"""Remark 2, corrected. Lemma A.7's L on a good run: of order $T^2 \|\mu\|^6$ under (A2), $\|\nu\| = 1/\|\mu\|$.

    $\|X_i\| \le \sqrt T b$, $b = \max_t \|x_t\| \le \|\mu\| + (1 + 1/C')\sqrt{\mathrm{Tr}\,\Sigma}$: so
    $L \le \frac14 \|\nu\|^2 T^2 b^4 + 3 \|\nu\| T^{3/2} b^3$. At $\mathrm{Tr}\,\Sigma = \theta\|\mu\|^4$ the first
    term is of order $\theta^2 T^2 \|\mu\|^6$, and L itself at least $\frac{\theta^2}{4} \|\mu\|^6$; the printed
    $T^{3/2} \|\mu\|^5$ is the second term's.

    T : >= 1.  norm, trace, head : $\|\mu\|, \mathrm{Tr}\,\Sigma, \|\nu\|$, > 0.  deviation : 1/C'.
    Returns the two terms, floats.

    States: attention Remark 2
    """
    head = number("head", head, above=0)
    b = number("norm", norm, above=0) + (1 + deviation) * np.sqrt(number("trace", trace, above=0))
    return float(head**2 * T**2 * b**4 / 4), float(3 * head * T**1.5 * b**3)
