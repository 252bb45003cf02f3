r"""Section 11.2: how the pattern entries of W_B and W_C grow, in closed form while every hinge term is active.

    L = laplacian(tasks, M1)                       # of the task multigraph
    rate = eta * growth_rate(beta, M1, clean_mass(p_a, l))
    A = delta * beta**2 * mu_block(L, rate, t)     # mu_j^T W_C^(t) mu_k, and of W_B the same
    s = pattern_attention(L, rate, t, beta, delta) # attention of pattern j's examples to a query with pattern k

With $A_{jk} = \mu_j^\top W_C \mu_k$ and $B_{jk} = \mu_j^\top W_B \mu_k$, population SGD is the linear system
$A^+ = A + \eta r B L$, $B^+ = B + \eta r A L$. It supposes that z F < 1 for every prompt, that the gates do not
depend on what the tokens hold (always true of G = 1; true of Mamba at w = 0, nearly so at first), and Condition 1.
"""

import numpy as np

from refimpl.checks import arrays, count, number
from refimpl.mamba.setting import checked
from refimpl.mamba.tasks import condition_1


def laplacian(tasks, M1):
    r"""Lemma 3. $L = I - \frac{M_1}{2 |\mathcal T_{tr}|} N$, $N_{jk}$ the number of training tasks on patterns j and k.

    Either order counts. By Condition 1 each pattern has $2 |\mathcal T_{tr}| / M_1$ tasks, so that L is the
    normalised Laplacian of the task multigraph: symmetric, rows of sum 0, eigenvalues in [0, 2]. On the cycle they
    are $1 - \cos(2 \pi k / M_1)$, for all pairs 0 and $M_1 / (M_1 - 1)$, for disjoint pairs 0 and 2.

    tasks : (n, 2).  M1 : patterns.  Returns (M1, M1).  Raises ValueError for tasks that do not satisfy Condition 1.

    States: mamba Lemma 3
    """
    if min(condition_1(tasks, M1).values()) < 1:
        raise ValueError("tasks: must satisfy Condition 1")
    tasks, N = np.asarray(tasks, dtype=int), np.zeros((M1, M1))
    np.add.at(N, (tasks[:, 0], tasks[:, 1]), 1)
    return np.eye(M1) - M1 / (2 * len(tasks)) * (N + N.T)


def clean_mass(p_a, l, gated=True):
    r"""Lemma 3. $S = E \sum_{i \le l} G_i 1[i \text{ clean}]$, what the gates give clean examples.

    For Mamba at w = 0 the gates are $2^{-(l+2-i)}$ and S is $(1 - p_a)(1 - 2^{-l})/2$, a geometric sum; for G = 1
    it is $(1 - p_a) l$.

    p_a : in [0, 1].  l : examples.  gated : False for G = 1.  Returns a float.

    States: mamba Lemma 3
    """
    p_a, l = number("p_a", p_a, 0, 1), count("l", l)
    return (1 - p_a) * ((1 - 0.5**l) / 2 if gated else l)


def growth_rate(beta, M1, S):
    r"""Lemma 3. $r = \beta^2 S / (2 M_1)$, the rate of the linear system $A^+ = A + \eta r B L$.

    $\mu_j^\top(-\partial \ell / \partial W_C)\mu_k = \beta^2 E[1[j_q = k] \sum_i G_i z y_i \, \mu_j^\top W_B p_i]$.
    The query shows k, its task {k, m}, with probability $N_{km} / (2 |\mathcal T_{tr}|)$; a clean example then
    shows k ($z y_i = 1$) or m (-1), each with 1/2. The terms of $\nu$, of outliers and of the label column have
    mean 0 ($\kappa$ symmetric, labels fair, Condition 1). So it is $\beta^2 \frac{S}{2} \sum_m \frac{N_{km}}{2
    |\mathcal T_{tr}|} (B_{jk} - B_{jm}) = r (BL)_{jk}$; of $W_B$ the same, A for B.

    beta : > 0.  M1 : patterns.  S : from clean_mass.  Returns a float.

    States: mamba Lemma 3
    """
    return number("beta", beta, above=0) ** 2 * number("S", S, 0) / (2 * count("M1", M1, 2))


def mu_block(L, rate, t):
    r"""Lemma 3. $(I + \eta r L)^t$: from $W_B^{(0)} = W_C^{(0)} = \delta I$, $A = B = \delta \beta^2 (I + \eta r L)^t$.

    The first step is $\eta r \delta \beta^2 L$: a diagonal entry grows by $\eta \delta \beta^4 S / (2 M_1)$, a
    partner's falls by $\frac{M_1}{2 |\mathcal T_{tr}|} N_{jk}$ times that, and what forms no task stays. From the
    second step on the powers of L reach the partners' partners: then only the pairs that no path of tasks joins
    stay at 0.

    L : (M1, M1) from laplacian.  rate : $\eta r$.  t : steps, >= 0.  Returns (M1, M1).

    States: mamba Lemma 3; mamba Eqs. 21-22
    """
    values, vectors = np.linalg.eigh(arrays(L=(L, "jj")))
    return vectors * (1 + number("rate", rate, 0) * values) ** number("t", t, 0) @ vectors.T


def pattern_attention(L, rate, t, beta, delta):
    r"""Eqs. 16-17. Attention of patterns: $\mu_j^\top W_B^\top W_C \mu_k = \delta^2 \beta^2 (I + \eta r L)^{2t}_{jk}$.

    It is $(B^\top A)_{jk} / \beta^2$. An outlier on the example adds nothing in the mean: $v^\top W_B^\top W_C
    \mu_k$ starts at 0 and its labels are fair. The largest eigenvalue of L wins. Where the multigraph is bipartite
    (an even cycle) it is 2, of the vector that is +1 on one side and -1 on the other, and two patterns of one side,
    a task never trained, become alike.

    L, rate, t : as in mu_block.  beta, delta : > 0.  Returns (M1, M1).

    States: mamba Eqs. 16-17
    """
    return (number("delta", delta, above=0) * number("beta", beta, above=0)) ** 2 * mu_block(L, rate, 2 * t)


def diagonal_growth(L, rate, t, beta, delta):
    r"""Eqs. 10, 21, 22. $A_{jj}^{(t)} - A_{jj}^{(0)} \ge t \, \eta r \delta \beta^2$ for each pattern: both sides.

    $\sum_i v_i^2 (1 + \eta r \lambda_i)^t \ge 1 + t \eta r \sum_i v_i^2 \lambda_i$ (Bernoulli), and $L_{jj} = 1$.
    Printed with $\beta$ for the $\delta \beta^4$ in it; the left side leaves this line at once, since it is
    exponential in t.

    L, rate, t : as in mu_block.  beta, delta : > 0.  Returns (left (M1,), right).

    States: mamba Eqs. 21-22
    """
    scale = number("delta", delta, above=0) * number("beta", beta, above=0) ** 2
    return scale * (np.diag(mu_block(L, rate, t)) - 1), t * rate * scale


def step_noise(G, setting):
    r"""Lemma 3. How much the entries of W_C that have mean 0 move in the first step: standard deviations.

    For one prompt and $\eta = 1$. The terms $z G_i y_i \, x^\top W_B p_i \, p_q^\top x'$ are uncorrelated over i
    where $x$ meets a fair sign of its own ($\kappa_i$ or an outlier's label), so that variances add: e.g. of (v,
    mu) $\sum_i G_i^2 \frac{p_a}{V M_1} (\delta \kappa_a \|v\|^2 \beta^2)^2$. A batch divides them by B. So the
    entries are of order $1 / \sqrt{M_1 V}$, $1 / \sqrt{M_1 M_2}$ and $1 / M_2$, equal to the lemma's for $(\nu_k,
    \nu_k)$ alone. W_B's are the transposes.

    G : (l,) gates of the examples, the same for every prompt.  setting : a Setting.
    Returns {"v mu": ..., "nu mu": ..., "mu nu": ..., "nu nu": ...}.

    States: mamba Lemma 3
    """
    G, s = arrays(G=(G, "l")), checked(setting)
    squares, own, kappa = np.sum(G**2), s.delta * s.beta**4, s.K / np.sqrt(3)  # kappa ~ U(-K, K)
    alike = (1 - s.p_a) ** 2 / 4 * (np.sum(G) ** 2 - squares)  # two clean examples of one pattern pull alike
    outlier = s.delta * s.kappa_a * s.outlier_norm**2 * s.beta**2
    return {
        "v mu": outlier * np.sqrt(squares * s.p_a / (s.V * s.M1)),
        "nu mu": own * kappa * np.sqrt(squares / (s.M2 * s.M1)),
        "mu nu": own * kappa * np.sqrt(2 / s.M1 * (squares / 2 + alike) / s.M2),
        "nu nu": own * kappa**2 * np.sqrt(squares) / s.M2,
    }


def noise_ratio(gradients):
    r"""Eq. 15. $\rho^2 = E \|g - E g\|^2 / \|E g\|^2$ of one prompt's gradient g, the tokens' law given by a sample.

    By Chebyshev $\Pr(\|\bar g - E g\| \ge \epsilon \|E g\|) \le \rho^2 / (B \epsilon^2)$ for a batch of B. Eq. 15
    prints $e^{-B \epsilon^2}$, without $\rho$, which grows with $M_1$ and $(1 - p_a)^{-1}$.

    gradients : (n, ...), one prompt a row.  Returns a float.

    States: mamba Eq. 15
    """
    g = arrays(gradients=(np.asarray(gradients).reshape(len(gradients), -1), "nd"))
    return float(np.sum(np.var(g, axis=0, ddof=1)) / np.sum(np.mean(g, axis=0) ** 2))
